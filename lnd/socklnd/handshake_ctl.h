// Moves the bytes of handshakes. A read takes no more than belongs to them; bytes that cannot be written at once go
// later. acceptor_ctl and dial_ctl decide what the bytes mean. Thread: control.
#pragma once
#include "lnd/socklnd/state_ctl.h"

namespace ulnet::socklnd {

/// Options of an NI's sockets, for dialling and for listening.
[[nodiscard]] SocketOptions socket_options(const SockControl& control, const NiCtl& ni);

/// Logs for the operator that a connection of the NI uses any interface that the kernel chooses.
void hold_failed(SockControl& control, const NiCtl& ni, const std::string& interface, const Error& error);

enum class ShakeRead : uint8_t { kMore, kVerdict, kBroken };

/// Feeds the decoder from the socket until it has a verdict. Reads exactly what the decoder needs, for two reasons. A
/// message behind the HELLO stays in the socket. After nonsense, unread bytes make a close reset the connection, as the
/// kernel's LNet does.
template <class Decoder>
ShakeRead handshake_read(SockControl& control, Handshake& shake, Decoder& decoder, int& error) {
  std::array<std::byte, 256> bytes;
  for (size_t need = decoder.need(); need != 0; need = decoder.need()) {
    const int got = control.net.read(shake.socket, std::span(bytes).first(std::min(need, bytes.size())));
    if (got == -EAGAIN) return ShakeRead::kMore;
    if (got <= 0) {
      error = got == 0 ? -ECONNRESET : got;
      return ShakeRead::kBroken;
    }
    std::span<const std::byte> in{bytes.data(), size_t(got)};
    decoder.feed(in);
  }
  return ShakeRead::kVerdict;
}

/// Writes what is left of shake.out. 1: all written; 0: the rest goes when the socket is writable; negative errno:
/// broken.
[[nodiscard]] int handshake_write(SockControl& control, Handshake& shake);

/// A socket has become a handshake; it ends by itself after `timeout`.
Handshake& handshake_add(SockControl& control, SocketId socket, bool active, const Endpoint& remote, Duration timeout);
/// Forgets the handshake and closes its socket.
void handshake_drop(SockControl& control, SocketId socket);
/// Forgets the handshake; hands its socket to the set's worker as `conn`, which is counted already.
void handshake_place(SockControl& control, SocketId socket, SetCtl& set, Conn& conn);

}  // namespace ulnet::socklnd
