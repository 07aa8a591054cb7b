// The congestion control of a node's connections, in network namespaces whose own is BBR.
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <fstream>
#include <memory>
#include <string>

#include "lnd/socklnd/net_io.h"
#include "tests/congestion_of.h"
#include "tests/own_netns.h"

namespace ulnet::socklnd::test {
namespace {

using ulnet::test::congestion_of;

/// Of a connection on loopback, at both ends: "dialled, accepted".
std::string of_a_connection(Congestion congestion) {
  const IpAddress loopback{false, {127, 0, 0, 1}};
  const SocketOptions options{.privileged_ports = false, .congestion = congestion};
  const std::unique_ptr<NetIo> io = make_kernel_net_io();
  const auto listener = io->listen({loopback, 20'000}, 8, options);
  if (!listener) return listener.error().what;
  const auto dialled = io->connect(loopback, {loopback, 20'000}, options);
  if (!dialled) return dialled.error().what;
  SocketId accepted = 0;
  for (bool connected = false; accepted == 0 || !connected;) {
    std::array<NetEvent, 1> event;
    pollfd wait{io->wait_fd(), POLLIN, 0};
    if (io->poll(event, kNever) == 0) {
      if (::poll(&wait, 1, 10'000) == 0) return "no connection";
    } else if (event[0].kind == NetEventKind::kAccepted) {
      accepted = event[0].socket;
    } else {
      connected = event[0].kind == NetEventKind::kConnected;
      if (!connected) return "failed";
    }
  }
  const StreamSource one = io->detach(*dialled), other = io->detach(accepted);
  const std::string text = congestion_of(int(one.number)) + ", " + congestion_of(int(other.number));
  io->discard(one);
  io->discard(other);
  return text;
}

/// Runs `work` in a network namespace whose own is `system`. False: this machine allows none.
template <class Work>
[[nodiscard]] bool under(const char* system, Work work) {
  bool set = false;
  const bool allowed = ulnet::test::in_own_netns([&] {
    std::ofstream own("/proc/sys/net/ipv4/tcp_congestion_control");
    set = ulnet::test::set_loopback(true) && bool(own << system << std::flush);
    if (set) work();
  });
  return allowed && set;
}

// Goal: BBR paces by the rate of what has arrived, which an outage makes a few bits per second.
TEST(CongestionControl, auto_is_not_bbr) {
  const bool ran = under("bbr", [] {
    EXPECT_EQ(of_a_connection(Congestion::kSystem), "bbr, bbr");
    const std::string chosen = of_a_connection(Congestion::kAuto);
    EXPECT_TRUE(chosen == "cubic, cubic" || chosen == "reno, reno") << chosen;
    EXPECT_EQ(of_a_connection(Congestion::kReno), "reno, reno");
  });
  if (!ran) GTEST_SKIP() << "no network namespaces with BBR";
}

TEST(CongestionControl, auto_is_that_of_the_system) {
  const bool ran = under("reno", [] {
    EXPECT_EQ(of_a_connection(Congestion::kAuto), "reno, reno");
    EXPECT_EQ(of_a_connection(Congestion::kSystem), "reno, reno");
    const std::string named = of_a_connection(Congestion::kCubic);
    EXPECT_TRUE(named == "cubic, cubic" || named.find("congestion_control") != std::string::npos) << named;
  });
  if (!ran) GTEST_SKIP() << "no network namespaces";
}

}  // namespace
}  // namespace ulnet::socklnd::test
