// Routes of this machine, and of a network namespace of the test's own.
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "lnd/net/kernel/route_ctl.h"
#include "tests/nid_of.h"

namespace ulnet::test {
namespace {

/// Of the namespace of the calling thread.
bool set_loopback(bool up) {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = short(up ? IFF_UP | IFF_RUNNING : 0);
  const bool done = ::ioctl(socket, SIOCSIFFLAGS, &request) == 0;
  (void)::close(socket);
  return done;
}

TEST(Route, to_an_address_of_this_machine_runs) {
  EXPECT_TRUE(route_runs(tcp_nid("127.0.0.1"), tcp_nid("127.0.0.2")));
  EXPECT_EQ(route_interface(tcp_nid("127.0.0.1"), tcp_nid("127.0.0.2")), "lo");
  EXPECT_EQ(route_interface(tcp_nid("127.0.0.1"), tcp_nid("::1")), "");
}

TEST(Route, between_families_is_not_known_to_be_down) {
  EXPECT_TRUE(route_runs(tcp_nid("127.0.0.1"), tcp_nid("::1")));
}

// Goal: the only interface of a new namespace is down at first. Its address and its routes come with it.
TEST(Route, ends_with_its_interface) {
  bool allowed = false;
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) != 0) return;
    allowed = true;
    EXPECT_FALSE(route_runs(tcp_nid("127.0.0.1"), tcp_nid("127.0.0.2")));
    ASSERT_TRUE(set_loopback(true));
    EXPECT_TRUE(route_runs(tcp_nid("127.0.0.1"), tcp_nid("127.0.0.2")));
    EXPECT_FALSE(route_runs(tcp_nid("127.0.0.1"), tcp_nid("192.0.2.1"))) << "no interface leads there";
    EXPECT_EQ(route_interface(tcp_nid("127.0.0.1"), tcp_nid("192.0.2.1")), "");
    ASSERT_TRUE(set_loopback(false));
    EXPECT_FALSE(route_runs(tcp_nid("127.0.0.1"), tcp_nid("127.0.0.2")));
  }).join();
  if (!allowed) GTEST_SKIP() << "no network namespaces";
}

}  // namespace
}  // namespace ulnet::test
