// The hard part: each completion may submit to the very same peer, or end it. A function that goes on with a peer after
// a completion holds it (PeerHold).
//
// Control tries for as long as the last word of this side is ConnWantedMsg. So a peer for which nothing waits withdraws
// that. The answer of control may have crossed a ConnWantedMsg: hence the withdrawal follows each answer, too.
#include "lnd/o2iblnd/peer.h"

#include "lnd/o2iblnd/conn_tx.h"

namespace ulnet::o2iblnd {
namespace {

/// The peer stays until the end of the scope.
class PeerHold {
 public:
  PeerHold(IbWorker& worker, Peer& peer) : worker_(worker), peer_(peer) { ++peer.holds; }
  PeerHold(const PeerHold&) = delete;
  PeerHold& operator=(const PeerHold&) = delete;
  ~PeerHold() {
    --peer_.holds;
    peer_settle(worker_, peer_);
  }

 private:
  IbWorker& worker_;
  Peer& peer_;
};

void ask(IbWorker& worker, Peer& peer) {
  if (std::exchange(peer.asked, true)) return;
  worker.core.to_control(peer.wanted, ConnWantedMsg{peer.ni, peer.peer_ni, peer.nid});
}

void ask_again(IbWorker& worker, Peer& peer) {
  peer.asked = false;
  ask(worker, peer);
}

void withdraw(IbWorker& worker, Peer& peer) {
  if (!std::exchange(peer.asked, false)) return;
  worker.core.to_control(peer.wanted, ConnUnwantedMsg{peer.ni, peer.peer_ni, peer.nid});
}

/// Frees peers whose last word has left meanwhile.
void settle_others(IbWorker& worker) {
  for (Peer* peer = worker.peers_unsettled.front(); peer != nullptr && !peer->wanted.linked();
       peer = worker.peers_unsettled.front()) {
    worker.peers_unsettled.remove(*peer);
    peer_settle(worker, *peer);
  }
}

Peer* peer_of(IbWorker& worker, NiId ni, PeerNiId peer_ni, const Nid& nid) {
  if (Peer* known = peer_find(worker, ni, peer_ni)) return known;
  settle_others(worker);
  Peer* peer = worker.peers.take();
  if (peer == nullptr) return nullptr;
  peer->ni = ni;
  peer->peer_ni = peer_ni;
  peer->nid = nid;
  peer->asked = false;
  ULNET_CHECK(peer->holds == 0 && !peer->wanted.linked());
  worker.bucket(ni, peer_ni).push_back(*peer);
  return peer;
}

}  // namespace

Peer* peer_find(IbWorker& worker, NiId ni, PeerNiId peer_ni) {
  auto& chain = worker.bucket(ni, peer_ni);
  for (Peer* peer = chain.front(); peer != nullptr; peer = chain.after(*peer))
    if (peer->ni == ni && peer->peer_ni == peer_ni) return peer;
  return nullptr;
}

void peer_submit(IbWorker& worker, Tx& tx) {
  Peer* peer = peer_of(worker, tx.ni, tx.peer_ni, tx.next_hop);
  if (peer == nullptr) return worker.finish(tx, {-ENOBUFS, LndStatus::kLocalError});
  if (Conn* conn = peer->conns.pop_front()) {
    peer->conns.push_back(*conn);
    return conn_queue(worker, *conn, tx);
  }
  TxState(tx).place(TxPlace::kWaiting, peer);
  peer->waiting.push_back(tx);
  ask(worker, *peer);
  worker.core.tx_waits(tx, worker.now);
}

bool peer_join(IbWorker& worker, Conn& conn) {
  Peer* peer = peer_of(worker, conn.ni, conn.peer_ni, conn.nid);
  if (peer == nullptr) return false;
  const PeerHold hold(worker, *peer);
  conn.peer = peer;
  conn.phase = ConnPhase::kUp;
  peer->conns.push_back(conn);
  for (uint32_t left = peer->waiting.size(); left > 0 && !peer->waiting.empty(); --left) {
    Tx& tx = *peer->waiting.pop_front();
    worker.core.tx_connected(tx, worker.now);
    peer_submit(worker, tx);
  }
  if (!peer->waiting.empty()) ask_again(worker, *peer);
  return true;
}

void peer_leave(IbWorker& worker, Conn& conn) {
  Peer& peer = *std::exchange(conn.peer, nullptr);
  const PeerHold hold(worker, peer);
  peer.conns.remove(conn);
  while (Tx* tx = conn.queue.pop_front()) peer_submit(worker, *tx);
}

void peer_ask_again(IbWorker& worker, const Conn& conn) {
  Peer* peer = peer_find(worker, conn.ni, conn.peer_ni);
  if (peer != nullptr && peer->asked) ask_again(worker, *peer);
}

void peer_fail(IbWorker& worker, Peer& peer, Completion how) {
  const PeerHold hold(worker, peer);
  // Completions may submit again: the newcomers, at the end, are not for this round.
  for (uint32_t left = peer.waiting.size(); left > 0 && !peer.waiting.empty(); --left)
    worker.finish(*peer.waiting.pop_front(), how);
  if (!peer.waiting.empty()) ask_again(worker, peer);
}

void peer_settle(IbWorker& worker, Peer& peer) {
  if (peer.holds > 0 || !peer.waiting.empty()) return;
  withdraw(worker, peer);
  if (!peer.conns.empty()) return;
  Linked<UnsettledTag>& unsettled = peer;
  if (peer.wanted.linked()) {
    if (!unsettled.linked()) worker.peers_unsettled.push_back(peer);
    return;
  }
  if (unsettled.linked()) worker.peers_unsettled.remove(peer);
  worker.bucket(peer.ni, peer.peer_ni).remove(peer);
  worker.peers.give(peer);
}

}  // namespace ulnet::o2iblnd
