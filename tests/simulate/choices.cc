#include "tests/simulate/choices.h"

#include <fmt/format.h>

#include <algorithm>

#include "dataplane/base/nid_text.h"

namespace ulnet::simulate {
namespace {

bool is_up(const NiView& ni) {
  return !ni.fatal && ni.health > 0;
}
bool is_up(const PeerNiView& ni) {
  return !ni.known_down && ni.health > 0;
}

/// All pairs of NIs that could have carried one operation, by their state.
struct Pairs {
  unsigned up = 0, down = 0;
  std::string one_up;
  void add(const NiView& ni, const PeerNiView& to, const Tried* tried) {
    if (ni.going() || to.slice == nullptr) return;
    if (tried != nullptr && (tried->at_ni(ni.slot, true) > 0 || tried->at_peer(to.slot) > 0)) return;
    if (!is_up(ni) || !is_up(to)) {
      ++down;
      return;
    }
    if (up++ == 0) one_up = nid_text(ni.nid) + " > " + nid_text(to.nid);
  }
};

/// An operation on its path, in the view of its home.
struct Path {
  const ViewSet& view;
  const Operation& op;
  const NiView* ni = nullptr;
  PeerRef hop;
  bool routed = false;

  /// False: loopback, or the view has lost the NI or the peer NI meanwhile.
  [[nodiscard]] bool find() {
    if (op.tx.peer == nullptr) return false;
    for (const NiView& one : view.local->nis)
      if (one.id == op.tx.ni) ni = &one;
    hop = view.peers->find(op.tx.next_hop);
    if (ni == nullptr || !hop || hop.ni().id != op.tx.peer_ni) return false;
    const auto& nis = hop.peer->nis;
    routed =
        std::none_of(nis.begin(), nis.end(), [&](const PeerNiView& one) { return one.nid == op.tx.header.dest_nid; });
    return true;
  }

  void add_local(Pairs& pairs, const PeerNiView& to) const {
    const NetView* net = view.local->net(to.nid.net());
    if (net == nullptr) return;
    for (uint32_t i = net->first; i < net->first + net->count; ++i) pairs.add(view.local->nis[i], to, op.failed_over());
  }

  /// The one source that the destination may see; null: none is recorded.
  [[nodiscard]] const NiView* recorded() const {
    const PeerRef dst = view.peers->find(op.want_dst);
    if (!dst || dst.peer->multi_rail || op.portal0) return nullptr;
    const NiView* source = view.local->ni(dst.ni().source);
    return source == nullptr || source->going() ? nullptr : source;
  }

  /// The pairs among which the operation chose; none if it did not choose freely.
  [[nodiscard]] Pairs pairs() const {
    Pairs all;
    if (!op.want_src.is_any() || op.recovery) return all;
    if (routed) {
      add_gateways(all);
    } else if (hop.peer->multi_rail) {
      for (const PeerNetView& net : hop.peer->nets)
        for (uint32_t i = net.first; i < net.first + net.count; ++i) add_local(all, hop.peer->nis[i]);
    } else if (recorded() == nullptr) {
      add_local(all, hop.ni());
    }
    return all;
  }

  void add_gateways(Pairs& all) const {
    const RouteNetView* net = view.routes->find(op.tx.header.dest_nid.net());
    if (net == nullptr || recorded() != nullptr) return;
    for (const RouteView& route : net->routes) {
      const PeerRef gateway = view.peers->find(route.gateway);
      if (!gateway || !route.alive) continue;
      for (const PeerNiView& one : gateway.peer->nis)
        if (!one.down) add_local(all, one);
    }
  }

