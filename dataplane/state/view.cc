#include "dataplane/state/view.h"

#include <set>

namespace ulnet {
namespace {

/// The numbers at `index` in the list of each NI of the net.
template <class List>
uint64_t level_bits(const LocalView& view, const NetView& net, List list) {
  const std::vector<uint32_t>& first = view.nis[net.first].*list;
  uint64_t bits = 0;
  for (size_t index = 0; index < std::min<size_t>(first.size(), 64); ++index) {
    bool level = true;
    for (uint32_t i = 1; i < net.count; ++i) {
      const std::vector<uint32_t>& one = view.nis[net.first + i].*list;
      level = level && index < one.size() && one[index] == first[index];
    }
    bits |= uint64_t{level} << index;
  }
  return bits;
}

/// Of the ranks of a net's NIs.
Level level_of(const Rank* first, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i)
    if (first[i].key != first->key || first[i].handicap != first->handicap || first[i].slot != first->slot + i ||
        first[i].key == Rank::kNone || first[i].slot / kTallyBlock != first->slot / kTallyBlock)
      return {};
  return {count > 0, count > 0 ? first->slot : 0};
}

Preferring preferring_of(const PeerView& view, const PeerNetView& net) {
  const PeerNiView* const nis = view.nis.data() + net.first;
  std::set<uint32_t> ids;
  for (uint32_t i = 0; i < net.count; ++i)
    if (nis[i].sources != nullptr)
      for (const Preferences::One& one : nis[i].sources->all) ids.insert(one.id);
  Preferring preferring;
  for (const uint32_t id : ids) {
    uint32_t best = kNoPriority;
    uint64_t bits = 0;
    for (uint32_t i = 0; i < net.count; ++i) {
      const uint32_t rank = nis[i].sources == nullptr ? kNoPriority : nis[i].sources->rank(id);
      if (rank < best) bits = 0;
      if (rank <= best) bits |= uint64_t{1} << i;
      best = std::min(best, rank);
    }
    preferring.rows.push_back({id, bits});
  }
  return preferring;
}

}  // namespace

void rank_nis(LocalView& view) {
  view.ranks.clear();
  view.nid_bits = {};
  for (const NiView& ni : view.nis) {
    view.ranks.push_back({ni.going() ? Rank::kNone : Rank::key_of(ni.fatal, ni.health, ni.priority), ni.slot, 0});
    const uint64_t hash = ni.nid.hash();
    view.nid_bits[(hash >> 6) % view.nid_bits.size()] |= uint64_t{1} << (hash % 64);
  }
  for (NetView& net : view.nets) {
    if (net.count == 0) continue;
    net.level_memory = level_bits(view, net, &NiView::distances);
    net.level_accelerator = level_bits(view, net, &NiView::device_priorities);
    net.usable = false;
    net.credits_most = 0;
    for (uint32_t i = net.first; i < net.first + net.count; ++i) {
      net.usable |= view.ranks[i].key != Rank::kNone;
      net.credits_most = std::max(net.credits_most, view.nis[i].tx_credits);
    }
    for (uint32_t i = net.first; i < net.first + net.count; ++i)
      view.ranks[i].handicap = uint32_t(net.credits_most - view.nis[i].tx_credits);
    net.level = level_of(view.ranks.data() + net.first, net.count);
  }
}

void rank_nis(PeerView& view) {
  view.ranks.clear();
  for (const PeerNiView& ni : view.nis)
    view.ranks.push_back({Rank::key_of(ni.known_down, ni.health, ni.priority), ni.slot, 0});
  for (PeerNetView& net : view.nets) {
    net.lists_differ = false;
    net.credits_most = 0;
    for (uint32_t i = net.first; i < net.first + net.count; ++i) {
      net.lists_differ |= view.nis[i].sources != view.nis[net.first].sources;
      net.credits_most = std::max(net.credits_most, view.nis[i].tx_credits);
    }
    for (uint32_t i = net.first; i < net.first + net.count; ++i)
      view.ranks[i].handicap = uint32_t(net.credits_most - view.nis[i].tx_credits);
    net.level = level_of(view.ranks.data() + net.first, net.count);
    net.preferring = net.lists_differ && net.count <= 64 ? preferring_of(view, net) : Preferring{};
  }
}

}  // namespace ulnet
