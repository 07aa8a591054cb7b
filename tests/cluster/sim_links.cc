// Faults of the simulated networks, their end, and what the networks have counted.
#include "tests/cluster/sim_net.h"

namespace ulnet::test {

void SimNet::set_cut(const Nid& a, const Nid& b, bool is_cut) {
  if (is_cut) cuts_.emplace_back(a, b);
  if (fabric_ != nullptr) return is_cut ? fabric_->cut(a, b) : fabric_->heal(a, b);
  if (a.net().type() != b.net().type()) return;
  if (a.net().type() == NetType::kTcp)
    tcp_->partition(ip_of(a), ip_of(b), is_cut);
  else if (on_adapter(a))
    rc_->cut(rc_address(a), rc_address(b), is_cut);
  else
    roce_->cut(rc_address(a), rc_address(b), is_cut);
}

void SimNet::reset(const Nid& a, const Nid& b) {
  if (fabric_ != nullptr) return fabric_->reset(a, b);
  if (a.net().type() != b.net().type()) return;
  if (a.net().type() == NetType::kTcp)
    tcp_->reset_between(ip_of(a), ip_of(b));
  else if (on_adapter(a))
    rc_->break_wires(rc_address(a), rc_address(b));
  else
    roce_->break_wires(rc_address(a), rc_address(b));
}

void SimNet::set_link(const Nid& nid, bool up) {
  if (fabric_ != nullptr) return up ? fabric_->link_up(nid) : fabric_->link_down(nid);
  if (nid.net().type() == NetType::kTcp)
    tcp_->silence(ip_of(nid), !up);
  else if (on_adapter(nid))
    rc_->set_port(rc_address(nid), up);
  else
    roce_->set_link(rc_address(nid), up);
}

void SimNet::link(SimNode& a, SimNode& b, bool cut) {
  for (size_t i = 0; i < a.spec().nis.size(); ++i)
    for (size_t j = 0; j < b.spec().nis.size(); ++j) set_cut(a.nid(i), b.nid(j), cut);
}

void SimNet::reset(SimNode& a, SimNode& b) {
  for (size_t i = 0; i < a.spec().nis.size(); ++i)
    for (size_t j = 0; j < b.spec().nis.size(); ++j) reset(a.nid(i), b.nid(j));
}

void SimNet::heal_all() {
  for (const auto& [a, b] : std::exchange(cuts_, {})) set_cut(a, b, false);
  if (fabric_ != nullptr) {
    fabric_->heal_all();
    fabric_->calm();
  }
  if (roce_ != nullptr) roce_->rules = {};
  if (rc_ == nullptr) return;
  rc::sim::Rules& rules = rc_->rules;
  rules.lose_one_in = rules.local_error_one_in = rules.refuse_one_in = rules.no_qp_one_in = 0;
}

std::string SimNet::networks_wrong() const {
  std::string text;
  if (rc_ != nullptr) {
    const rc::sim::Counts& counts = rc_->counts;
    if (rc_->conns() > 0) text += std::to_string(rc_->conns()) + " connections of RDMA devices are left; ";
    if (counts.no_buffer > 0) text += "messages without a receive buffer; ";
    if (counts.stray_writes > 0) text += "remote writes without a key; ";
    if (counts.unregistered > 0) text += "accesses to unregistered memory; ";
  }
  if (roce_ != nullptr) {
    using rc::roce::Count;
    if (roce_->conns() > 0) text += std::to_string(roce_->conns()) + " RoCE connections are left; ";
    if (roce_->count(Count::kNaksRnrSent) > 0) text += "messages without a receive buffer; ";
    if (roce_->count(Count::kNaksAccessSent) > 0) text += "remote writes without a key; ";
    if (roce_->count(Count::kNaksInvalidSent) > 0) text += "invalid requests; ";
  }
  if (fabric_ == nullptr) return text;
  const sim::FabricCounts& counts = fabric_->counts();
  if (counts.stray_writes > 0) text += "remote writes without a window; ";
  if (counts.unregistered > 0) text += "accesses to unregistered memory; ";
  if (counts.gets_accepted != counts.replies)
    text += std::to_string(counts.gets_accepted) + " requests and " + std::to_string(counts.replies) + " REPLYs; ";
  return text;
}

}  // namespace ulnet::test
