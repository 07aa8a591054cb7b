// Faults and healing of a cluster's network, over each transport.
#include <algorithm>

#include "tests/simulate/cluster.h"

namespace ulnet::simulate {

void Cluster::set_faults() {
  if (roce()) return set_wire_faults();
  if (ib()) return set_device_faults();
  if (real()) return;
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

void Cluster::set_wire_faults() {
  test::RoceNetRules& rules = sim_.roce().rules;
  rules.delay = Duration(5us) * int64_t(1 + rng_.below(40));
  rules.scatter = rng_.one_in(3);
  if (rng_.one_in(4)) return;
  const auto lose = uint32_t(20 + rng_.below(500));
  rules.lose_one_in = rng_.one_in(3) ? 0 : lose;
  rules.repeat_one_in = rng_.one_in(2) ? lose : 0;
  rules.reorder_one_in = rng_.one_in(2) ? lose : 0;
  rules.mark_one_in = rng_.one_in(2) ? lose : 0;
  rules.damage_one_in = rng_.one_in(2) ? lose : 0;
}

// Limits of the devices stay, faults end with the stir. The staging memory of a worker is one block.
void Cluster::set_device_faults() {
  rc::sim::Rules& rules = sim_.rc().rules;
  rules.delay_max = Duration(5us) * int64_t(1 + rng_.below(200));
  rules.ready_max = Duration(1ms) * int64_t(1 + rng_.below(30));
  rules.retries_for = Duration(100ms) * int64_t(1 + rng_.below(30));
  if (rng_.one_in(3)) rules.work_max = 4 + uint32_t(rng_.below(40));
  if (rng_.one_in(3)) rules.keys_max = 1 + uint32_t(rng_.below(4));
  if (rng_.one_in(3)) rules.pieces_max = 1;
  if (rng_.one_in(4)) rules.receives_max = 10 + uint32_t(rng_.below(20));
  rules.keys_end = !rng_.one_in(4);
  if (rng_.one_in(4)) return;
  rules.lose_one_in = rng_.one_in(2) ? 300 : 0;
  rules.local_error_one_in = rng_.one_in(4) ? 500 : 0;
  rules.refuse_one_in = rng_.one_in(4) ? 500 : 0;
  rules.no_qp_one_in = rng_.one_in(3) ? 10 : 0;
}

void Cluster::cut(const Nid& a, const Nid& b, bool one_way) {
  if (one_way && !real())
    sim_.fabric().cut_one_way(a, b);
  else
    sim_.set_cut(a, b, true);
  cuts_.emplace(a, b);
}

void Cluster::mend(const Nid& a, const Nid& b) {
  sim_.set_cut(a, b, false);
  cuts_.erase({a, b});
}

// TCP and reliable connections lose nothing by themselves; a connection that breaks takes its messages along.
void Cluster::lose(const Nid& from, const Nid& to, double share, bool with_error) {
  if (real()) return sim_.reset(from, to);
  sim::LinkRules& rules = sim_.fabric().link(from, to);
  (with_error ? rules.lose_with_error : rules.lose_silently) = share;
}

void Cluster::lose_none(const Nid& from, const Nid& to) {
  if (!real()) sim_.fabric().link(from, to) = sim_.fabric().rules();
}

// Over TCP the addresses of the node are silent: its kernel acknowledges nothing either. RDMA devices go on.
void Cluster::hang(Member& member, bool on) {
  member.node->hang(on);
  if (!real()) return;
  for (const Net net : nets_)
    if (net.type() == NetType::kTcp)
      for (const Nid& nid : nids_on(member, net)) sim_.set_link(nid, !on && !links_down_.contains(nid));
}

void Cluster::heal_cuts() {
  for (const auto& [a, b] : std::exchange(cuts_, {})) sim_.set_cut(a, b, false);
}

void Cluster::heal_network() {
  for (SickRail& rail : sick_) rail_end(rail);
  sick_.clear();
  heal_cuts();
  for (const Nid& nid : std::exchange(links_down_, {})) sim_.set_link(nid, true);
  sim_.heal_all();
}

uint64_t Cluster::messages_sent() const {
  if (!real()) return sim_.fabric().counts().launched;
  uint64_t sum = 0;
  for (const Member& member : members_)
    if (member.running()) sum += member.node->stat(Stat::kSendCount);
  return sum;
}

}  // namespace ulnet::simulate
