#include "lnd/o2iblnd/conn_ctl.h"

#include <algorithm>
#include <array>

#include "lnd/o2iblnd/dial_ctl.h"

namespace ulnet::o2iblnd {
namespace {

constexpr Completion kStopped{-ESHUTDOWN, LndStatus::kLocalAborted};
constexpr unsigned kWorkLeast = 4;    ///< operations under way at once: a write, a key, and messages behind them
constexpr unsigned kSendsBeyond = 4;  ///< send buffers besides those of Q requests and Q answers

void half_open_begin(IbControl& control, const ConnCtl& conn) {
  ++control.half_open;
  control.half_open_of[conn.from].insert({conn.began, conn.id});
}

void half_open_end(IbControl& control, const ConnCtl& conn) {
  --control.half_open;
  const auto share = control.half_open_of.find(conn.from);
  share->second.erase({conn.began, conn.id});
  if (share->second.empty()) control.half_open_of.erase(share);
}

/// The connection leaves the tables; the peer and the NI may end with it.
void conn_free(IbControl& control, ConnCtl& conn) {
  const rc::ConnId id = conn.id;
  PeerCtl& peer = *control.find_peer(conn.peer);
  NiCtl& ni = *control.find_ni(conn.ni);
  --ni.conns;
  --control.conns_of[peer.place.worker.value];
  if (conn.foreign && --control.foreign_of[conn.from] == 0) control.foreign_of.erase(conn.from);
  peer.conns.erase(id);
  control.rc.destroy(id, control.now);
  control.conns.erase(id);
  peer_settle(control, peer);
  ni_settle(control, ni);
}

}  // namespace

// --- Peers -----------------------------------------------------------------------------------------------------------

Result<PeerCtl*> peer_ensure(IbControl& control, NiCtl& ni, const Nid& nid, const rc::Event* request) {
  const PeerKey key{ni.params.id, nid};
  if (PeerCtl* known = control.find_peer(key)) return known;
  const auto place_stranger = [&] {
    const rc::IpAddress& from = request->remote.address;
    const Nid address = Nid::v4(nid.net(), from.is_v4() ? from.v4() : 0);
    return control.host.place_stranger(nid, ni.params.id, {address, request->arrives_at});
  };
  const auto place = request == nullptr ? control.host.place_peer(nid, ni.params.id) : place_stranger();
  if (!place) return tl::unexpected<Error>(place.error());
  const uint64_t id = control.next_peer++;
  PeerCtl& peer = control.peers[id];
  peer.id = id;
  peer.key = key;
  peer.place = *place;
  peer.dial.offer = ni.offer;
  control.peer_of[key] = id;
  ++control.named[place->slice];
  return &peer;
}

void peer_abandon(IbControl& control, PeerCtl& peer) {
  peer.abandoned = true;
  control.peer_of.erase(peer.key);
  peer.dial.state = DialState::kIdle;
  peer_fail(control, peer, kStopped);
  const uint64_t id = peer.id;
  conns_close(control, peer, kStopped);
  if (PeerCtl* left = control.find_peer(id)) peer_settle(control, *left);  // else its last connection has ended it
}

void peer_settle(IbControl& control, PeerCtl& peer) {
  if (!peer.conns.empty() || peer.dial.state != DialState::kIdle) return;
  const PeerPlace place = peer.place;
  if (!peer.abandoned) control.peer_of.erase(peer.key);
  control.peers.erase(peer.id);
  const auto named = control.named.find(place.slice);
  if (--named->second > 0) return;
  control.named.erase(named);
  control.host.peer_left(place.id);
}

void peer_fail(IbControl& control, const PeerCtl& peer, Completion how) {
  control.host.to_worker(peer.place.worker, PeerFailMsg{peer.key.first, peer.place.id, how});
}

bool has_up(IbControl& control, const PeerCtl& peer) {
  return std::any_of(peer.conns.begin(), peer.conns.end(),
                     [&](rc::ConnId id) { return control.conns.at(id).stage == ConnStage::kUp; });
}

// --- Connections -----------------------------------------------------------------------------------------------------

rc::QpNeeds conn_needs(const IbConfig& config, const NiCtl& ni, const PeerCtl& peer, unsigned depth) {
  return {.worker = peer.place.worker,
          .receives = receive_buffers_of(depth),
          .sends = 2 * depth + kSendsBeyond,
          .buffer_bytes = kMessageMax,
          .work = 6 * depth + kSendsBeyond,
          .keys = 2 * depth,
          .pieces = uint32_t(config.wrq_sge),
          .retry_count = uint8_t(config.retry_count),
          .rnr_retry_count = uint8_t(config.rnr_retry_count),
          .tos = int16_t(ni.tunables.tos)};
}

bool conn_room(IbControl& control, const PeerCtl& peer) {
  const size_t worker = peer.place.worker.value;
  return worker >= control.conns_of.size() || control.conns_of[worker] < control.config.conns_max;
}

ConnCtl& conn_add(IbControl& control, rc::ConnId id, PeerCtl& peer, const rc::IpAddress* from) {
  ConnCtl& conn = control.conns[id];
  conn.id = id;
  conn.ni = peer.key.first;
  conn.peer = peer.id;
  conn.active = from == nullptr;
  conn.began = control.now;
  peer.conns.insert(id);
  if (from != nullptr) {
    conn.from = *from;
    conn.foreign = *from != rc::IpAddress::of_v4(peer.key.second.address_v4());
    if (conn.foreign) ++control.foreign_of[*from];
    half_open_begin(control, conn);
  }
  ++control.find_ni(conn.ni)->conns;
  const size_t worker = peer.place.worker.value;
  if (control.conns_of.size() <= worker) control.conns_of.resize(worker + 1);
  ++control.conns_of[worker];
  return conn;
}

bool conn_lend(IbControl& control, ConnCtl& conn, rc::Qp& qp) {
  const unsigned depth = std::min<unsigned>(conn.params.queue_depth, qp.receives < 2 ? 0 : (qp.receives - 2) / 2);
  const bool enough = depth >= kDepthLeast && qp.work >= kWorkLeast && qp.keys > 0 && qp.sends > 2 && qp.pieces > 0;
  if (!enough || control.host.memory_low()) return false;
  conn.params.queue_depth = uint16_t(depth);
  const PeerCtl& peer = *control.find_peer(conn.peer);
  const NiCtl& ni = *control.find_ni(conn.ni);
  WorkerMemory* memory = control.host.worker_memory(peer.place.worker);
  Conn* object = near_new<Conn>(memory, depth, qp.sends, memory);
  object->id = conn.id;
  object->qp = &qp;
  object->ni = conn.ni;
  if (peer.place.worker.value < ni.params.slices.size()) object->ni_slice = ni.params.slices[peer.place.worker.value];
  object->peer_ni = peer.place.id;
  object->peer_slice = peer.place.slice;
  object->nid = peer.key.second;
  object->timeout = ni.tunables.timeout;
  conn.object = object;
  conn.stage = ConnStage::kAdopting;
  control.host.to_worker(peer.place.worker, ConnAdoptMsg{object});
  return true;
}

void conn_adopted(IbControl& control, ConnCtl& conn) {
  if (conn.stage != ConnStage::kAdopting) return;
  conn.stage = ConnStage::kAsking;
  std::array<std::byte, kMessageMax> buffer;
  const MessageType type = conn.active ? MessageType::kConnReq : MessageType::kConnAck;
  const size_t bytes = encode_connect(buffer, type, conn.ends, conn.params);
  control.rc.proceed(conn.id, std::span(buffer).first(bytes), control.now);
}

void conn_up(IbControl& control, ConnCtl& conn) {
  PeerCtl& peer = *control.find_peer(conn.peer);
  const NiCtl& ni = *control.find_ni(conn.ni);
  const bool first = !has_up(control, peer);
  if (!conn.active) half_open_end(control, conn);
  conn.stage = ConnStage::kUp;
  const unsigned depth = conn.params.queue_depth;
  const unsigned high_water = high_water_of(depth, ni.offer.queue_depth, unsigned(ni.tunables.peercredits_hiw));
  conn.facts = {conn.ends, uint16_t(depth), uint16_t(high_water), uint16_t(ni.tunables.concurrent_sends)};
  control.host.to_worker(peer.place.worker, ConnUpMsg{conn.object, &conn.facts});
  dial_satisfied(control, peer, conn);
  if (first) control.host.peer_up(peer.place.id);
}

void conn_close(IbControl& control, ConnCtl& conn, Completion how) {
  if (conn.stage == ConnStage::kEnding) return;
  PeerCtl& peer = *control.find_peer(conn.peer);
  if (!conn.active && conn.stage != ConnStage::kUp) half_open_end(control, conn);
  const bool was_up = conn.stage == ConnStage::kUp;
  conn.stage = ConnStage::kEnding;
  peer.dial.conns.erase(conn.id);
  control.rc.disconnect(conn.id, control.now);
  if (was_up && !has_up(control, peer) && how.error != -ESHUTDOWN) control.host.peer_down(peer.place.id, how.error);
  if (conn.object == nullptr) return conn_free(control, conn);
  control.host.to_worker(peer.place.worker, ConnCloseMsg{conn.object, how});
}

void conn_lost(IbControl& control, ConnCtl& conn, Completion how) {
  const uint64_t peer = conn.peer;
  conn_close(control, conn, how);
  if (PeerCtl* left = control.find_peer(peer)) dial_missed(control, *left);
}

void conns_close(IbControl& control, const PeerCtl& peer, Completion how) {
  const std::set<rc::ConnId> all = peer.conns;  // closing one may end the peer
  for (const rc::ConnId id : all)
    if (ConnCtl* conn = control.find_conn(id)) conn_close(control, *conn, how);
}

// The end of an attempt comes from the provider, too, with the cause and the data of a REJ. The worker may be faster.
void on_conn_ended(IbControl& control, const ConnEndedMsg& msg) {
  ConnCtl* conn = control.find_conn(msg.conn->id);
  if (conn == nullptr || conn->stage == ConnStage::kEnding) return;
  if (conn->stage == ConnStage::kUp) return conn_lost(control, *conn, msg.how);
  conn->lost = msg.how;
}

void on_conn_dead(IbControl& control, const ConnDeadMsg& msg) {
  ConnCtl& conn = *control.find_conn(msg.conn->id);
  near_delete(msg.conn->memory, msg.conn);
  conn.object = nullptr;
  conn_free(control, conn);
}

void ni_settle(IbControl& control, NiCtl& ni) {
  if (!ni.stopping || ni.conns > 0 || ni.flushes_left > 0) return;
  ni.flushes_left = control.host.worker_count();
  ni.flushed = std::make_unique<Owed[]>(ni.flushes_left);
  for (uint16_t worker = 0; worker < control.host.worker_count(); ++worker)
    control.host.to_worker({worker}, NiFlushMsg{ni.params.id, &ni.flushed[worker]});
}

}  // namespace ulnet::o2iblnd
