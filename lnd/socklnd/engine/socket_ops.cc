#include "lnd/socklnd/engine/socket_ops.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace ulnet::socklnd {

// To connect to no address ends a TCP connection with a reset, and drops what it has not sent. Another process may have
// the descriptor, too. Where that fails, close() does the same for the last descriptor.
void socket_reset(int fd) {
  const linger now{1, 0};
  (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  const sockaddr nowhere{AF_UNSPEC, {}};
  (void)connect(fd, &nowhere, sizeof nowhere);
}

void socket_shutdown(int fd) {
  (void)shutdown(fd, SHUT_RDWR);
}

void socket_set_blocking(int fd, bool blocking) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return;
  (void)fcntl(fd, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

uint32_t socket_unsent_bytes(int fd) {
  int bytes = 0;
  return fd >= 0 && ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? uint32_t(bytes) : 0;
}

uint64_t socket_resent_bytes(int fd) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (fd < 0 || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return 0;
  return uint64_t{info.tcpi_total_retrans} * info.tcpi_snd_mss;
}

// The kernel's time to the next attempt is at most what is left of the user timeout.
void socket_resend_within(int fd, Duration stalled, Duration within) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  const bool sends_again =
      getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 && info.tcpi_retransmits > 0 && within > Duration{0};
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(stalled + within).count();
  const unsigned limit_ms = sends_again ? unsigned(limit) : 0;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof limit_ms);
}

}  // namespace ulnet::socklnd
