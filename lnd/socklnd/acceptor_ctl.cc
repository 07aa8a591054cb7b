#include "lnd/socklnd/acceptor_ctl.h"

#include <algorithm>

#include "dataplane/base/nid_text.h"
#include "lnd/socklnd/handshake_ctl.h"
#include "lnd/socklnd/peer_ctl.h"
#include "lnd/socklnd/room_ctl.h"

namespace ulnet::socklnd {
namespace {

constexpr uint16_t kPrivilegedPortMax = 1023;

Result<void> listen_at(SockControl& control, const NiCtl& ni, uint16_t port) {
  const Endpoint at{ni.address, port};
  SockControl::Listener& listener = control.listeners[at];
  if (listener.users == 0) {
    const Result<ListenerId> id = control.net.listen(at, control.config.accept_backlog, socket_options(control, ni));
    if (!id) {
      control.listeners.erase(at);
      return tl::unexpected<Error>(id.error());
    }
    listener.id = *id;
  }
  ++listener.users;
  return {};
}

void unlisten_at(SockControl& control, const NiCtl& ni, uint16_t port) {
  const auto it = control.listeners.find({ni.address, port});
  if (it == control.listeners.end() || --it->second.users > 0) return;
  control.net.unlisten(it->second.id);
  control.listeners.erase(it);
}

/// If the NI shares its subnet with other interfaces, its answers must leave by its own interface, too.
void hold_accepted(SockControl& control, SocketId socket, const Endpoint& remote) {
  if (control.devices == nullptr) return;
  const IpAddress local = control.net.local_endpoint(socket).address;
  const auto ni = std::find_if(control.nis.begin(), control.nis.end(),
                               [&](const auto& entry) { return entry.second.address == local; });
  if (ni == control.nis.end()) return;
  const std::string interface = control.devices->hold_to(ni->second.params, remote.address);
  if (interface.empty()) return;
  if (auto held = control.net.hold(socket, interface); !held) hold_failed(control, ni->second, interface, held.error());
}

/// Writes `answer`, then closes.
void answer_and_close(SockControl& control, Handshake& shake) {
  shake.phase = HandshakePhase::kAnswerClose;
  if (handshake_write(control, shake) != 0) handshake_drop(control, shake.socket);
}

void answer_hello(SockControl& control, Handshake& shake, const Hello& answer) {
  shake.out_begin = 0;
  shake.out_end = hello_encode(answer, shake.out);
}

/// The request is complete: finds the NI that it names. False: the handshake is over.
bool request_done(SockControl& control, Handshake& shake) {
  switch (shake.request.status()) {
    case AcceptStatus::kMore: return false;
    case AcceptStatus::kRequest: break;
    case AcceptStatus::kAnswerAndClose:
      acceptor_answer_encode(std::span<std::byte, kAcceptorAnswerBytes>(shake.out.data(), kAcceptorAnswerBytes));
      shake.out_end = kAcceptorAnswerBytes;
      answer_and_close(control, shake);
      return false;
    case AcceptStatus::kClose: handshake_drop(control, shake.socket); return false;
  }
  const Nid& target = shake.request.request().target;
  const auto it = std::find_if(control.nis.begin(), control.nis.end(), [&](const auto& entry) {
    return entry.second.params.nid == target && !entry.second.stopping;
  });
  if (it == control.nis.end()) {
    control.log_limited(LogCause::kRequest,
                        "socklnd: connection request for " + nid_text(target) + ", which is not a NID of this node");
    handshake_drop(control, shake.socket);
    return false;
  }
  shake.ni = it->first;
  shake.phase = HandshakePhase::kHello;
  return true;
}

void finish_answer(SockControl& control, Handshake& shake) {
  const int written = handshake_write(control, shake);
  if (written < 0) return handshake_drop(control, shake.socket);
  if (written == 0) return;
  if (shake.phase == HandshakePhase::kAnswerClose) return handshake_drop(control, shake.socket);
  SetCtl& set = *control.find_set(shake.set_id);
  Conn& conn = *shake.conn;
  const bool first = set.live.size() == 1;
  --set.accepting;
  handshake_place(control, shake.socket, set, conn);
  set.dial.interval = Duration{0};
  set.dial.forget_at = kNever;
  if (first) control.host.peer_up(set.place.id);
}

std::string address_text(const SockControl& control, const Handshake& shake) {
  const std::string text = nid_text(nid_at(control.nis.at(shake.ni).params.nid.net(), shake.remote.address));
  return text.substr(0, text.find('@'));
}

/// Input of passive_verdict(): data of the HELLO, and of the peer that the HELLO names.
PassiveCase passive_case(const NiCtl& ni, const SetCtl& set, const Handshake& shake, const Hello& hello) {
  const ConnType type = conn_type_inverse(hello.ctype);
  const auto is_here = [&](const auto& entry) { return entry.second.remote == shake.remote.address; };
  PassiveCase c;
  c.my_nid = ni.params.nid;
  c.peer_nid = set.nid;
  c.known = !set.live.empty();
  c.known_version = set.version;
  c.known_incarnation = set.incarnation;
  c.version = hello.version;
  c.incarnation = hello.src_incarnation;
  c.dialling = set.dial.state == DialState::kConnecting;
  c.same_ip = shake.remote.address == ni.address;
  c.elsewhere = shake.remote.address != nid_address(set.nid) && std::none_of(set.live.begin(), set.live.end(), is_here);
  c.same_type_count = set.counts[size_t(type)];
  c.type_limit = type_limit(type, ni.conns_per_peer);
  return c;
}

/// The verdict, and its effect on existing connections. A rebooted node gets its place at once if it comes from the
/// address in its own NID and all live connections come from elsewhere. Otherwise the node would get NONE each time
/// that the others came back.
PassiveVerdict judge(SockControl& control, const NiCtl& ni, SetCtl& set, const Handshake& shake, const Hello& hello) {
  const PassiveCase c = passive_case(ni, set, shake, hello);
  const PassiveVerdict verdict = passive_verdict(c);
  if (verdict == PassiveVerdict::kClaimed)
    control.log_limited(LogCause::kClaim, "socklnd: " + address_text(control, shake) + " claims to be " +
                                              nid_text(set.nid) + ", which is connected from another address: refused");
  if (verdict != PassiveVerdict::kRebooted) return verdict;
  const IpAddress own = nid_address(set.nid);
  const bool displaces =
      shake.remote.address == own &&
      std::none_of(set.live.begin(), set.live.end(), [&](const auto& entry) { return entry.second.remote == own; });
  set_close_all(control, set, -ESTALE);
  return displaces ? passive_verdict(passive_case(ni, set, shake, hello)) : verdict;
}

/// A good HELLO: accepts the connection, or answers NONE.
void hello_done(SockControl& control, Handshake& shake) {
  NiCtl* ni = control.find_ni(shake.ni);
  if (ni == nullptr || ni->stopping) return handshake_drop(control, shake.socket);
  const Hello hello = shake.hello.hello();
  if (hello.version != kVersion4 && !ni->params.nid.fits_u64()) {  // no older HELLO has room for this NI's NID
    answer_hello(control, shake, hello_answer_unknown_version(ni->params.nid, ni->incarnation));
    return answer_and_close(control, shake);
  }
  const PeerIdentity peer = peer_identity(control.config, ni->params.nid.net(), shake.remote, hello);
  if (peer.refuse) return handshake_drop(control, shake.socket);
  const Result<SetCtl*> found = set_ensure(control, *ni, peer.nid, peer.pid, &shake.remote.address);
  if (!found) {
    control.log_limited(LogCause::kRoom, "socklnd: no room for peer " + nid_text(peer.nid) + ": " + found.error().what);
    return handshake_drop(control, shake.socket);
  }
  SetCtl& set = **found;
  const ConnType type = conn_type_inverse(hello.ctype);
  const PassiveVerdict verdict = judge(control, *ni, set, shake, hello);
  if (verdict == PassiveVerdict::kDuplicate) set_tell(control, set, SetProbeMsg{set.object});
  const bool accept = verdict == PassiveVerdict::kAccept && room_for_conn(control, set);
  Conn* conn = accept ? conn_make(control, set, type, shake.remote, hello, peer.rewrite_source) : nullptr;
  const bool refuse = conn == nullptr;
  answer_hello(control, shake, hello_answer(hello, ni->params.nid, ni->incarnation, refuse));
  if (refuse) {
    set_settle(control, set);
    return answer_and_close(control, shake);
  }
  shake.phase = HandshakePhase::kAnswer;
  shake.set_id = set.id;
  shake.conn = conn;
  ++set.accepting;
  finish_answer(control, shake);
}

/// The half-open connection that gives way to a new one: the oldest of the address that has the most. A node that
/// connects keeps its place while another address opens connections without end.
SocketId half_open_excess(const SockControl& control) {
  const auto& counts = control.half_open_of;
  const uint32_t most = std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
                          return a.second < b.second;
                        })->second;
  // Socket numbers rise, so the first one is the oldest.
  const auto oldest = std::find_if(control.handshakes.begin(), control.handshakes.end(), [&](const auto& entry) {
    return !entry.second.active && counts.at(address_share(entry.second.remote.address)) == most;
  });
  return oldest->first;
}

}  // namespace

