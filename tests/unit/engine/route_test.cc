// Routes of this machine, and of a network namespace of the test's own.
#include <gtest/gtest.h>

#include "lnd/net/kernel/route_ctl.h"
#include "tests/nid_of.h"
#include "tests/own_netns.h"

namespace ulnet::test {
namespace {

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
  const bool allowed = in_own_netns([] {
    EXPECT_FALSE(route_runs(tcp_nid("127.0.0.1"), tcp_nid("127.0.0.2")));
    ASSERT_TRUE(set_loopback(true));
    EXPECT_TRUE(route_runs(tcp_nid("127.0.0.1"), tcp_nid("127.0.0.2")));
    EXPECT_FALSE(route_runs(tcp_nid("127.0.0.1"), tcp_nid("192.0.2.1"))) << "no interface leads there";
    EXPECT_EQ(route_interface(tcp_nid("127.0.0.1"), tcp_nid("192.0.2.1")), "");
    ASSERT_TRUE(set_loopback(false));
    EXPECT_FALSE(route_runs(tcp_nid("127.0.0.1"), tcp_nid("127.0.0.2")));
  });
  if (!allowed) GTEST_SKIP() << "no network namespaces";
}

}  // namespace
}  // namespace ulnet::test
