#include "lnd/net/dpdk/memif_greeting.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>

namespace ulnet::dpdk {
namespace {

constexpr const char* kDefaultSocket = "/run/memif.sock";  // of DPDK 22.11

/// As DPDK 22.11 forms it: the name is abstract unless the parameters deny that.
socklen_t address_of(const DeviceSpec& device, sockaddr_un& out) {
  std::string name = device.parameter("socket");
  if (name.empty()) name = kDefaultSocket;
  out = {};
  out.sun_family = AF_UNIX;
  const size_t abstract = device.parameter("socket-abstract") == "no" ? 0 : 1;
  const size_t room = sizeof out.sun_path - abstract - 1;
  std::copy_n(name.begin(), std::min(name.size(), room), out.sun_path + abstract);
  if (abstract == 0) return sizeof out;
  return socklen_t(offsetof(sockaddr_un, sun_path) + std::min(1 + name.size(), sizeof out.sun_path));
}

}  // namespace

MemifGreeting::MemifGreeting(const DeviceSpec& device) : device_(device) {}

MemifGreeting::~MemifGreeting() {
  if (fd_ >= 0) ::close(fd_);
}

MemifGreeting::Answer MemifGreeting::connect() {
  sockaddr_un address;
  const socklen_t bytes = address_of(device_, address);
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd >= 0 && ::connect(fd, reinterpret_cast<const sockaddr*>(&address), bytes) == 0) {
    fd_ = fd;
    return Answer::kNone;
  }
  const int error = errno;
  if (fd >= 0) ::close(fd);
  return fd < 0 || error == EAGAIN ? Answer::kNone : Answer::kNoServer;  // EAGAIN: its queue is full
}

MemifGreeting::Answer MemifGreeting::look() {
  if (fd_ < 0) {
    if (const Answer answer = connect(); fd_ < 0) return answer;
  }
  std::array<std::byte, 256> message;
  const ssize_t got = ::recv(fd_, message.data(), message.size(), 0);
  if (got > 0) return Answer::kGreeted;
  return got < 0 && (errno == EAGAIN || errno == EINTR) ? Answer::kNone : Answer::kNoServer;
}

}  // namespace ulnet::dpdk
