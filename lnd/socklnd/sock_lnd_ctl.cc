#include "lnd/socklnd/sock_lnd_ctl.h"

#include <algorithm>
#include <utility>

#include "lnd/socklnd/acceptor_ctl.h"
#include "lnd/socklnd/dial_ctl.h"
#include "lnd/socklnd/handshake_ctl.h"
#include "lnd/socklnd/peer_ctl.h"
#include "lnd/socklnd/status.h"

namespace ulnet::socklnd {
namespace {

constexpr unsigned kTurnEventsMax = 256;  ///< socket events of one turn
constexpr unsigned kTurnDueMax = 256;     ///< deadlines of one turn

/// How many bulk connections each way: as the NI says, else as the node says, else by link speed.
uint32_t conns_wanted(const SockControl& control, const NiCtl& ni) {
  const SockTunables& tunables = ni.tunables;
  int32_t conns = tunables.conns_per_peer > 0 ? tunables.conns_per_peer : control.config.conns_per_peer;
  if (conns <= 0) conns = int32_t(conns_per_peer_for(ni.params.device_mbps));
  return std::min(uint32_t(conns), kConnsPerPeerMax);
}

Duration timeout_of(const SockControl& control, const NiCtl& ni) {
  const SockTunables& tunables = ni.tunables;
  return tunables.timeout > 0s ? tunables.timeout : control.config.sock_timeout;
}

}  // namespace

void SockControl::log_limited(LogCause cause, const std::string& line) {
  const auto left_out = log_limits[size_t(cause)].allows(now);
  if (!left_out) return;
  host.log(*left_out == 0 ? line : line + " (" + std::to_string(*left_out) + " such lines left out before)");
}

SockLndControl::SockLndControl(LndControlHost& host, NetIo& net, const SockConfig& config, SockDevices* devices)
    : state_{.host = host, .net = net, .config = config, .devices = devices} {
  state_.next_incarnation = config.incarnation;
}

SockLndControl::~SockLndControl() {
  while (!state_.handshakes.empty()) {
    const SocketId socket = state_.handshakes.begin()->first;
    state_.handshakes.begin()->second.conn = nullptr;  // freed with its set below
    handshake_drop(state_, socket);
  }
  for (auto& [at, listener] : state_.listeners) state_.net.unlisten(listener.id);
  for (auto& [id, set] : state_.sets) {
    for (auto& [conn, one] : set.live) near_delete(conn->memory, conn);
    for (Conn* conn : set.closing) near_delete(conn->memory, conn);
    if (set.object != nullptr) near_delete(set.object->memory, set.object);
  }
  for (auto& [id, retiring] : state_.retiring) near_delete(retiring.second->memory, retiring.second);
}

Result<void> SockLndControl::ni_start(const NiParams& params, Instant now) {
  state_.now = now;
  if (params.nid.net().type() != NetType::kTcp) return fail(EINVAL, "socklnd serves tcp networks only");
  if (state_.find_ni(params.id) != nullptr) return fail(EEXIST, "this NI is started already", params.id.value);
  for (const auto& [id, other] : state_.nis)
    if (other.params.nid == params.nid) return fail(EEXIST, "an NI with this NID is started already", id.value);
  NiCtl ni;
  ni.params = params;
  ni.address = nid_address(params.nid);
  ni.incarnation = state_.next_incarnation++;
  ni.tunables = sock_tunables(params.tunables);
  ni.timeout = timeout_of(state_, ni);
  ni.conns_per_peer = conns_wanted(state_, ni);
  if (const Result<void> opened = acceptor_open(state_, ni); !opened) return opened;
  state_.nis.emplace(params.id, std::move(ni));
  state_.look_at_links = state_.devices != nullptr;
  return {};
}

// An address that was never seen may be one that is not listed (127.0.0.2): only one that was there can be missed.
void SockLndControl::look_at_links() {
  state_.look_at_links = false;
  for (auto& [id, ni] : state_.nis) {
    if (ni.stopping) continue;
    const std::optional<bool> usable = state_.devices->usable(ni.params);
    if (!usable.has_value() && !ni.usable.has_value()) continue;
    const bool now_usable = usable.value_or(false);
    if (now_usable) state_.host.ni_speed(id, state_.devices->speed(ni.params));
    if (ni.usable == now_usable) continue;
    ni.usable = now_usable;
    state_.host.ni_fatal(id, !now_usable);
    if (!now_usable) continue;
    for (auto& [set_id, set] : state_.sets)
      if (set.ni == id) dial_now(state_, set);
  }
}

void SockLndControl::ni_stop(NiId id, Instant now) {
  state_.now = now;
  NiCtl* ni = state_.find_ni(id);
  if (ni == nullptr || ni->stopping) return;
  ni->stopping = true;
  acceptor_close(state_, *ni);
  std::vector<uint64_t> sets;
  for (auto& [set_id, set] : state_.sets)
    if (set.ni == id) sets.push_back(set_id);
  for (const uint64_t set_id : sets) dial_stop(state_, *state_.find_set(set_id));
  std::vector<SocketId> sockets;
  for (auto& [socket, shake] : state_.handshakes)
    if (shake.ni == id && !shake.active && shake.phase != HandshakePhase::kRequest) sockets.push_back(socket);
  for (const SocketId socket : sockets) handshake_drop(state_, socket);
  for (const uint64_t set_id : sets) {
    SetCtl* set = state_.find_set(set_id);
    if (set == nullptr) continue;
    set_close_all(state_, *set, -ESHUTDOWN);
    set_fail(state_, *set, queue_failure(-ESHUTDOWN));
    set_settle(state_, *set);
  }
  ni_settle(state_, *ni);
}

// Fewer connections than there are: those that are there stay. More: a set that has one of each type gets them at once,
// any other when it has something to send.
Result<void> SockLndControl::ni_tune(NiId id, std::span<const int64_t> numbers, Instant now) {
  state_.now = now;
  NiCtl* ni = state_.find_ni(id);
  if (ni == nullptr || ni->stopping) return fail(ENOENT, "no such NI is running", id.value);
  const SockTunables was = std::exchange(ni->tunables, sock_tunables(numbers));
  const bool conns = ni->tunables.conns_per_peer != was.conns_per_peer;
  const bool timeout = ni->tunables.timeout != was.timeout;
  if (conns) ni->conns_per_peer = conns_wanted(state_, *ni);
  if (timeout) ni->timeout = timeout_of(state_, *ni);
  acceptor_retune(state_, *ni);
  for (auto& [set_id, set] : state_.sets) {
    if (set.ni != id) continue;
    if (timeout) set_tell(state_, set, SetTimeoutMsg{set.object, ni->timeout});
    if (conns && set.pid == kLnetPid && each_type_there(set.counts, state_.config.typed_conns)) dial_step(state_, set);
  }
  return {};
}

std::vector<int64_t> SockLndControl::ni_tunables(NiId id) const {
  const auto ni = state_.nis.find(id);
  if (ni == state_.nis.end()) return {};
  SockTunables in_force = ni->second.tunables;
  in_force.conns_per_peer = int32_t(ni->second.conns_per_peer);
  return sock_tunable_numbers(in_force);
}

void SockLndControl::retune(const SockConfig& config, Instant now) {
  state_.now = now;
  const SockConfig was = state_.config;
  state_.config = config;
  SockConfig& kept = state_.config;
  kept.accept_port = was.accept_port;
  kept.accept_backlog = was.accept_backlog;
  kept.accept = was.accept;
  kept.congestion = was.congestion;
  kept.unprivileged_ports = was.unprivileged_ports;
  kept.incarnation = was.incarnation;
  kept.half_open_max = was.half_open_max;
  kept.conns_max = was.conns_max;
  kept.sets_max = was.sets_max;
  kept.zc_outstanding_max = was.zc_outstanding_max;
  kept.rx_slots = was.rx_slots;
  kept.set_buckets = was.set_buckets;
  for (const auto& [id, ni] : state_.nis) acceptor_retune(state_, ni);
  const TuneMsg msg{.keepalive = kept.keepalive,
                    .min_bulk = kept.min_bulk,
                    .zc_min_payload = kept.zc_min_payload,
                    .typed_conns = kept.typed_conns,
                    .enable_csum = kept.enable_csum,
                    .splice = kept.splice};
  for (uint16_t worker = 0; worker < state_.host.worker_count(); ++worker) state_.host.to_worker({worker}, msg);
}

void SockLndControl::connect_again(NiId ni, const Nid& peer, Instant now) {
  state_.now = now;
  const auto found = state_.set_of.find({ni, peer, kLnetPid});
  if (found != state_.set_of.end()) dial_now(state_, *state_.find_set(found->second));
}

unsigned SockLndControl::ni_connections(NiId ni) const {
  size_t count = 0;
  for (const auto& [id, set] : state_.sets)
    if (set.ni == ni) count += set.live.size() + set.closing.size();
  return unsigned(count);
}

void SockLndControl::set_needed(WorkerId worker, const SetNeededMsg& msg) {
  const auto refuse = [&](int error) {
    state_.host.to_worker(worker, OrphansFailMsg{msg.ni, msg.peer_ni, queue_failure(error)});
  };
  NiCtl* ni = state_.find_ni(msg.ni);
  if (ni == nullptr || ni->stopping) return refuse(-ESHUTDOWN);
  const auto is_there = [&](const PeerPlace& place) { return place.worker == worker && place.id == msg.peer_ni; };
  Result<SetCtl*> set = set_ensure(state_, *ni, msg.nid, kLnetPid);
  if (!set) return refuse(set.error().code);
  // Messages wait where they were given: a set at another worker or peer NI would never come to them. Either the peer
  // was placed anew since the set was made, or since they were given.
  if (!is_there((*set)->place)) {
    const Result<PeerPlace> place = state_.host.place_peer(msg.nid, msg.ni);
    if (!place || !is_there(*place)) {
      refuse(-EXDEV);
      return set_settle(state_, **set);
    }
    set_abandon(state_, **set);
    set = set_ensure(state_, *ni, msg.nid, kLnetPid);
    if (!set) return refuse(set.error().code);
  }
  dial_wanted(state_, **set);
}

void SockLndControl::ni_flushed(NiId id) {
  NiCtl* ni = state_.find_ni(id);
  if (ni == nullptr || ni->flushes_left == 0 || --ni->flushes_left > 0) return;
  state_.nis.erase(id);
  state_.host.ni_stopped(id);
}

void SockLndControl::from_worker(WorkerId worker, const LndMsg& msg, Instant now) {
  state_.now = now;
  switch (ToControl(msg.kind())) {
    case ToControl::kSetNeeded: return set_needed(worker, msg.as<SetNeededMsg>());
    case ToControl::kConnsWanted:
      if (SetCtl* set = state_.find_set(msg.as<ConnsWantedMsg>().set_id)) dial_wanted(state_, *set);
      return;
    case ToControl::kConnClosed: return on_conn_closed(state_, msg.as<ConnClosedMsg>());
    case ToControl::kConnDead: return on_conn_dead(state_, msg.as<ConnDeadMsg>());
    case ToControl::kSetGone: return on_set_gone(state_, msg.as<SetGoneMsg>());
    case ToControl::kNiFlushed: return ni_flushed(msg.as<NiFlushedMsg>().ni);
  }
}

void SockLndControl::net_event(const NetEvent& event) {
  if (event.kind == NetEventKind::kAccepted) return acceptor_accepted(state_, event.socket, event.remote);
  const auto it = state_.handshakes.find(event.socket);
  if (it == state_.handshakes.end()) return;  // dropped since the event was made
  Handshake& shake = it->second;
  switch (event.kind) {
    case NetEventKind::kAccepted: return;
    case NetEventKind::kConnected: return dial_connected(state_, shake);
    case NetEventKind::kFailed: return dial_connect_failed(state_, shake, event.error);
    case NetEventKind::kReadable: return shake.active ? dial_readable(state_, shake) : acceptor_readable(state_, shake);
    case NetEventKind::kWritable: return shake.active ? dial_writable(state_, shake) : acceptor_writable(state_, shake);
  }
}

void SockLndControl::fall_due(uint64_t key) {
  if ((key & 1) != 0) {
    if (SetCtl* set = state_.find_set(key / 2)) dial_due(state_, *set);
    return;
  }
  const auto it = state_.handshakes.find(SocketId(key / 2));
  if (it == state_.handshakes.end()) return;
  if (it->second.active) return dial_broken(state_, it->second, -ETIMEDOUT);
  handshake_drop(state_, it->first);
}

unsigned SockLndControl::turn(Instant now) {
  state_.now = now;
  std::array<NetEvent, kEventBurst> events;
  unsigned done = 0;
  if (state_.devices != nullptr && (state_.devices->changed() || state_.look_at_links)) {
    look_at_links();
    ++done;
  }
  while (done < kTurnEventsMax) {
    const unsigned count = state_.net.poll(events, now);
    for (unsigned i = 0; i < count; ++i) net_event(events[i]);
    done += count;
    if (count < events.size()) break;
  }
  for (unsigned i = 0; i < kTurnDueMax; ++i, ++done) {
    const auto key = state_.due.take(now);
    if (!key) break;
    fall_due(*key);
  }
  return done;
}

void SockLndControl::wait_fds(std::vector<int>& out) {
  const int fd = state_.net.wait_fd();
  if (fd >= 0) out.push_back(fd);
  const int links = state_.devices == nullptr ? -1 : state_.devices->wait_fd();
  if (links >= 0) out.push_back(links);
}

void sock_lnd_retune(LndControl& control, const SockConfig& config, Instant now) {
  static_cast<SockLndControl&>(control).retune(config, now);
}

std::unique_ptr<LndControl> make_sock_lnd_control(LndControlHost& host, NetIo& net, const SockConfig& config,
                                                  SockDevices* devices) {
  return std::make_unique<SockLndControl>(host, net, config, devices);
}

}  // namespace ulnet::socklnd