  /// Has the operation failed over this NI, or this peer NI, by its fault?
  [[nodiscard]] bool is_tried() const {
    const Tried* tried = op.failed_over();
    return tried != nullptr && (tried->at_ni(ni->slot, false) > 0 || tried->at_peer(hop.ni().slot) > 0);
  }
  [[nodiscard]] bool is_down() const { return !is_up(*ni) || !is_up(hop.ni()); }
  [[nodiscard]] std::string text() const {
    return fmt::format("{} > {} (health {}{} and {}{})", nid_text(ni->nid), nid_text(hop.ni().nid), ni->health,
                       ni->fatal ? ", no link" : "", hop.ni().health, hop.ni().known_down ? ", known to be down" : "");
  }
};

bool has_lease(const Operation& op) {
  switch (op.state) {
    case OperationState::kSending:
    case OperationState::kAwaiting: return true;
    case OperationState::kFree:
    case OperationState::kReady:
    case OperationState::kParked:
    case OperationState::kSendingGivenUp:
    case OperationState::kSendingReceiving:
    case OperationState::kSendingAnswered:
    case OperationState::kReceiving:
    case OperationState::kFinishing: return false;
  }
  return false;
}

bool waits_for_credit(const Operation& op) {
  const bool waits = op.tx.stage == TxStage::kWaitsPeer || op.tx.stage == TxStage::kWaitsNi;
  return op.state == OperationState::kSending && waits && !op.tx.stays;
}

/// Has the NI of the operation, or the peer NI, failed so that workers take back what has not begun?
bool failed_whole(const Control& control, const Path& path) {
  const LocalNi* ni = control.nis->find(path.op.tx.ni);
  const PeerNi* to = control.peers->find(path.op.tx.peer_ni);
  if (ni != nullptr && ni->closing) return false;
  return (ni != nullptr && (ni->fatal || ni->health.silent())) || (to != nullptr && to->health.silent());
}

}  // namespace

std::string ChoiceWatch::turned(const test::SimNode& node, Worker& worker) {
  OfWorker& known = workers_[{&node, worker.id.value}];
  const int64_t choices = worker.tallies.choices.get();
  if (known.cookie != worker.interface_cookie) known = {worker.interface_cookie, 0, {}};
  if (known.choices == choices || worker.view == nullptr) return "";
  known.choices = choices;
  std::string wrong;
  worker.operations.for_each_out([&](const Operation& op) {
    if (!has_lease(op)) return;
    const Lease now = lease_of(op);
    Lease& lease = known.leases[&op];
    if (lease.same(now)) return;
    if (lease.issued == now.issued && now.moves > lease.moves) counts_[Count::kMoves] += now.moves - lease.moves;
    const bool given_up = lease.given_up(op, now), chosen_down = lease.chosen_down;
    lease = now;
    lease.chosen_down = chosen_down;
    if (given_up) return;
    Path path{*worker.view, op};
    if (!path.find()) return;
    lease.chosen_down = path.is_down();
    const Pairs pairs = path.pairs();
    ++counts_[Count::kChoices];
    if (pairs.up > 0 && path.is_tried() && wrong.empty())
      wrong = fmt::format("{} worker {} has failed over {}, and takes it again while {} is up; {} retries",
                          nid_text(node.nid()), worker.id.value, path.text(), pairs.one_up, op.retries);
    if (pairs.up == 0 || pairs.down == 0) return;
    ++counts_[Count::kChoicesAtRisk];
    if (path.is_down() && wrong.empty())
      wrong = fmt::format("{} worker {} sends over {} while {} is up; {} retries, {} moves", nid_text(node.nid()),
                          worker.id.value, path.text(), pairs.one_up, op.retries, op.moves);
  });
  return wrong;
}

std::string ChoiceWatch::waits(test::SimNode& node, Instant now) {
  std::string wrong;
  for (unsigned w = 0; w < node.spec().workers; ++w) {
    Worker& worker = node.node().worker(WorkerId{uint16_t(w)});
    if (worker.operations.out() == 0 || worker.view == nullptr) continue;
    const OfWorker& known = workers_[{&node, worker.id.value}];
    worker.operations.for_each_out([&](const Operation& op) {
      if (!waits_for_credit(op)) return;
      const auto lease = known.leases.find(&op);
      if (lease == known.leases.end() || !lease->second.same(lease_of(op)) || lease->second.chosen_down) return;
      Path path{*worker.view, op};
      if (!path.find() || !path.is_down() || !failed_whole(node.node().control(), path)) return;
      if (path.pairs().up == 0) return;
      Waiting& waiting = waiting_[&op];
      const bool same = waiting.lease.same(lease_of(op)) && now - waiting.seen < Waiting::limit;
      if (!same) waiting = {lease_of(op), now, now};
      waiting.seen = now;
      if (now - waiting.since >= Waiting::limit && wrong.empty())
        wrong = fmt::format("{} worker {} waits for a credit of {} while {} is up; {} retries, {} moves, avoided {} {}",
                            nid_text(node.nid()), w, path.text(), path.pairs().one_up, op.retries, op.moves,
                            op.tx.ni_slice->avoided, op.tx.peer->avoided);
    });
  }
  return wrong;
}

}  // namespace ulnet::simulate
