#include "lnd/socklnd/peer_ctl.h"

#include <new>

#include "lnd/socklnd/dial_ctl.h"
#include "lnd/socklnd/handshake_ctl.h"
#include "lnd/socklnd/room_ctl.h"
#include "lnd/socklnd/status.h"

namespace ulnet::socklnd {

PeerIdentity peer_identity(const SockConfig& config, Net ni_net, const Endpoint& remote, const Hello& hello) {
  if (remote.port <= 1023 || config.unprivileged_ports) return {hello.src_nid, kLnetPid, false, false};
  if (remote.address.v6) return {{}, 0, false, true};
  return {nid_at(ni_net, remote.address), remote.port | kUserPidFlag, true, false};
}

IpAddress nid_address(const Nid& nid) {
  IpAddress address;
  address.v6 = nid.size != 0;
  for (size_t i = 0; i < (address.v6 ? 16u : 4u); ++i) address.bytes[i] = nid.addr[i];
  return address;
}

Nid nid_at(Net net, const IpAddress& address) {
  if (address.v6) return Nid::v6(net, address.bytes);
  const auto& b = address.bytes;
  return Nid::v4(net, (uint32_t{b[0]} << 24) | (uint32_t{b[1]} << 16) | (uint32_t{b[2]} << 8) | b[3]);
}

Result<SetCtl*> set_ensure(SockControl& control, NiCtl& ni, const Nid& nid, uint32_t pid, const IpAddress* from) {
  const SetKey key{ni.params.id, nid, pid};
  if (const auto it = control.set_of.find(key); it != control.set_of.end()) return control.find_set(it->second);
  if (control.sets.size() >= control.config.sets_max) return fail(ENOMEM, "too many connection sets");
  if (!memory_for_conn(control)) return fail(ENOMEM, "no memory for a connection set");
  const auto address = [&] { return nid_at(ni.params.nid.net(), address_share(*from)); };
  const Result<PeerPlace> place = from == nullptr ? control.host.place_peer(nid, ni.params.id)
                                                  : control.host.place_stranger(nid, ni.params.id, {address()});
  if (!place) return tl::unexpected<Error>(place.error());
  SetCtl& set = control.sets[control.next_set_id];
  set.id = control.next_set_id++;
  set.ni = ni.params.id;
  set.nid = nid;
  set.pid = pid;
  set.place = *place;
  set.made_at = control.now;
  WorkerMemory* memory = control.host.worker_memory(place->worker);
  auto* object = near_new<ConnSet>(memory, control.config.zc_outstanding_max, memory);
  object->id = set.id;
  object->ni = set.ni;
  if (place->worker.value < ni.params.slices.size()) object->ni_slice = ni.params.slices[place->worker.value];
  object->peer_ni = place->id;
  object->peer = place->slice;
  object->nid = nid;
  object->pid = pid;
  object->timeout = ni.timeout;
  set.object = object;
  control.set_of[key] = set.id;
  ++ni.sets;
  ++control.named[place->slice];
  set_tell(control, set, SetOpenMsg{object});
  return &set;
}

void set_abandon(SockControl& control, SetCtl& set) {
  const uint64_t id = set.id;
  set.abandoned = true;
  control.set_of.erase({set.ni, set.nid, set.pid});
  dial_stop(control, set);
  std::vector<SocketId> answering;
  for (auto& [socket, shake] : control.handshakes)
    if (shake.conn != nullptr && shake.set_id == id) answering.push_back(socket);
  for (const SocketId socket : answering) handshake_drop(control, socket);
  SetCtl* left = control.find_set(id);
  if (left == nullptr) return;
  set_close_all(control, *left, -ESHUTDOWN);
  set_fail(control, *left, queue_failure(-ESHUTDOWN));
  set_settle(control, *left);
}

void set_tell(SockControl& control, const SetCtl& set, const LndMsg& msg) {
  control.host.to_worker(set.place.worker, msg);
}

void set_fail(SockControl& control, const SetCtl& set, Completion how) {
  set_tell(control, set, SetFailMsg{set.object, how});
}

void set_close_all(SockControl& control, SetCtl& set, int error) {
  set.version = 0;
  if (set.live.empty()) return;
  for (const auto& [conn, one] : set.live) set.closing.insert(conn);
  control.slots_of(set).closing += uint32_t(set.live.size());
  set.live.clear();
  set.counts = {};
  set_tell(control, set, SetCloseMsg{set.object, error});
}

Conn* conn_make(SockControl& control, SetCtl& set, ConnType type, const Endpoint& remote, const Hello& hello,
                bool rewrite_source) {
  WorkerMemory* memory = control.host.worker_memory(set.place.worker);
  Conn* conn = near_new_or_null<Conn>(memory);
  if (conn == nullptr) return nullptr;
  conn->memory = memory;
  conn->set = set.object;
  conn->type = type;
  conn->version = hello.version;
  conn->flip = hello.flip;
  conn->rewrite_source = rewrite_source;
  const NiCtl* ni = control.find_ni(set.ni);
  conn->on_wire = ni != nullptr && control.devices != nullptr && control.devices->on_wire(ni->params, remote.address);
  set.live[conn] = {type, remote.address};
  ++control.slots_of(set).used;
  ++set.counts[size_t(type)];
  set.version = hello.version;
  set.incarnation = hello.src_incarnation;
  return conn;
}

bool conn_uncount(SockControl& control, SetCtl& set, Conn* conn) {
  const auto it = set.live.find(conn);
  if (it == set.live.end()) return false;
  --set.counts[size_t(it->second.type)];
  set.live.erase(it);
  set.closing.insert(conn);
  ++control.slots_of(set).closing;
  if (set.live.empty()) set.version = 0;  // a peer is forgotten with its last connection
  return true;
}

void conn_free(SockControl& control, SetCtl& set, Conn* conn) {
  (void)conn_uncount(control, set, conn);
  if (set.closing.erase(conn) != 0) {
    --control.slots_of(set).used;
    --control.slots_of(set).closing;
  }
  near_delete(conn->memory, conn);
}

void set_settle(SockControl& control, SetCtl& set) {
  if (!set.live.empty() || !set.closing.empty() || set.accepting > 0) return;
  NiCtl& ni = *control.find_ni(set.ni);
  if (!ni.stopping && !set.abandoned) {
    if (set.dial.state != DialState::kIdle) return;
    if (set.dial.forget_at > control.now) {
      control.due.set(SockControl::due_key(set), set.dial.forget_at);
      return;
    }
  }
  set_tell(control, set, SetRetireMsg{set.object});
  control.retiring[set.id] = {set.ni, set.object};
  control.due.clear(SockControl::due_key(set));
  if (!set.abandoned) control.set_of.erase({set.ni, set.nid, set.pid});
  control.sets.erase(set.id);
}

void ni_settle(SockControl& control, NiCtl& ni) {
  if (!ni.stopping || ni.sets > 0 || ni.flushes_left > 0) return;
  ni.flushes_left = control.host.worker_count();
  ni.flushed = std::make_unique<Owed[]>(ni.flushes_left);
  for (uint16_t worker = 0; worker < control.host.worker_count(); ++worker)
    control.host.to_worker({worker}, NiFlushMsg{ni.params.id, -ESHUTDOWN, &ni.flushed[worker]});
}

void on_conn_closed(SockControl& control, const ConnClosedMsg& msg) {
  SetCtl* set = control.find_set(msg.set_id);
  if (set == nullptr || !conn_uncount(control, *set, msg.conn)) return;
  const bool trying = set->dial.state == DialState::kConnecting || set->accepting > 0;
  if (set->live.empty() && msg.error != 0 && !trying) control.host.peer_down(set->place.id, msg.error);
}

void on_conn_dead(SockControl& control, const ConnDeadMsg& msg) {
  SetCtl* set = control.find_set(msg.set_id);
  if (msg.refused) control.net.discard(*msg.refused);
  if (set == nullptr) {
    near_delete(msg.conn->memory, msg.conn);
    return;
  }
  conn_free(control, *set, msg.conn);
  set_settle(control, *set);
}

void on_set_gone(SockControl& control, const SetGoneMsg& msg) {
  const auto it = control.retiring.find(msg.set_id);
  if (it == control.retiring.end()) return;
  const NiId ni_id = it->second.first;
  const auto named = control.named.find(it->second.second->peer);
  const bool left = --named->second == 0;
  if (left) control.named.erase(named);
  const PeerNiId peer_ni = it->second.second->peer_ni;
  near_delete(it->second.second->memory, it->second.second);
  control.retiring.erase(it);
  if (left) control.host.peer_left(peer_ni);
  NiCtl* ni = control.find_ni(ni_id);
  if (ni == nullptr) return;
  --ni->sets;
  ni_settle(control, *ni);
}

}  // namespace ulnet::socklnd
