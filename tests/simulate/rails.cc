// Faults of rails while a cluster is stirred. They begin, last for a while, and end by themselves or when all is
// healed.
#include <algorithm>

#include "tests/simulate/cluster.h"

namespace ulnet::simulate {
namespace {

constexpr size_t kSickMost = 3;   ///< at the same time
constexpr Duration kLook = 20ms;  ///< between looks for operations that wait
constexpr Duration kHealthLook = 100ms;
constexpr std::array<double, 3> kShares{0.1, 0.4, 0.9};

}  // namespace

/// The rails of this NI of `member` to one other NI on its net, or to all.
std::vector<std::pair<Nid, Nid>> Cluster::pairs_of(const Member& member, const Nid& nid) {
  std::vector<std::pair<Nid, Nid>> pairs;
  for (const Member& other : members_)
    for (const Nid& to : other.nids)
      if (&other != &member && to.net() == nid.net()) pairs.emplace_back(nid, to);
  if (pairs.size() > 1 && rng_.one_in(2)) pairs = {pairs[rng_.below(pairs.size())]};
  return pairs;
}

void Cluster::rail_fault() {
  if (sick_.size() >= kSickMost) return;
  Member& member = any();
  if (!member.running() || member.nids.empty()) return;
  SickRail rail;
  rail.fault = RailFault(rng_.below(uint64_t(RailFault::kCount)));
  rail.member = member.number;
  rail.until = sim_.now() + Duration(100ms) + Duration(rng_.below(rng_.one_in(4) ? 15'000'000'000 : 3'000'000'000));
  rail.period = Duration(10ms) + Duration(rng_.below(490'000'000));
  const Nid nid = member.nids[rng_.below(member.nids.size())];
  if (rail.fault == RailFault::kLinkFlap)
    rail.nid = nid;
  else if (rail.fault != RailFault::kHang)
    rail.pairs = pairs_of(member, nid);
  if (rail.fault == RailFault::kHang && !member.router && rng_.one_in(2))
    for (const Member& other : members_)  // rather a gateway
      if (other.router && other.running()) rail.member = other.number;
  rail_begin(rail);
  sick_.push_back(std::move(rail));
}

void Cluster::rail_begin(SickRail& rail) {
  static constexpr const char* kNames[] = {"silent", "half-open", "flapping", "link flapping", "lossy", "hanging"};
  const uint64_t seconds = uint64_t((rail.until - sim_.now()) / 1ms);
  std::string what = rail.fault == RailFault::kHang ? members_[rail.member].name()
                     : rail.pairs.empty()           ? nid_text(rail.nid)
                                                    : nid_text(rail.pairs[0].first);
  if (rail.pairs.size() == 1) what += " and " + nid_text(rail.pairs[0].second);
  say(fmt::format("{} for {} ms: {}", kNames[size_t(rail.fault)], seconds, what));
  switch (rail.fault) {
    case RailFault::kSilent:
      ++counts_[Count::kSilentRails];
      for (const auto& [a, b] : rail.pairs) cut(a, b, false);
      return;
    case RailFault::kHalfOpen: {
      ++counts_[Count::kHalfOpenRails];
      const bool from = rng_.one_in(2);
      for (auto& [a, b] : rail.pairs) {
        if (from) std::swap(a, b);
        cut(a, b, true);
      }
      return;
    }
    case RailFault::kLossy: {
      ++counts_[Count::kLossyRails];
      const double share = kShares[rng_.below(kShares.size())];
      const bool with_error = rng_.one_in(2), both = rng_.one_in(2);
      for (const auto& [a, b] : rail.pairs) {
        lose(a, b, share, with_error);
        if (both) lose(b, a, share, with_error);
      }
      return;
    }
    case RailFault::kHang: ++counts_[Count::kHangs]; return hang(members_[rail.member], true);
    case RailFault::kFlapping:
    case RailFault::kLinkFlap: return rail_toggle(rail);
    case RailFault::kCount: break;
  }
}

void Cluster::rail_toggle(SickRail& rail) {
  ++counts_[Count::kFlaps];
  rail.on = !rail.on;
  rail.toggle_at = sim_.now() + rail.period;
  if (!rail.nid.is_any()) {
    if (rail.on ? links_down_.insert(rail.nid).second : links_down_.erase(rail.nid) > 0)
      sim_.set_link(rail.nid, !rail.on);
    return;
  }
  for (const auto& [a, b] : rail.pairs) {
    if (rail.on)
      cut(a, b, false);
    else
      mend(a, b);
  }
}

void Cluster::rail_end(SickRail& rail) {
  switch (rail.fault) {
    case RailFault::kSilent:
    case RailFault::kHalfOpen:
      for (const auto& [a, b] : rail.pairs) mend(a, b);
      return;
    case RailFault::kLossy:
      for (const auto& [a, b] : rail.pairs) {
        lose_none(a, b);
        lose_none(b, a);
      }
      return;
    case RailFault::kHang: return hang(members_[rail.member], false);
    case RailFault::kFlapping:
    case RailFault::kLinkFlap:
      if (rail.on) rail_toggle(rail);
      return;
    case RailFault::kCount: break;
  }
}

void Cluster::rails_turn() {
  for (SickRail& rail : sick_)
    if (sim_.now() >= rail.toggle_at && sim_.now() < rail.until) rail_toggle(rail);
  for (auto at = sick_.begin(); at != sick_.end();) {
    if (sim_.now() < at->until) {
      ++at;
      continue;
    }
    rail_end(*at);
    at = sick_.erase(at);
  }
}

Instant Cluster::rails_next() const {
  Instant next = kForever;
  for (const SickRail& rail : sick_) next = std::min({next, rail.until, rail.toggle_at});
  return next;
}

void Cluster::run_stirred(Duration time) {
  for (const Instant end = sim_.now() + time; sim_.now() < end && failure_.empty();) {
    const Instant look = std::min({end, rails_next(), sim_.now() + kLook});
    run_for(std::max<Duration>(look - sim_.now(), 1us));
    rails_turn();
    for (Member& member : members_)
      if (member.running() && failure_.empty()) failure_ = watch_.waits(*member.node, sim_.now());
    if (sim_.now() < health_look_at_) continue;
    health_look_at_ = sim_.now() + kHealthLook;
    count_health();
  }
}

}  // namespace ulnet::simulate
