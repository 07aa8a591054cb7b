// Faults and healing of a cluster's network, over either transport.
#include <algorithm>

#include "tests/simulate/cluster.h"

namespace ulnet::simulate {
namespace {

test::IpAddress ip_of(const Nid& nid) {
  test::IpAddress ip;
  ip.bytes = nid.addr;
  return ip;
}

}  // namespace

void Cluster::set_faults() {
  if (tcp()) return;
  sim::LinkRules& rules = sim_.fabric().rules();
  rules.delay_max = Duration(5us) * int64_t(1 + rng_.below(200));
  if (rng_.one_in(4)) return;
  rules.lose_with_error = rng_.one_in(2) ? 0.02 : 0;
  rules.lose_silently = rng_.one_in(2) ? 0.03 : 0;
  rules.duplicate = rng_.one_in(2) ? 0.03 : 0;
  rules.reorder = rng_.one_in(2) ? 0.2 : 0;
  rules.hold_memory = rng_.one_in(2);
  rules.loss_breaks = rng_.one_in(2);
}

void Cluster::cut(const Nid& a, const Nid& b, bool one_way) {
  if (tcp())
    sim_.tcp().partition(ip_of(a), ip_of(b), true);
  else if (one_way)
    sim_.fabric().cut_one_way(a, b);
  else
    sim_.fabric().cut(a, b);
  cuts_.emplace(a, b);
}

void Cluster::mend(const Nid& a, const Nid& b) {
  if (tcp())
    sim_.tcp().partition(ip_of(a), ip_of(b), false);
  else
    sim_.fabric().heal(a, b);
  cuts_.erase({a, b});
}

// TCP loses nothing by itself; a connection that breaks takes its messages along.
void Cluster::lose(const Nid& from, const Nid& to, double share, bool with_error) {
  if (tcp()) return sim_.tcp().reset_between(ip_of(from), ip_of(to));
  sim::LinkRules& rules = sim_.fabric().link(from, to);
  (with_error ? rules.lose_with_error : rules.lose_silently) = share;
}

void Cluster::lose_none(const Nid& from, const Nid& to) {
  if (!tcp()) sim_.fabric().link(from, to) = sim_.fabric().rules();
}

// Over TCP the addresses of the node are silent: its kernel acknowledges nothing either.
void Cluster::hang(Member& member, bool on) {
  member.node->hang(on);
  if (!tcp()) return;
  for (const Net net : nets_)
    for (const Nid& nid : nids_on(member, net)) sim_.tcp().silence(ip_of(nid), on || links_down_.contains(nid));
}

void Cluster::reset(const Nid& a, const Nid& b) {
  if (tcp())
    sim_.tcp().reset_between(ip_of(a), ip_of(b));
  else
    sim_.fabric().reset(a, b);
}

void Cluster::heal_cuts() {
  for (const auto& [a, b] : std::exchange(cuts_, {})) {
    if (tcp())
      sim_.tcp().partition(ip_of(a), ip_of(b), false);
    else
      sim_.fabric().heal(a, b);
  }
}

// Over TCP nobody sees that a link is down; its address is silent.
void Cluster::set_link(const Nid& nid, bool up) {
  if (tcp())
    sim_.tcp().silence(ip_of(nid), !up);
  else if (up)
    sim_.fabric().link_up(nid);
  else
    sim_.fabric().link_down(nid);
}

void Cluster::heal_network() {
  for (SickRail& rail : sick_) rail_end(rail);
  sick_.clear();
  heal_cuts();
  for (const Nid& nid : std::exchange(links_down_, {})) set_link(nid, true);
  sim_.heal_all();
}

uint64_t Cluster::messages_sent() const {
  if (!tcp()) return sim_.fabric().counts().launched;
  uint64_t sum = 0;
  for (const Member& member : members_)
    if (member.running()) sum += member.node->stat(Stat::kSendCount);
  return sum;
}

}  // namespace ulnet::simulate
