#include "lnd/o2iblnd/peer.h"

#include "lnd/o2iblnd/conn_tx.h"

namespace ulnet::o2iblnd {
namespace {

void ask(IbWorker& worker, Peer& peer) {
  if (peer.asked) return;
  peer.asked = true;
  worker.core.to_control(peer.wanted, ConnWantedMsg{peer.ni, peer.peer_ni, peer.nid});
}

Peer* peer_of(IbWorker& worker, NiId ni, PeerNiId peer_ni, const Nid& nid) {
  if (Peer* known = peer_find(worker, ni, peer_ni)) return known;
  Peer* peer = worker.peers.take();
  if (peer == nullptr) return nullptr;
  peer->ni = ni;
  peer->peer_ni = peer_ni;
  peer->nid = nid;
  peer->asked = false;
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
  worker.core.tx_waits(tx, worker.now);
  TxState(tx).place(TxPlace::kWaiting, peer);
  peer->waiting.push_back(tx);
  ask(worker, *peer);
}

bool peer_join(IbWorker& worker, Conn& conn) {
  Peer* peer = peer_of(worker, conn.ni, conn.peer_ni, conn.nid);
  if (peer == nullptr) return false;
  conn.peer = peer;
  conn.phase = ConnPhase::kUp;
  peer->conns.push_back(conn);
  peer->asked = false;
  for (uint32_t left = peer->waiting.size(); left > 0 && !peer->waiting.empty(); --left) {
    Tx& tx = *peer->waiting.pop_front();
    worker.core.tx_connected(tx, worker.now);
    peer_submit(worker, tx);
  }
  return true;
}

void peer_leave(IbWorker& worker, Conn& conn) {
  Peer& peer = *std::exchange(conn.peer, nullptr);
  peer.conns.remove(conn);
  while (Tx* tx = conn.queue.pop_front()) peer_submit(worker, *tx);
  peer_settle(worker, peer);
}

void peer_ask_again(IbWorker& worker, const Conn& conn) {
  Peer* peer = peer_find(worker, conn.ni, conn.peer_ni);
  if (peer == nullptr || !peer->asked) return;
  peer->asked = false;
  if (!peer->waiting.empty()) ask(worker, *peer);
  peer_settle(worker, *peer);
}

void peer_fail(IbWorker& worker, Peer& peer, Completion how) {
  peer.asked = false;
  // Completions may submit again: the newcomers, at the end, are not for this round.
  for (uint32_t left = peer.waiting.size(); left > 0 && !peer.waiting.empty(); --left)
    worker.finish(*peer.waiting.pop_front(), how);
  if (!peer.waiting.empty()) ask(worker, peer);
  peer_settle(worker, peer);
}

void peer_settle(IbWorker& worker, Peer& peer) {
  if (!peer.conns.empty() || !peer.waiting.empty() || peer.asked || peer.wanted.linked()) return;
  worker.bucket(peer.ni, peer.peer_ni).remove(peer);
  worker.peers.give(peer);
}

}  // namespace ulnet::o2iblnd