Result<void> acceptor_open(SockControl& control, const NiCtl& ni) {
  const SockConfig& config = control.config;
  if (config.accept == AcceptMode::kNone) return {};
  return listen_at(control, ni, config.accept_port);
}

void acceptor_close(SockControl& control, const NiCtl& ni) {
  const SockConfig& config = control.config;
  if (config.accept == AcceptMode::kNone) return;
  unlisten_at(control, ni, config.accept_port);
}

void acceptor_retune(SockControl& control, const NiCtl& ni) {
  const auto listener = control.listeners.find({ni.address, control.config.accept_port});
  if (listener != control.listeners.end()) control.net.set_options(listener->second.id, socket_options(control, ni));
}

void acceptor_accepted(SockControl& control, SocketId socket, const Endpoint& remote) {
  const SockConfig& config = control.config;
  const bool refused =
      config.accept == AcceptMode::kSecure && remote.port > kPrivilegedPortMax && !config.unprivileged_ports;
  if (refused) return control.net.close(socket);
  if (control.half_open >= config.half_open_max) handshake_drop(control, half_open_excess(control));
  if (!memory_for_conn(control)) {
    control.log_limited(LogCause::kMemory, "socklnd: no memory for a connection request");
    return control.net.close(socket);
  }
  hold_accepted(control, socket, remote);
  Handshake& shake = handshake_add(control, socket, false, remote, config.accept_timeout);
  acceptor_readable(control, shake);
}

