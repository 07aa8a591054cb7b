// Sockets as the control half of socklnd uses them: listening, dialling and the handshake bytes, never blocking. Kernel
// sockets on the control thread's epoll, or the simulated TCP of the tests.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/result.h"
#include "dataplane/base/time.h"
#include "lnd/socklnd/config.h"
#include "lnd/socklnd/stream.h"

namespace ulnet::socklnd {

/// An IP address, v4 (bytes 0..3) or v6, in network order.
struct IpAddress {
  bool v6 = false;
  std::array<uint8_t, 16> bytes{};
  constexpr auto operator<=>(const IpAddress&) const = default;
};
struct Endpoint {
  IpAddress address;
  uint16_t port = 0;
  constexpr auto operator<=>(const Endpoint&) const = default;
};

using SocketId = uint32_t;  ///< never 0, not reused within the life of a NetIo
using ListenerId = uint32_t;

/// How a dialled or accepted socket is set up (docs/wire/socklnd.md §5 timers, §8).
struct SocketOptions {
  std::string interface;         ///< bind to this device; "" = not
  bool privileged_ports = true;  ///< source port from 1023 down to 512; false: any free port
  int tos = -1;
  uint32_t send_buffer_bytes = 0;  ///< 0 = the system's
  uint32_t receive_buffer_bytes = 0;
  bool nodelay = true;
  Congestion congestion = Congestion::kAuto;
  int keepalive_idle = 30, keepalive_interval = 5, keepalive_count = 5;  ///< s, s, probes; idle 0 = off
};

enum class NetEventKind : uint8_t { kAccepted, kConnected, kFailed, kReadable, kWritable };
/// Event kAccepted: a new socket from `remote` at `listener`.
/// Events kConnected and kFailed (error = negative errno): a dial ended; a failed socket is gone already.
/// Events kReadable and kWritable: level-triggered hints.
struct NetEvent {
  NetEventKind kind;
  SocketId socket = 0;
  ListenerId listener = 0;
  Endpoint remote;
  int error = 0;
};

class NetIo {
 public:
  virtual ~NetIo() = default;
  /// Listens on exactly this address. Errors: EADDRINUSE, EADDRNOTAVAIL, EACCES, ENOTSUP (congestion control).
  [[nodiscard]] virtual Result<ListenerId> listen(const Endpoint& at, int backlog, const SocketOptions& options) = 0;
  virtual void unlisten(ListenerId id) = 0;
  /// Sets the options of sockets that the listener accepts from now on, but for the congestion control.
  virtual void set_options(ListenerId id, const SocketOptions& options) {
    (void)id;
    (void)options;
  }
  /// Starts dialling from `local` (port ignored). kConnected or kFailed follows. Errors: EADDRINUSE when no source port
  /// is left, EADDRNOTAVAIL, EMFILE, ENOTSUP.
  [[nodiscard]] virtual Result<SocketId> connect(const IpAddress& local, const Endpoint& remote,
                                                 const SocketOptions& options) = 0;
  /// Bytes read or written (> 0); 0 = end of stream (read); negative errno, EAGAIN among them.
  [[nodiscard]] virtual int read(SocketId id, std::span<std::byte> out) = 0;
  [[nodiscard]] virtual int write(SocketId id, std::span<const std::byte> in) = 0;
  /// Selects the hints that poll() reports (default: readable yes, writable no).
  virtual void want(SocketId id, bool readable, bool writable) = 0;
  [[nodiscard]] virtual Endpoint local_endpoint(SocketId id) = 0;
  /// Holds an accepted socket to the interface that it came in over. Errors: EXDEV (that is not `interface`), EPERM.
  [[nodiscard]] virtual Result<void> hold(SocketId id, const std::string& interface) {
    (void)id;
    (void)interface;
    return {};
  }
  virtual void close(SocketId id) = 0;
  /// Takes the socket out of this NetIo to be attached to a worker's StreamEngine; `id` is dead.
  [[nodiscard]] virtual StreamSource detach(SocketId id) = 0;
  /// Closes a source that detach() gave and that no engine took.
  virtual void discard(StreamSource source) = 0;
  /// Fills `out`; returns how many.
  virtual unsigned poll(std::span<NetEvent> out, Instant now) = 0;
  /// Readable when poll() has work; -1 for simulated ones.
  [[nodiscard]] virtual int wait_fd() const = 0;
};

/// Kernel sockets.
[[nodiscard]] std::unique_ptr<NetIo> make_kernel_net_io();

}  // namespace ulnet::socklnd
