// A network namespace of a test's own.
#pragma once
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <thread>

namespace ulnet::test {

/// Of the namespace of the calling thread.
inline bool set_loopback(bool up) {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = short(up ? IFF_UP | IFF_RUNNING : 0);
  const bool done = ::ioctl(socket, SIOCSIFFLAGS, &request) == 0;
  (void)::close(socket);
  return done;
}

/// Runs `work` on a thread in a new namespace, whose only interface is down. False: the system allows none.
template <class Work>
[[nodiscard]] bool in_own_netns(Work work) {
  bool allowed = false;
  std::thread([&] {
    allowed = ::unshare(CLONE_NEWNET) == 0;
    if (allowed) work();
  }).join();
  return allowed;
}

}  // namespace ulnet::test
