#include "lnd/socklnd/dial_ctl.h"

#include <algorithm>

#include "dataplane/base/nid_text.h"
#include "lnd/socklnd/handshake_ctl.h"
#include "lnd/socklnd/peer_ctl.h"
#include "lnd/socklnd/room_ctl.h"
#include "lnd/socklnd/status.h"

namespace ulnet::socklnd {
namespace {

constexpr uint32_t kNonesMax = 3;           ///< in a row (docs/wire/socklnd.md §6, 4)
constexpr Duration kConnectAgain = 900ms;   ///< then a SYN without answer is sent again
constexpr uint32_t kVersionChangesMax = 4;  ///< in a row; more than there are versions: the peer is making fun of us

void wait_until(SockControl& control, SetCtl& set, DialState state, Instant at) {
  set.dial.state = state;
  set.dial.at = at;
  control.due.set(SockControl::due_key(set), at);
}

/// The attempt failed for good: everything queued ends, the next attempt has to wait.
void dial_failed(SockControl& control, SetCtl& set, int error) {
  Dial& dial = set.dial;
  dial.socket = 0;
  dial.nones = dial.version_changes = 0;
  dial.silent_since = kNever;
  const SockConfig& config = control.config;
  dial.interval =
      dial.interval == Duration{0} ? config.min_reconnect : std::min(dial.interval * 2, config.max_reconnect);
  dial.forget_at = control.now + 3 * dial.interval;
  wait_until(control, set, DialState::kBackoff, control.now + dial.interval);
  set_fail(control, set, queue_failure(error));
  if (set.live.empty()) control.host.peer_down(set.place.id, error);
}

void dial_retry_later(SockControl& control, SetCtl& set) {
  wait_until(control, set, DialState::kRetry, control.now + control.config.min_reconnect);
}

/// Dials the next one at once; the attempt so far is forgotten.
void dial_next(SockControl& control, SetCtl& set) {
  set.dial.state = DialState::kIdle;
  set.dial.socket = 0;
  dial_step(control, set);
}

/// Dials, held to the NI's interface where it has to be; without the right to do that, by way of the kernel's routes.
Result<SocketId> dial_held(SockControl& control, const NiCtl& ni, const Endpoint& remote) {
  SocketOptions options = socket_options(control, ni);
  if (control.devices != nullptr) options.interface = control.devices->hold_to(ni.params, remote.address);
  Result<SocketId> socket = control.net.connect(ni.address, remote, options);
  if (socket || socket.error().code != -EPERM || options.interface.empty()) return socket;
  hold_failed(control, ni, options.interface, socket.error());
  options.interface.clear();
  return control.net.connect(ni.address, remote, options);
}

void dial_start(SockControl& control, NiCtl& ni, SetCtl& set, ConnType type) {
  const SockConfig& config = control.config;
  const Endpoint remote{nid_address(set.nid), config.accept_port};
  if (remote.address.v6 != ni.address.v6) return dial_failed(control, set, -EAFNOSUPPORT);
  if (!memory_for_conn(control)) return dial_failed(control, set, -ENOMEM);
  const Result<SocketId> socket = dial_held(control, ni, remote);
  if (!socket) {
    if (set.dial.interval == Duration{0})
      control.log_limited(LogCause::kDial, "socklnd: dialling " + nid_text(set.nid) + ": " + socket.error().what);
    return dial_failed(control, set, socket.error().code);
  }
  Handshake& shake = handshake_add(control, *socket, true, remote, ni.timeout);
  shake.ni = set.ni;
  shake.set_id = set.id;
  const uint32_t version = set.version != 0 ? set.version : hello_best_version(ni.params.nid);
  shake.sent = hello_request(ni.params.nid, set.nid, ni.incarnation, type, version);
  set.dial.state = DialState::kConnecting;
  set.dial.socket = *socket;
  set.dial.type = type;
}

/// NONE: the peer has no use for this connection now.
void dial_none(SockControl& control, SetCtl& set) {
  set.dial.socket = 0;
  if (++set.dial.nones < kNonesMax) return dial_retry_later(control, set);
  set.dial.nones = 0;
  if (!each_type_there(set.counts, control.config.typed_conns)) return dial_failed(control, set, -EALREADY);
  set.dial.state = DialState::kIdle;  // fewer than we wanted, but enough
  set_settle(control, set);
}

void dial_other_version(SockControl& control, NiCtl& ni, SetCtl& set, uint32_t version) {
  const bool speakable = version == kVersion4 || (ni.params.nid.fits_u64() && set.nid.fits_u64());
  if (!speakable || ++set.dial.version_changes > kVersionChangesMax) return dial_failed(control, set, -EPROTO);
  set.version = version;
  dial_next(control, set);
}

void dial_accepted(SockControl& control, Handshake& shake, NiCtl& ni, SetCtl& set) {
  const SocketId socket = shake.socket;
  const Hello answer = shake.hello.hello();
  const ConnType type = shake.sent.ctype;
  ActiveCase c;
  c.known = !set.live.empty();
  c.known_version = set.version;
  c.known_incarnation = set.incarnation;
  c.version = answer.version;
  c.incarnation = answer.src_incarnation;
  c.same_ip = shake.remote.address == ni.address;
  c.same_type_count = set.counts[size_t(type)];
  c.type_limit = type_limit(type, ni.conns_per_peer);
  switch (active_verdict(c)) {
    case ActiveVerdict::kKeep: break;
    case ActiveVerdict::kDuplicate: handshake_drop(control, socket); return dial_none(control, set);
    case ActiveVerdict::kRebooted:
      handshake_drop(control, socket);
      set_close_all(control, set, -ESTALE);
      return dial_next(control, set);
  }
  const bool first = set.live.empty();
  Conn* conn = room_for_conn(control, set) ? conn_make(control, set, type, shake.remote, answer, false) : nullptr;
  if (conn == nullptr) {
    handshake_drop(control, socket);
    return dial_failed(control, set, -ENOBUFS);
  }
  handshake_place(control, socket, set, *conn);
  set.dial.nones = set.dial.version_changes = 0;
  set.dial.interval = Duration{0};
  set.dial.forget_at = kNever;
  if (first) control.host.peer_up(set.place.id);
  dial_next(control, set);
}

}  // namespace

void dial_wanted(SockControl& control, SetCtl& set) {
  switch (set.dial.state) {
    case DialState::kIdle: return dial_step(control, set);
    case DialState::kConnecting:
    case DialState::kRetry: return;
    case DialState::kBackoff: break;
  }
  if (set.dial.at > control.now) return set_fail(control, set, {-EHOSTUNREACH, LndStatus::kRemoteDropped});
  control.due.clear(SockControl::due_key(set));
  dial_next(control, set);
}

void dial_now(SockControl& control, SetCtl& set) {
  Dial& dial = set.dial;
  if (dial.state == DialState::kBackoff) {
    dial.interval = Duration{0};
    return wait_until(control, set, DialState::kBackoff, control.now);
  }
  if (dial.state != DialState::kConnecting) return;
  const Handshake& shake = control.handshakes.at(dial.socket);
  if (shake.phase != HandshakePhase::kConnecting || control.now - shake.began < kConnectAgain) return;
  if (dial.silent_since == kNever) dial.silent_since = shake.began;
  handshake_drop(control, dial.socket);
  if (control.now - dial.silent_since >= control.find_ni(set.ni)->timeout)
    return dial_failed(control, set, -ETIMEDOUT);  // as if the first of these attempts had gone on
  dial_next(control, set);
}

void dial_step(SockControl& control, SetCtl& set) {
  NiCtl* ni = control.find_ni(set.ni);
  if (set.dial.state != DialState::kIdle || ni == nullptr || ni->stopping) return;
  if (set.abandoned) return set_fail(control, set, queue_failure(-ESHUTDOWN));
  if (set.pid != kLnetPid) return set_fail(control, set, {-EHOSTUNREACH, LndStatus::kRemoteError});
  const ConnType type = next_type(set.counts, ni->conns_per_peer, control.config.typed_conns);
  if (type == ConnType::kNone) return;
  if (set.accepting > 0) return dial_retry_later(control, set);
  dial_start(control, *ni, set, type);
}

void dial_due(SockControl& control, SetCtl& set) {
  const DialState state = set.dial.state;
  if (state == DialState::kConnecting) return;
  set.dial.state = DialState::kIdle;
  // After a failure only a set that has connections goes on by itself; else the next message starts a dial.
  if (state == DialState::kRetry || (state == DialState::kBackoff && !set.live.empty())) return dial_next(control, set);
  set_settle(control, set);
}

void dial_stop(SockControl& control, SetCtl& set) {
  if (set.dial.state == DialState::kConnecting) handshake_drop(control, set.dial.socket);
  set.dial = {};
  control.due.clear(SockControl::due_key(set));
}

void dial_connected(SockControl& control, Handshake& shake) {
  SetCtl& set = *control.find_set(shake.set_id);
  NiCtl& ni = *control.find_ni(shake.ni);
  shake.phase = HandshakePhase::kHello;
  set.dial.silent_since = kNever;
  control.due.set(SockControl::due_key(shake), control.now + ni.timeout);
  shake.out_end = conn_request_encode(set.nid, shake.out);
  int written = handshake_write(control, shake);
  const size_t request_end = shake.out_end;
  shake.out_end += hello_encode(shake.sent, std::span(shake.out).subspan(request_end));
  if (written == 1) written = handshake_write(control, shake);
  if (written < 0) dial_broken(control, shake, written);
}

void dial_writable(SockControl& control, Handshake& shake) {
  if (shake.phase == HandshakePhase::kConnecting) return;
  const int written = handshake_write(control, shake);
  if (written < 0) dial_broken(control, shake, written);
}

void dial_readable(SockControl& control, Handshake& shake) {
  if (shake.phase != HandshakePhase::kHello) return;
  int error = 0;
  switch (handshake_read(control, shake, shake.hello, error)) {
    case ShakeRead::kMore: return;
    case ShakeRead::kBroken: return dial_broken(control, shake, error);
    case ShakeRead::kVerdict: break;
  }
  if (shake.hello.status() != HelloStatus::kHello) return dial_broken(control, shake, -EPROTO);
  SetCtl& set = *control.find_set(shake.set_id);
  NiCtl& ni = *control.find_ni(shake.ni);
  const uint32_t version = shake.hello.hello().version;
  const AnswerVerdict verdict = hello_answer_check(shake.sent, {set.nid, set.pid}, shake.hello.hello());
  if (verdict == AnswerVerdict::kAccepted) return dial_accepted(control, shake, ni, set);
  if (verdict == AnswerVerdict::kProtocolError) return dial_broken(control, shake, -EPROTO);
  handshake_drop(control, shake.socket);
  if (verdict == AnswerVerdict::kRetry) return dial_none(control, set);
  dial_other_version(control, ni, set, version);
}

void dial_broken(SockControl& control, Handshake& shake, int error) {
  SetCtl& set = *control.find_set(shake.set_id);
  if (error == -EPROTO) {
    const char* why = hello_status_text(shake.hello.status());
    control.log_limited(LogCause::kDial, "socklnd: " + nid_text(set.nid) + " answered with no acceptable HELLO " + why);
  }
  handshake_drop(control, shake.socket);
  dial_failed(control, set, error);
}

void dial_connect_failed(SockControl& control, Handshake& shake, int error) {
  SetCtl& set = *control.find_set(shake.set_id);
  control.due.clear(SockControl::due_key(shake));
  control.handshakes.erase(shake.socket);
  dial_failed(control, set, error);
}

}  // namespace ulnet::socklnd
