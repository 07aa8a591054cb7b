// The congestion control of a node's connections, in network namespaces whose own is BBR.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <array>
#include <fstream>
#include <string>

#include "lnd/socklnd/net_io.h"
#include "tests/unit/engine/own_netns.h"

namespace ulnet::socklnd::test {
namespace {

std::string congestion_of(int fd) {
  std::array<char, 16> name{};
  auto bytes = socklen_t(name.size());
  EXPECT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &bytes), 0);
  return name.data();
}

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

/// Sets it for the namespace of this thread. False: the system does not allow it there.
bool set_system(const char* name) {
  return bool(std::ofstream("/proc/sys/net/ipv4/tcp_congestion_control") << name << std::flush);
}

// Goal: BBR paces by the rate of what has arrived, which an outage makes a few bits per second.
TEST(CongestionControl, auto_is_not_bbr) {
  bool set = false;
  const bool allowed = ulnet::test::in_own_netns([&] {
    set = ulnet::test::set_loopback(true) && set_system("bbr");
    if (!set) return;
    EXPECT_EQ(of_a_connection(Congestion::kSystem), "bbr, bbr");
    const std::string chosen = of_a_connection(Congestion::kAuto);
    EXPECT_TRUE(chosen == "cubic, cubic" || chosen == "reno, reno") << chosen;
    EXPECT_EQ(of_a_connection(Congestion::kReno), "reno, reno");
  });
  if (!allowed || !set) GTEST_SKIP() << "no network namespaces with BBR";
}

TEST(CongestionControl, auto_is_that_of_the_system) {
  bool set = false;
  const bool allowed = ulnet::test::in_own_netns([&] {
    set = ulnet::test::set_loopback(true) && set_system("reno");
    if (!set) return;
    EXPECT_EQ(of_a_connection(Congestion::kAuto), "reno, reno");
    EXPECT_EQ(of_a_connection(Congestion::kSystem), "reno, reno");
    const std::string named = of_a_connection(Congestion::kCubic);
    EXPECT_TRUE(named == "cubic, cubic" || named.find("congestion_control") != std::string::npos) << named;
  });
  if (!allowed || !set) GTEST_SKIP() << "no network namespaces";
}

}  // namespace
}  // namespace ulnet::socklnd::test
