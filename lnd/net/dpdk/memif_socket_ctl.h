// Sockets of memif's control connections, as DPDK 22.11 forms them.
#pragma once
#include <sys/un.h>

#include "lnd/net/dpdk/port_config.h"

namespace ulnet::dpdk {

struct MemifAddress {
  sockaddr_un socket{};
  socklen_t bytes = 0;
  [[nodiscard]] bool is_abstract() const { return socket.sun_path[0] == '\0'; }
};

/// The name of the socket of this memif device, a default one if not given.
[[nodiscard]] std::string memif_socket(const DeviceSpec& device);

/// Where the server of this memif device is: its parameters "socket" and "socket-abstract" (yes if not given).
[[nodiscard]] MemifAddress memif_address(const DeviceSpec& device);

/// Connects, and does not wait. The caller closes the descriptor. Errors: EAGAIN (the server's queue of connections is
/// full), ECONNREFUSED, ENOENT, or another one of connect(2).
[[nodiscard]] Result<int> memif_connect(const MemifAddress& address);

/// Listens, in the place of a socket file that nobody listens on. The caller closes the descriptor and removes the
/// file. Errors: EADDRINUSE (another process listens there), or another one of bind(2).
[[nodiscard]] Result<int> memif_listen(const MemifAddress& address);

/// Listens at an abstract name that the kernel chooses, "00abc" for example.
[[nodiscard]] Result<int> memif_listen_anywhere(std::string& name);

}  // namespace ulnet::dpdk
