#include "lnd/net/dpdk/memif_socket_ctl.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

namespace ulnet::dpdk {
namespace {

constexpr const char* kDefaultSocket = "/run/memif.sock";  // of DPDK 22.11
constexpr int kBacklog = SOMAXCONN;

int make() {
  return ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

const sockaddr* raw(const MemifAddress& address) {
  return reinterpret_cast<const sockaddr*>(&address.socket);
}

/// Closes the descriptor; the error is that of the call before.
tl::unexpected<Error> gone(int fd, const char* what) {
  const int error = errno;
  if (fd >= 0) ::close(fd);
  return fail(error, what);
}

/// Removes a socket file that nobody listens on. If somebody does, waits for its greeting, or a second: DPDK's server
/// would abort.
bool stale_removed(const MemifAddress& address) {
  struct stat found {};
  if (address.is_abstract() || ::lstat(address.socket.sun_path, &found) != 0 || !S_ISSOCK(found.st_mode)) return false;
  const auto other = memif_connect(address);
  if (!other) return other.error().code == -ECONNREFUSED && ::unlink(address.socket.sun_path) == 0;
  pollfd greeting{*other, POLLIN, 0};
  (void)::poll(&greeting, 1, 1000);
  ::close(*other);
  return false;
}

}  // namespace

std::string memif_socket(const DeviceSpec& device) {
  const std::string name = device.parameter("socket");
  return name.empty() ? kDefaultSocket : name;
}

MemifAddress memif_address(const DeviceSpec& device) {
  const std::string name = memif_socket(device);
  MemifAddress out;
  out.socket.sun_family = AF_UNIX;
  const size_t abstract = device.parameter("socket-abstract") == "no" ? 0 : 1;
  const size_t room = sizeof out.socket.sun_path - abstract - 1;
  std::copy_n(name.begin(), std::min(name.size(), room), out.socket.sun_path + abstract);
  out.bytes = abstract == 0
                  ? socklen_t(sizeof out.socket)
                  : socklen_t(offsetof(sockaddr_un, sun_path) + std::min(1 + name.size(), sizeof out.socket.sun_path));
  return out;
}

Result<int> memif_connect(const MemifAddress& address) {
  const int fd = make();
  if (fd >= 0 && ::connect(fd, raw(address), address.bytes) == 0) return fd;
  return gone(fd, "memif's server cannot be reached");
}

Result<int> memif_listen(const MemifAddress& address) {
  const int fd = make();
  bool bound = fd >= 0 && ::bind(fd, raw(address), address.bytes) == 0;
  if (!bound && errno == EADDRINUSE) {
    bound = stale_removed(address) && ::bind(fd, raw(address), address.bytes) == 0;
    if (!bound) errno = EADDRINUSE;
  }
  if (bound && ::listen(fd, kBacklog) == 0) return fd;
  return gone(fd, "memif's server cannot listen");
}

Result<int> memif_listen_anywhere(std::string& name) {
  const int fd = make();
  MemifAddress address;
  address.socket.sun_family = AF_UNIX;
  socklen_t bytes = sizeof address.socket;
  const bool listens = fd >= 0 && ::bind(fd, raw(address), sizeof address.socket.sun_family) == 0 &&
                       ::listen(fd, kBacklog) == 0 &&
                       ::getsockname(fd, reinterpret_cast<sockaddr*>(&address.socket), &bytes) == 0;
  if (!listens) return gone(fd, "no socket for memif's device");
  name.assign(address.socket.sun_path + 1, bytes - offsetof(sockaddr_un, sun_path) - 1);
  return fd;
}

}  // namespace ulnet::dpdk
