#include "lnd/socklnd/handshake_ctl.h"

#include "dataplane/base/nid_text.h"
#include "lnd/socklnd/peer_ctl.h"
#include "lnd/socklnd/room_ctl.h"

namespace ulnet::socklnd {

SocketOptions socket_options(const SockControl& control, const NiCtl& ni) {
  const SockConfig& config = control.config;
  SocketOptions options;
  options.privileged_ports = !config.unprivileged_ports;
  options.tos = ni.tunables.tos >= 0 ? ni.tunables.tos : config.tos;
  options.send_buffer_bytes = config.tx_buffer_bytes;
  options.receive_buffer_bytes = config.rx_buffer_bytes;
  options.nodelay = !config.nagle;
  options.congestion = config.congestion;
  options.keepalive_idle = config.keepalive_idle;
  options.keepalive_interval = config.keepalive_interval;
  options.keepalive_count = config.keepalive_count;
  return options;
}

void hold_failed(SockControl& control, const NiCtl& ni, const std::string& interface, const Error& error) {
  const char* mend = error.code == -EPERM ? "; give ulnetd CAP_NET_RAW, or routes by source address" : "";
  control.log_limited(LogCause::kHold, "socklnd: " + nid_text(ni.params.nid) + ": a connection is not bound to " +
                                           interface + ": " + error.what + mend);
}

int handshake_write(SockControl& control, Handshake& shake) {
  while (shake.out_begin < shake.out_end) {
    const int put = control.net.write(
        shake.socket, std::span<const std::byte>(shake.out).subspan(shake.out_begin, shake.out_end - shake.out_begin));
    if (put == -EAGAIN) {
      control.net.want(shake.socket, true, true);
      return 0;
    }
    if (put <= 0) return put == 0 ? -EPIPE : put;
    shake.out_begin += size_t(put);
  }
  control.net.want(shake.socket, true, false);
  return 1;
}

Handshake& handshake_add(SockControl& control, SocketId socket, bool active, const Endpoint& remote, Duration timeout) {
  Handshake& shake = control.handshakes[socket];
  shake.socket = socket;
  shake.active = active;
  shake.phase = active ? HandshakePhase::kConnecting : HandshakePhase::kRequest;
  shake.remote = remote;
  shake.began = control.now;
  shake.hello.reset(active ? HelloRole::kActive : HelloRole::kPassive);
  if (!active) {
    ++control.half_open;
    ++control.half_open_of[address_share(remote.address)];
  }
  control.due.set(SockControl::due_key(shake), control.now + timeout);
  return shake;
}

namespace {
void forget(SockControl& control, SocketId socket) {
  const auto it = control.handshakes.find(socket);
  if (!it->second.active) {
    --control.half_open;
    const auto share = control.half_open_of.find(address_share(it->second.remote.address));
    if (--share->second == 0) control.half_open_of.erase(share);
  }
  control.due.clear(SockControl::due_key(it->second));
  control.handshakes.erase(it);
}
}  // namespace

void handshake_drop(SockControl& control, SocketId socket) {
  Handshake& shake = control.handshakes.at(socket);
  SetCtl* set = control.find_set(shake.set_id);
  if (shake.conn != nullptr && set != nullptr) {  // it was accepted, and broke before the answer was out
    --set->accepting;
    conn_free(control, *set, shake.conn);
  }
  const bool settle = shake.conn != nullptr && set != nullptr;
  forget(control, socket);
  control.net.close(socket);
  if (settle) set_settle(control, *set);
}

void handshake_place(SockControl& control, SocketId socket, SetCtl& set, Conn& conn) {
  forget(control, socket);
  const StreamSource source = control.net.detach(socket);
  set_tell(control, set, ConnAddMsg{&conn, source});
}

}  // namespace ulnet::socklnd
