#include "lnd/socklnd/engine/socket_ops.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace ulnet::socklnd {

void socket_reset_on_close(int fd) {
  const linger now{1, 0};
  (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
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

}  // namespace ulnet::socklnd
