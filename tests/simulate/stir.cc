// Events in a cluster before it is healed: traffic, changes of configuration and faults, in an order that the seed
// decides. This file does not check how a node reacts.
#include <algorithm>

#include "tests/simulate/cluster.h"

namespace ulnet::simulate {
namespace {

constexpr int kStirs = 100;
constexpr int kRailedStirs = 60;
constexpr size_t kNisMost = 4;  // of one node

}  // namespace

Member& Cluster::any() {
  return members_[rng_.below(members_.size())];
}

Member* Cluster::any_running() {
  Member& member = any();
  return member.running() ? &member : nullptr;
}

// Mostly a NID that somebody has.
Nid Cluster::any_nid() {
  const Member& member = any();
  if (!member.nids.empty() && !rng_.one_in(6)) return member.nids[rng_.below(member.nids.size())];
  const Net net = nets_[rng_.below(nets_.size())];
  const auto nid = free_nid(member, net);
  return nid ? *nid : member.nids.front();
}

void Cluster::stir() {
  set_faults();
  for (int i = 0; i < (railed_ ? kRailedStirs : kStirs) && failure_.empty(); ++i) {
    for (uint64_t n = rng_.below(railed_ ? 8 : restless_ ? 2 : 5); n > 0; --n) operate();
    if (rng_.one_in(railed_ ? 6 : restless_ ? 1 : 3)) act();
    if (rng_.one_in(railed_ ? 3 : 15)) rail_fault();
    for (Member& member : members_)
      if (!member.running() && sim_.now() >= member.back_at) come_back(member);
    run_stirred(rng_.one_in(8) ? Duration(3s) : Duration(rng_.below(railed_ ? 150'000'000 : 30'000'000)));
  }
}

void Cluster::operate() {
  Member* from = any_running();
  if (from == nullptr) return;
  const Nid to = any_nid();
  static constexpr uint32_t kLengths[] = {0, 1, 500, 4096, 5000, 60000};
  const test::Operation op{.length = kLengths[rng_.below(std::size(kLengths))], .ack = rng_.below(4) != 0};
  const bool get = rng_.one_in(2);
  say(fmt::format("{} {} {} of {} bytes", from->name(), get ? "gets from" : "puts to", nid_text(to), op.length));
  (void)from->node->start(to, op, get);
}

void Cluster::act() {
  Member& member = any();
  const uint64_t what = rng_.below(18);
  if (what < 2) return cut_or_heal(member);
  if (what == 16) return link_change(member);
  if (!member.running()) return;
  switch (what) {
    case 2:
    case 3: return ni_add(member);
    case 4:
    case 5: return ni_del(member);
    case 6:
    case 7: return peer_add(member);
    case 8: return peer_del(member);
    case 9:
    case 10: return set_discovery(member);
    case 11:
    case 12: return route_change(member);
    case 13: return routing_change(member);
    default: return stop(member);
  }
}

void Cluster::apply(Member& member, config::Change change, const std::string& what) {
  say(fmt::format("{}: {}", member.name(), what));
  std::vector<config::Change> changes;
  changes.push_back(std::move(change));
  member.node->apply(std::move(changes));
}

void Cluster::ni_add(Member& member) {
  if (member.downrev || member.nids.size() >= kNisMost) return;
  const bool side = routed_ && !member.router;
  const Net net = side ? nets_[rng_.one_in(3) ? 2 : member.number % 2] : nets_[rng_.below(routed_ ? 2 : nets_.size())];
  const auto nid = free_nid(member, net);
  if (!nid) return;
  config::NetAdd add;
  add.net = net;
  add.ni.nid = *nid;
  member.nids.push_back(*nid);
  apply(member, add, "net add " + nid_text(*nid));
}

// A router keeps its first NI on each net: routes name it.
void Cluster::ni_del(Member& member) {
  if (member.nids.size() < 2) return;
  const size_t index = rng_.below(member.nids.size());
  const Nid nid = member.nids[index];
  const auto on_its_net = [&](const Nid& one) { return one.net() == nid.net(); };
  const auto first = std::find_if(member.nids.begin(), member.nids.end(), on_its_net);
  if (member.router && *first == nid) return;
  config::NetDel del;
  del.net = nid.net();
  del.nid = nid;
  del.now = rng_.one_in(2);
  member.nids.erase(member.nids.begin() + std::ptrdiff_t(index));
  apply(member, del, fmt::format("net del {}{}", nid_text(nid), del.now ? " --now" : ""));
}

// As an operator would, mostly: some or all NIDs of a node; now and then one that is another's, or nobody's.
void Cluster::peer_add(Member& member) {
  const Member& other = any();
  if (&other == &member || other.nids.empty()) return;
  config::PeerAdd add;
  add.peer.primary = other.nids.front();
  add.peer.multi_rail = !other.downrev && !rng_.one_in(6);
  add.peer.lock_primary = rng_.one_in(5);
  std::string text = "peer add " + nid_text(add.peer.primary);
  if (add.peer.multi_rail) {
    for (size_t i = 1; i < other.nids.size(); ++i)
      if (!rng_.one_in(4)) add.peer.nids.push_back(other.nids[i]);
    if (rng_.one_in(6)) add.peer.nids.push_back(any_nid());
    std::erase_if(add.peer.nids, [&](const Nid& nid) {
      return nid == add.peer.primary || std::find(member.nids.begin(), member.nids.end(), nid) != member.nids.end();
    });
    for (const Nid& nid : add.peer.nids) text += " " + nid_text(nid);
  } else {
    text += " --non_mr";
  }
  apply(member, add, text + (add.peer.lock_primary ? " --lock_prim" : ""));
}

void Cluster::peer_del(Member& member) {
  config::PeerDel del;
  const auto& configured = member.control().desired.peers;
  if (!configured.empty() && !rng_.one_in(3)) {
    const config::PeerConfig& peer = configured[rng_.below(configured.size())];
    del.primary = peer.primary;
    if (!peer.nids.empty() && rng_.one_in(2)) del.nids = {peer.nids[rng_.below(peer.nids.size())]};
  } else {
    del.primary = any_nid();
  }
  del.force = rng_.one_in(2);
  apply(member, del,
        fmt::format("peer del {}{}", nid_text(del.primary), del.nids.empty() ? "" : " " + nid_text(del.nids[0])));
}

void Cluster::set_discovery(Member& member) {
  if (member.downrev) return;
  static constexpr config::Discovery kModes[] = {config::Discovery::kOn, config::Discovery::kOn,
                                                 config::Discovery::kOff, config::Discovery::kVerify};
  member.discovery = kModes[rng_.below(std::size(kModes))];
  apply(member, config::SetValue{"discovery", int64_t(member.discovery)},
        fmt::format("discovery {}", int(member.discovery)));
}

void Cluster::route_change(Member& member) {
  if (!routed_ || member.router) return;
  if (!member.routes.empty() && rng_.one_in(2)) {
    auto at = member.routes.begin();
    std::advance(at, std::ptrdiff_t(rng_.below(member.routes.size())));
    const auto [net, gateway] = *at;
    member.routes.erase(at);
    return apply(member, config::RouteDel{net, gateway}, "route del " + nid_text(gateway));
  }
  const Net far = nets_[1 - member.number % 2];
  Nid gateway = any_nid();  // now and then one that is no router
  if (gateway.net() == far || std::find(member.nids.begin(), member.nids.end(), gateway) != member.nids.end()) return;
  if (!member.routes.emplace(far, gateway).second) return;
  apply(member, config::RouteAdd{{.net = far, .gateway = gateway}}, "route add " + nid_text(gateway));
}

void Cluster::routing_change(Member& member) {
  if (!member.router) return;
  member.routing = !member.routing;
  apply(member, config::SetRouting{member.routing}, member.routing ? "routing on" : "routing off");
}

void Cluster::cut_or_heal(Member& member) {
  if (rng_.one_in(3)) {
    say("cuts are healed");
    return heal_cuts();
  }
  const Member& other = any();
  if (&other == &member) return;
  const bool whole = rng_.one_in(2), one_way = rng_.one_in(3), reset = rng_.one_in(3);
  say(fmt::format("{} between {} and {}{}",
                  reset     ? "resets"
                  : one_way ? "cuts one way"
                            : "cuts",
                  member.name(), other.name(), whole ? "" : ", some rails"));
  for (const Nid& a : member.nids)
    for (const Nid& b : other.nids) {
      if (!whole && rng_.one_in(2)) continue;
      if (reset)
        sim_.reset(a, b);
      else
        cut(a, b, one_way);
    }
}

// Of one that is down, or of this node's.
void Cluster::link_change(Member& member) {
  if (!links_down_.empty() && rng_.one_in(2)) {
    const Nid nid = *links_down_.begin();
    say("link up: " + nid_text(nid));
    links_down_.erase(nid);
    return sim_.set_link(nid, true);
  }
  if (member.nids.empty()) return;
  const Nid nid = member.nids[rng_.below(member.nids.size())];
  say("link down: " + nid_text(nid));
  if (links_down_.insert(nid).second) sim_.set_link(nid, false);
}

void Cluster::stop(Member& member) {
  say(member.name() + " is killed");
  count_life(member);
  member.node->kill();
  member.back_at = sim_.now() + (rng_.one_in(2) ? Duration(10ms) : Duration(rng_.below(20'000'000'000)));
}

// The same node again, or another in its place, with NIDs that may have been somebody's before.
void Cluster::come_back(Member& member) {
  member.back_at = kForever;
  if (!member.router && rng_.one_in(3)) {
    if (rng_.one_in(2)) draw_version(member);
    draw_nids(member);
  }
  if (routed_) right_routes(member);
  join(member);
}

}  // namespace ulnet::simulate
