// The one source that a peer without multi-rail sees (docs/wire/lnet.md §5.7, docs/decisions.md #83). One source is
// recorded, without regard to rules: this part of PeerDb is here, beside Policy::plain_source(), which lets rules
// choose another one. Hence a deleted rule leaves no trace. Thread: control.
#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "control/peers/peer_db.h"
#include "control/policy/policy.h"

namespace ulnet {
namespace {

/// The best of `nis` by link and health; of equals, peers take turns by `turn`. Null: there is none.
const LocalNi* source_to_record(std::vector<LocalNi*> nis, uint32_t turn) {
  const auto grade = [](const LocalNi* ni) { return std::pair(!ni->fatal, ni->health.value()); };
  std::pair best(false, uint16_t{0});
  for (const LocalNi* ni : nis) best = std::max(best, grade(ni));
  std::erase_if(nis, [&](const LocalNi* ni) { return grade(ni) != best; });
  return nis.empty() ? nullptr : nis[turn % nis.size()];
}

/// True if the recorded source is one of `nis`, and usable if one of them is.
bool source_stays(const std::vector<LocalNi*>& nis, const Nid& recorded) {
  const bool usable = std::any_of(nis.begin(), nis.end(), [](const LocalNi* ni) { return ni->usable(); });
  return std::any_of(nis.begin(), nis.end(),
                     [&](const LocalNi* ni) { return ni->nid == recorded && (ni->usable() || !usable); });
}

/// True if `nis` has other sources than this, which may be ANY.
bool source_is_gone(const std::vector<LocalNi*>& nis, const Nid& source) {
  return !source.is_any() && std::none_of(nis.begin(), nis.end(), [&](const LocalNi* ni) { return ni->nid == source; });
}

}  // namespace

const LocalNi* PeerDb::choose_source(Net net) {
  return source_to_record(deps_.nis.on_net(net), next_source_++);
}

// A non-MR peer keeps its one source (docs/wire/lnet.md §5.7) until the NI goes, or is unusable and another is usable.
void PeerDb::record_source(Peer& peer, PeerNet& net, const std::vector<LocalNi*>& local) {
  for (PeerNi* ni : net.nis) {
    if (source_is_gone(local, ni->policy.source)) touch(peer);  // rules choose again
    if (peer.multi_rail() ? ni->source.is_any() : source_stays(local, ni->source)) continue;
    if (ni->source.is_any() && local.empty()) continue;
    ni->source = peer.multi_rail() || local.empty() ? kAnyNid : source_to_record(local, next_source_++)->nid;
    touch(peer);
  }
}

void PeerDb::follow_sources() {
  if (!sources_due_) return;
  std::vector<std::pair<NiId, bool>> usable;
  for (const LocalNi* ni : deps_.nis.all())
    if (!ni->going()) usable.emplace_back(ni->id, ni->usable());
  if (usable != usable_seen_)
    for_each_net([this](Peer& peer, PeerNet& net, const auto& local) { record_source(peer, net, local); });
  usable_seen_ = std::move(usable);
  sources_due_ = false;
}

// While the recorded source is usable, only an NI that rules rank before it, with no lower health, replaces it. Such
// NIs count by rank, then by health. Otherwise the order is that of docs/wire/lnet.md §6.2, with the list of a pair
// rule after the priority of the NI. Of sources that are alike, peers take turns by their NIDs.
Nid Policy::plain_source(const Nid& to, const Nid& recorded, const PolicyList& preferred) {
  comparisons_ += objects_.sources.size();
  struct Candidate {
    const PolicyObjects::Source* source;
    std::pair<uint32_t, uint32_t> rank;  // by rules: of the NI, in the list
    std::tuple<bool, int, std::pair<uint32_t, uint32_t>, int> place;
  };
  std::vector<Candidate> all;
  std::optional<Candidate> is;
  all.reserve(objects_.sources.size());
  for (size_t i = 0; i < objects_.sources.size(); ++i) {
    const PolicyObjects::Source& one = objects_.sources[i];
    if (one.nid.net() != to.net()) continue;
    const uint32_t listed = preferred.list == nullptr ? kNoPriority : preferred.list->rank(one.ni.value);
    const std::pair rank(source_priorities_[i], listed);
    all.push_back({&one, rank, {one.fatal, -int(one.health), rank, 0}});
    if (one.nid == recorded) is = all.back();
  }
  if (is && is->source->usable()) {
    std::erase_if(all, [&](const Candidate& one) {
      return !one.source->usable() || one.source->health < is->source->health || one.rank >= is->rank;
    });
    for (Candidate& one : all) one.place = {false, 0, one.rank, -int(one.source->health)};
  }
  if (all.empty()) return recorded;
  const auto before = [](const Candidate& a, const Candidate& b) { return a.place < b.place; };
  const Candidate best = *std::min_element(all.begin(), all.end(), before);
  if (is && is->place == best.place) return recorded;
  std::erase_if(all, [&](const Candidate& one) { return one.place != best.place; });
  return all[to.hash() % all.size()].source->nid;
}

}  // namespace ulnet
