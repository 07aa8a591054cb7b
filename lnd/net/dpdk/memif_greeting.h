// Does the server of a memif port answer? DPDK's client connects once. If the queue of the server's socket is full,
// that connect waits without end. If the server ends behind the connect, the client never has a link.
#pragma once
#include "lnd/net/dpdk/port_config.h"

namespace ulnet::dpdk {

/// A connection to the server's socket, on which the server sends its greeting. Never waits. A server that has greeted
/// has also accepted all earlier connections. Keep the connection until look() has an answer: DPDK 22.11 aborts a
/// server whose client goes before it is accepted.
class MemifGreeting {
 public:
  enum class Answer : uint8_t { kNone, kGreeted, kNoServer };

  /// The parameters "socket" and "socket-abstract" of a memif device say where the server is.
  explicit MemifGreeting(const DeviceSpec& device);
  ~MemifGreeting();
  MemifGreeting(const MemifGreeting&) = delete;
  MemifGreeting& operator=(const MemifGreeting&) = delete;

  /// Connects if it is not connected yet, and looks for the greeting. kNone: call it again later.
  [[nodiscard]] Answer look();

 private:
  [[nodiscard]] Answer connect();

  const DeviceSpec device_;
  int fd_ = -1;
};

}  // namespace ulnet::dpdk