void acceptor_readable(SockControl& control, Handshake& shake) {
  int error = 0;
  if (shake.phase == HandshakePhase::kRequest) {
    const ShakeRead read = handshake_read(control, shake, shake.request, error);
    if (read == ShakeRead::kMore) return;
    if (read == ShakeRead::kBroken) return handshake_drop(control, shake.socket);
    if (!request_done(control, shake)) return;
  }
  if (shake.phase != HandshakePhase::kHello) return;
  const ShakeRead read = handshake_read(control, shake, shake.hello, error);
  if (read == ShakeRead::kMore) return;
  if (read == ShakeRead::kBroken) return handshake_drop(control, shake.socket);
  switch (shake.hello.status()) {
    case HelloStatus::kMore: return;
    case HelloStatus::kHello: return hello_done(control, shake);
    case HelloStatus::kUnknownVersion: {
      const NiCtl& ni = control.nis.at(shake.ni);
      answer_hello(control, shake, hello_answer_unknown_version(ni.params.nid, ni.incarnation));
      return answer_and_close(control, shake);
    }
    case HelloStatus::kBadMagic:
    case HelloStatus::kBadSource:
    case HelloStatus::kBadType:
    case HelloStatus::kTooManyIps:
    case HelloStatus::kZeroIp:
    case HelloStatus::kNotHello: return handshake_drop(control, shake.socket);
  }
}

void acceptor_writable(SockControl& control, Handshake& shake) {
  if (shake.phase == HandshakePhase::kAnswer || shake.phase == HandshakePhase::kAnswerClose)
    finish_answer(control, shake);
}

}  // namespace ulnet::socklnd
