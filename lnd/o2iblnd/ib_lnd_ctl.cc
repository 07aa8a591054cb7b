#include "lnd/o2iblnd/ib_lnd_ctl.h"

#include <algorithm>
#include <array>
#include <utility>

#include "dataplane/base/nid_text.h"
#include "lnd/o2iblnd/accept_ctl.h"
#include "lnd/o2iblnd/conn_ctl.h"
#include "lnd/o2iblnd/dial_ctl.h"
#include "lnd/o2iblnd/fields.h"
#include "lnd/o2iblnd/status.h"

namespace ulnet::o2iblnd {
namespace {

constexpr unsigned kTurnEventsMax = 256;

unsigned depth_of(const NiParams& params) {
  return std::clamp<unsigned>(unsigned(std::max(params.peer_credits, 0)), kDepthMin, kDepthMax);
}

/// The choices that an NI's settings leave to the driver are made. Bounds as upstream has them: docs/wire/o2iblnd.md
/// §5, §11.
IbTunables in_force(IbTunables tunables, const IbConfig& config, unsigned depth) {
  if (tunables.timeout == Duration{0}) tunables.timeout = config.timeout;
  tunables.conns_per_peer = std::max(tunables.conns_per_peer, 1);
  tunables.peercredits_hiw = int32_t(high_water_of(depth, depth, unsigned(tunables.peercredits_hiw)));
  const int32_t sends = tunables.concurrent_sends == 0 ? int32_t(depth) : tunables.concurrent_sends;
  tunables.concurrent_sends = std::clamp(sends, int32_t(depth) / 2, 2 * int32_t(depth));
  return tunables;
}

const char* stage_word(ConnStage stage) {
  switch (stage) {
    case ConnStage::kMaking:
    case ConnStage::kAdopting: return "preparing";
    case ConnStage::kAsking: return "connecting";
    case ConnStage::kUp: return "up";
    case ConnStage::kEnding: return "closing";
  }
  return "";
}

ConnectionShow conn_show(const ConnCtl& conn) {
  ConnectionShow show{stage_word(conn.stage), {{"queue depth", conn.params.queue_depth}}, {}};
  const auto add = [&](const char* name, const Gauge ConnGauges::*gauge) {
    show.numbers.emplace_back(name, conn.object == nullptr ? 0 : (conn.object->gauges.*gauge).get());
  };
  add("credits", &ConnGauges::credits);
  add("reserved", &ConnGauges::reserved);
  add("owed", &ConnGauges::owed);
  add("sends", &ConnGauges::sends);
  add("waiting", &ConnGauges::waiting);
  add("messages sent", &ConnGauges::messages_sent);
  add("messages received", &ConnGauges::messages_received);
  add("bytes sent", &ConnGauges::bytes_sent);
  add("bytes received", &ConnGauges::bytes_received);
  return show;
}

/// The state of its device can be reported to the host, and was not yet.
bool is_unreported(const IbControl& control, const NiCtl& ni) {
  return !ni.usable.has_value() && !ni.stopping && control.rc.device(ni.listener).known;
}

/// NIs of one address share a listener.
Result<rc::ListenerId> listen(IbControl& control, const rc::IpAddress& address) {
  const auto known = control.listeners.find(address);
  if (known != control.listeners.end()) {
    ++known->second.users;
    return known->second.id;
  }
  const auto id = control.rc.listen({address, control.config.service});
  if (id) control.listeners[address] = {*id, 1};
  return id;
}

void unlisten(IbControl& control, const rc::IpAddress& address) {
  const auto known = control.listeners.find(address);
  if (known == control.listeners.end() || --known->second.users > 0) return;
  control.rc.unlisten(known->second.id);
  control.listeners.erase(known);
}

}  // namespace

void IbControl::log_limited(LogCause cause, const std::string& line) {
  const auto left_out = log_limits[size_t(cause)].allows(now);
  if (!left_out) return;
  host.log(*left_out == 0 ? line : line + " (" + std::to_string(*left_out) + " such lines left out before)");
}

void IbControl::peer_fault(ConnCtl& conn, PeerFault fault) {
  if (fault == PeerFault::kNone || std::exchange(conn.blamed, true)) return;
  ++find_ni(conn.ni)->faults[size_t(fault)];
  log_limited(LogCause::kFault, "o2iblnd: " + nid_text(find_peer(conn.peer)->key.second) + ": " + fault_text(fault) +
                                    "; connection closed");
}

IbLndControl::IbLndControl(LndControlHost& host, rc::Control& rc, const IbConfig& config)
    : state_{.host = host, .rc = rc, .config = config} {
  state_.next_stamp = config.incarnation;
}

// The workers are gone, and with them their share in the connections.
IbLndControl::~IbLndControl() {
  for (auto& [id, conn] : state_.conns) {
    if (conn.object != nullptr) near_delete(conn.object->memory, conn.object);
  }
  for (auto& [address, listener] : state_.listeners) state_.rc.unlisten(listener.id);
}

Result<void> IbLndControl::ni_start(const NiParams& params, Instant now) {
  state_.now = now;
  if (params.nid.net().type() != NetType::kO2ib) return fail(EINVAL, "o2iblnd serves o2ib networks only");
  if (!params.nid.fits_u64()) return fail(EINVAL, "o2ib has IPv4 addresses only");
  if (state_.find_ni(params.id) != nullptr) return fail(EEXIST, "this NI is started already", params.id.value);
  for (const auto& [id, other] : state_.nis)
    if (other.params.nid == params.nid) return fail(EEXIST, "an NI with this NID is started already", id.value);
  NiCtl ni;
  ni.params = params;
  ni.address = rc::IpAddress::of_v4(params.nid.address_v4());
  ni.stamp = state_.next_stamp++;
  ni.offer = {uint16_t(depth_of(params)), uint16_t(kFragmentsMax), kMessageMax};
  ni.tunables = in_force(ib_tunables(params.tunables), state_.config, ni.offer.queue_depth);
  const auto listener = listen(state_, ni.address);
  if (!listener) return tl::unexpected<Error>(listener.error());
  if (!state_.config.register_memory) {
    unlisten(state_, ni.address);
    return fail(ENODEV,
                "this node started when there was no RDMA device, so its memory is not registered; start it again");
  }
  ni.listener = *listener;
  state_.nis.emplace(params.id, std::move(ni));
  return {};
}

void IbLndControl::ni_stop(NiId id, Instant now) {
  state_.now = now;
  NiCtl* ni = state_.find_ni(id);
  if (ni == nullptr || ni->stopping) return;
  ni->stopping = true;
  unlisten(state_, ni->address);
  std::vector<uint64_t> peers;
  for (const auto& [peer_id, peer] : state_.peers)
    if (peer.key.first == id) peers.push_back(peer_id);
  for (const uint64_t peer_id : peers)
    if (PeerCtl* peer = state_.find_peer(peer_id)) peer_abandon(state_, *peer);
  ni_settle(state_, *ni);
}

Result<void> IbLndControl::ni_tune(NiId id, std::span<const int64_t> numbers, Instant now) {
  state_.now = now;
  NiCtl* ni = state_.find_ni(id);
  if (ni == nullptr || ni->stopping) return fail(ENOENT, "no such NI is running", id.value);
  ni->tunables = in_force(ib_tunables(numbers), state_.config, ni->offer.queue_depth);
  for (const auto& [conn_id, conn] : state_.conns) {
    if (conn.ni != id || conn.object == nullptr || conn.stage == ConnStage::kEnding) continue;
    state_.host.to_worker(state_.find_peer(conn.peer)->place.worker, ConnTuneMsg{conn.object, ni->tunables.timeout});
  }
  return {};
}

void IbLndControl::retune(const IbConfig& config, Instant now) {
  state_.now = now;
  const IbConfig was = std::exchange(state_.config, config);
  IbConfig& kept = state_.config;
  kept.incarnation = was.incarnation;
  kept.service = was.service;
  kept.peers_max = was.peers_max;
  kept.conns_max = was.conns_max;
  kept.half_open_max = was.half_open_max;
  kept.passives_max = was.passives_max;
  kept.foreign_max = was.foreign_max;
  kept.peer_buckets = was.peer_buckets;
  kept.register_memory = was.register_memory;
  for (uint16_t worker = 0; worker < state_.host.worker_count(); ++worker)
    state_.host.to_worker({worker}, TuneMsg{kept.keepalive});
}

std::vector<int64_t> IbLndControl::ni_tunables(NiId id) const {
  const auto ni = state_.nis.find(id);
  if (ni == state_.nis.end()) return {};
  return ib_tunable_numbers(ni->second.tunables);
}

void IbLndControl::connect_again(NiId ni, const Nid& peer, Instant now) {
  state_.now = now;
  if (PeerCtl* known = state_.find_peer(PeerKey{ni, peer})) dial_again(state_, *known);
}

bool IbLndControl::sends_any_memory(NiId id) const {
  const auto ni = state_.nis.find(id);
  return ni != state_.nis.end() && state_.rc.device(ni->second.listener).any_memory;
}

unsigned IbLndControl::ni_connections(NiId id) const {
  const auto ni = state_.nis.find(id);
  return ni == state_.nis.end() ? 0 : ni->second.conns;
}

std::vector<ConnectionShow> IbLndControl::connections(NiId id, const Nid& peer) const {
  std::vector<ConnectionShow> shows;
  if (peer.is_any()) {
    for (const auto& [conn_id, conn] : state_.conns)
      if (conn.ni == id) shows.push_back(conn_show(conn));
    return shows;
  }
  const auto known = state_.peer_of.find(PeerKey{id, peer});
  if (known == state_.peer_of.end()) return shows;
  for (const rc::ConnId conn : state_.peers.at(known->second).conns) shows.push_back(conn_show(state_.conns.at(conn)));
  return shows;
}

std::vector<std::pair<const char*, int64_t>> IbLndControl::peer_faults(NiId id) const {
  std::vector<std::pair<const char*, int64_t>> counts;
  const auto ni = state_.nis.find(id);
  if (ni == state_.nis.end()) return counts;
  for (size_t i = 1; i < kPeerFaults; ++i) counts.emplace_back(fault_text(PeerFault(i)), ni->second.faults[i]);
  return counts;
}

void IbLndControl::conn_wanted(WorkerId worker, const ConnWantedMsg& msg) {
  const auto refuse = [&](int error) {
    state_.host.to_worker(worker, PeerFailMsg{msg.ni, msg.peer_ni, {error, LndStatus::kLocalAborted}});
  };
  NiCtl* ni = state_.find_ni(msg.ni);
  if (ni == nullptr || ni->stopping) return refuse(-ESHUTDOWN);
  const auto is_there = [&](const PeerPlace& place) { return place.worker == worker && place.id == msg.peer_ni; };
  Result<PeerCtl*> peer = peer_ensure(state_, *ni, msg.nid, nullptr);
  if (!peer) return refuse(peer.error().code);
  // Messages wait where they were given: a peer at another worker would never come to them.
  if (!is_there((*peer)->place)) {
    const Result<PeerPlace> place = state_.host.place_peer(msg.nid, msg.ni);
    if (!place || !is_there(*place)) {
      refuse(-EXDEV);
      return peer_settle(state_, **peer);
    }
    peer_abandon(state_, **peer);
    peer = peer_ensure(state_, *ni, msg.nid, nullptr);
    if (!peer) return refuse(peer.error().code);
  }
  dial_wanted(state_, **peer);
}

void IbLndControl::conn_unwanted(WorkerId worker, const ConnUnwantedMsg& msg) {
  PeerCtl* peer = state_.find_peer(PeerKey{msg.ni, msg.nid});
  if (peer == nullptr || peer->place.worker != worker || peer->place.id != msg.peer_ni) return;
  dial_unwanted(state_, *peer);
}

void IbLndControl::ni_flushed(NiId id) {
  NiCtl* ni = state_.find_ni(id);
  if (ni == nullptr || ni->flushes_left == 0 || --ni->flushes_left > 0) return;
  state_.nis.erase(id);
  state_.host.ni_stopped(id);
}

void IbLndControl::from_worker(WorkerId worker, const LndMsg& msg, Instant now) {
  state_.now = now;
  switch (ToControl(msg.kind())) {
    case ToControl::kConnWanted: return conn_wanted(worker, msg.as<ConnWantedMsg>());
    case ToControl::kConnUnwanted: return conn_unwanted(worker, msg.as<ConnUnwantedMsg>());
    case ToControl::kConnAdopted: {
      ConnCtl* conn = state_.find_conn(msg.as<ConnAdoptedMsg>().conn->id);
      if (conn != nullptr) conn_adopted(state_, *conn);
      return;
    }
    case ToControl::kConnEnded: {
      const auto ended = msg.as<ConnEndedMsg>();
      ConnCtl* conn = state_.find_conn(ended.conn->id);
      if (conn != nullptr) state_.peer_fault(*conn, ended.conn->fault);
      return on_conn_ended(state_, ended);
    }
    case ToControl::kConnDead: return on_conn_dead(state_, msg.as<ConnDeadMsg>());
    case ToControl::kNiFlushed: return ni_flushed(msg.as<NiFlushedMsg>().ni);
  }
}

// The event may have waited while the last NI of its listener stopped.
void IbLndControl::device_changed(rc::ListenerId listener) {
  const auto uses = [&](const auto& entry) { return entry.second.listener == listener && !entry.second.stopping; };
  if (std::none_of(state_.nis.begin(), state_.nis.end(), uses)) return;
  const rc::Device device = state_.rc.device(listener);
  if (!device.known) return;
  for (auto& [id, ni] : state_.nis) {
    if (ni.listener != listener || ni.stopping) continue;
    if (device.usable) state_.host.ni_speed(id, device.speed);
    const std::string who = "o2iblnd: " + nid_text(ni.params.nid) + ": ";
    const std::string_view why_not = device.usable ? "" : device.why_not;
    if (why_not != std::exchange(ni.why_not, why_not) && !why_not.empty())
      state_.host.log(who + device.name + ": " + std::string(why_not));
    if (ni.usable == device.usable) continue;
    ni.usable = device.usable;
    if (device.usable && !device.keys_end && !std::exchange(ni.exposure_logged, true))
      state_.host.log(who + device.name +
                      " has no memory windows: peers may write into registered memory, not only "
                      "where a message goes, until it is freed");
    state_.host.ni_fatal(id, !device.usable);
  }
}

// The target of the CONNREQ cannot be read: the first NI of the listener has the count. Version 1 is no fault.
void IbLndControl::request_fault(const rc::Event& event) {
  Message request;
  const std::span<const std::byte> data = event.private_data();
  if (message_decode(data, request) == MessageFault::kNone || message_version(data) == kVersion1) return;
  for (auto& [id, ni] : state_.nis) {
    if (ni.listener != event.listener || ni.stopping) continue;
    ++ni.faults[size_t(PeerFault::kRequest)];
    return;
  }
}

void IbLndControl::rc_event(const rc::Event& event) {
  if (event.kind == rc::EventKind::kRequest) {
    request_fault(event);
    return accept_request(state_, event);
  }
  if (event.kind == rc::EventKind::kDevice) return device_changed(event.listener);
  ConnCtl* conn = state_.find_conn(event.conn);
  if (conn == nullptr || conn->stage == ConnStage::kEnding) return;
  const std::span<const std::byte> data = event.private_data();
  if (event.cause == rc::Cause::kRemoteAccess) state_.peer_fault(*conn, PeerFault::kAccess);
  switch (event.kind) {
    case rc::EventKind::kReady:
      return conn->active ? dial_ready(state_, *conn, *event.qp) : accept_ready(state_, *conn, *event.qp);
    case rc::EventKind::kEstablished:
      return conn->active ? dial_answered(state_, *conn, data) : accept_established(state_, *conn);
    case rc::EventKind::kFailed:
      return conn->active ? dial_refused(state_, *conn, event.cause, data)
                          : accept_failed(state_, *conn, failure_of(event.cause));
    case rc::EventKind::kClosed: return conn_lost(state_, *conn, failure_of(event.cause));
    case rc::EventKind::kRequest:
    case rc::EventKind::kDevice: return;
  }
}

unsigned IbLndControl::rc_events() {
  std::array<rc::Event, 16> events;
  unsigned done = 0;
  while (done < kTurnEventsMax) {
    const unsigned count = state_.rc.poll(events, state_.now);
    for (unsigned i = 0; i < count; ++i) rc_event(events[i]);
    done += count;
    if (count < events.size()) break;
  }
  return done;
}

// While ni_start() runs, the host does not have the NI yet.
unsigned IbLndControl::report_new_nis() {
  unsigned done = 0;
  for (const auto& [id, ni] : state_.nis) {
    if (!is_unreported(state_, ni)) continue;
    device_changed(ni.listener);
    ++done;
  }
  return done;
}

unsigned IbLndControl::turn(Instant now) {
  state_.now = now;
  const unsigned done = report_new_nis() + rc_events();
  return done + dial_due(state_);
}

Instant IbLndControl::next_deadline() {
  const auto unreported = [&](const auto& entry) { return is_unreported(state_, entry.second); };
  if (std::any_of(state_.nis.begin(), state_.nis.end(), unreported)) return kNever;
  return std::min(state_.rc.next_deadline(), dial_next(state_));
}

}  // namespace ulnet::o2iblnd
