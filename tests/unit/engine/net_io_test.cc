// NetIo over kernel sockets, on loopback.
#include "lnd/socklnd/net_io.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "tests/unit/engine/rig.h"

namespace ulnet::socklnd::test {
namespace {

IpAddress v4(uint8_t last) {
  return {false, {127, 0, 0, last}};
}
IpAddress v6_loopback() {
  IpAddress out{true, {}};
  out.bytes[15] = 1;
  return out;
}

class Net : public testing::Test {
 protected:
  /// The next event, or kFailed of socket 0 when none came within `wait_ms`.
  NetEvent next(int wait_ms = 10'000) {
    std::array<NetEvent, 1> out;
    for (;;) {
      if (io->poll(out, kNever) == 1) return out[0];
      pollfd wait{io->wait_fd(), POLLIN, 0};
      if (::poll(&wait, 1, wait_ms) == 0) return {NetEventKind::kFailed, 0, 0, {}, 0};
    }
  }
  /// Listens on a free port of `at`.
  Endpoint listen(const IpAddress& at) {
    for (uint16_t port = 20'000;; ++port) {
      auto id = io->listen({at, port}, 128, plain);
      if (id) {
        listener = *id;
        return {at, port};
      }
      EXPECT_EQ(-EADDRINUSE, id.error().code);
      if (port > 20'100) return {};
    }
  }
  struct Both {
    SocketId dialled = 0, accepted = 0;
    Endpoint from;
  };
  Both connect(const IpAddress& local, const Endpoint& to, const SocketOptions& options) {
    Both both;
    auto id = io->connect(local, to, options);
    EXPECT_TRUE(id.has_value()) << id.error().what;
    both.dialled = *id;
    bool connected = false;
    while (both.accepted == 0 || !connected) {
      const NetEvent event = next();
      if (event.kind == NetEventKind::kAccepted) {
        both.accepted = event.socket;
        both.from = event.remote;
        EXPECT_EQ(listener, event.listener);
      } else {
        EXPECT_EQ(int(NetEventKind::kConnected), int(event.kind)) << event.error;
        EXPECT_EQ(both.dialled, event.socket);
        connected = true;
      }
    }
    return both;
  }
  static bool may_bind_low_ports() {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(777);
    const bool may = bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 || errno != EACCES;
    ::close(fd);
    return may;
  }

  std::unique_ptr<NetIo> io = make_kernel_net_io();
  ListenerId listener = 0;
  SocketOptions plain{.privileged_ports = false};
  SocketOptions privileged{};
  std::array<std::byte, 16> bytes{};
};

TEST_F(Net, talks_both_ways_on_v4_and_v6) {
  for (const IpAddress& address : {v4(1), v6_loopback()}) {
    const Endpoint at = listen(address);
    const Both both = connect(address, at, plain);
    EXPECT_EQ(at, io->local_endpoint(both.accepted));
    EXPECT_EQ(both.from, io->local_endpoint(both.dialled));
    EXPECT_EQ(-EAGAIN, io->read(both.accepted, bytes));
    EXPECT_EQ(5, io->write(both.dialled, std::as_bytes(std::span("hello", 5))));
    NetEvent event = next();
    EXPECT_EQ(int(NetEventKind::kReadable), int(event.kind));
    EXPECT_EQ(both.accepted, event.socket);
    EXPECT_EQ(5, io->read(both.accepted, bytes));
    io->want(both.dialled, false, true);
    event = next();
    EXPECT_EQ(int(NetEventKind::kWritable), int(event.kind));
    EXPECT_EQ(both.dialled, event.socket);
    io->want(both.dialled, false, false);
    io->close(both.accepted);
    EXPECT_EQ(0u, next(20).socket) << "nobody wants the hang-up yet";
    io->want(both.dialled, true, true);
    EXPECT_EQ(int(NetEventKind::kReadable), int(next().kind));
    EXPECT_EQ(0, io->read(both.dialled, bytes));
    io->close(both.dialled);
    io->unlisten(listener);
  }
}

TEST_F(Net, holds_an_accepted_connection_to_the_interface_that_it_came_in_over) {
  for (const IpAddress& address : {v4(1), v6_loopback()}) {
    const Both both = connect(address, listen(address), plain);
    const auto elsewhere = io->hold(both.accepted, "no-such-if");
    ASSERT_FALSE(elsewhere.has_value());
    EXPECT_EQ(-EXDEV, elsewhere.error().code);
    EXPECT_TRUE(io->hold(both.accepted, "lo").has_value());
    EXPECT_EQ(5, io->write(both.accepted, std::as_bytes(std::span("hello", 5))));
    EXPECT_EQ(both.dialled, next().socket);
    EXPECT_EQ(5, io->read(both.dialled, bytes));
    const int fd = int(io->detach(both.accepted).number);
    std::array<char, 16> name{};
    auto length = socklen_t(name.size());
    EXPECT_EQ(0, getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name.data(), &length));
    EXPECT_STREQ("lo", name.data());
    ::close(fd);
    io->close(both.dialled);
    io->unlisten(listener);
  }
}

TEST_F(Net, says_why_it_cannot_listen) {
  const Endpoint at = listen(v4(1));
  auto again = io->listen(at, 8, plain);
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(-EADDRINUSE, again.error().code);
  EXPECT_TRUE(io->listen({v4(2), at.port}, 8, plain).has_value()) << "exactly this address";
  auto foreign = io->listen({{false, {192, 0, 2, 1}}, 20'000}, 8, plain);
  ASSERT_FALSE(foreign.has_value());
  EXPECT_EQ(-EADDRNOTAVAIL, foreign.error().code);
  SocketOptions nowhere = plain;
  nowhere.interface = "no-such-if";
  auto device = io->listen({v4(3), 20'000}, 8, nowhere);
  ASSERT_FALSE(device.has_value());
  EXPECT_EQ(-ENODEV, device.error().code);
}

TEST_F(Net, dials_that_fail) {
  const Endpoint at = listen(v4(1));
  io->unlisten(listener);
  auto refused = io->connect(v4(1), at, plain);
  ASSERT_TRUE(refused.has_value());
  const NetEvent event = next();
  EXPECT_EQ(int(NetEventKind::kFailed), int(event.kind));
  EXPECT_EQ(*refused, event.socket);
  EXPECT_EQ(-ECONNREFUSED, event.error);
  EXPECT_EQ(-EBADF, io->read(*refused, bytes)) << "a failed socket is gone already";
  // A loopback address has no route out. An event reports the failure, although connect() has already failed.
  auto unreachable = io->connect(v4(1), {{false, {192, 0, 2, 1}}, 9}, plain);
  ASSERT_TRUE(unreachable.has_value());
  EXPECT_EQ(int(NetEventKind::kFailed), int(next().kind));
  auto foreign = io->connect({false, {192, 0, 2, 1}}, at, plain);
  ASSERT_FALSE(foreign.has_value());
  EXPECT_EQ(-EADDRNOTAVAIL, foreign.error().code);
}

// Goal: source ports go from 1023 down, each local address has its own, and a port is used again when it is free.
TEST_F(Net, source_ports_from_1023_down) {
  if (!may_bind_low_ports()) GTEST_SKIP() << "needs CAP_NET_BIND_SERVICE";
  const Endpoint at = listen(v4(1));
  std::vector<Both> open;
  for (uint16_t port : {1023, 1022, 1021}) {
    open.push_back(connect(v4(2), at, privileged));
    EXPECT_EQ(port, open.back().from.port);
  }
  open.push_back(connect(v4(3), at, privileged));
  EXPECT_EQ(1023, open.back().from.port);
  // The acceptor closes first, so that it has the TIME_WAIT state and the port is free at once.
  io->close(open[1].accepted);
  EXPECT_EQ(int(NetEventKind::kReadable), int(next().kind));
  io->close(open[1].dialled);
  const Both again = connect(v4(2), at, privileged);
  EXPECT_LE(again.from.port, 1022);
  EXPECT_GE(again.from.port, 1020) << "1022 if its old connection is gone, else the next";
}

TEST_F(Net, no_source_port_left) {
  if (!may_bind_low_ports()) GTEST_SKIP() << "needs CAP_NET_BIND_SERVICE";
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < 1200) GTEST_SKIP() << "needs 1,200 descriptors";
  const Endpoint at = listen(v4(1));
  for (int i = 0; i < 512; ++i) connect(v4(4), at, privileged);
  auto none = io->connect(v4(4), at, privileged);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(-EADDRINUSE, none.error().code);
  EXPECT_STREQ("every source port from 1023 to 512 is in use", none.error().what);
  connect(v4(5), at, privileged);  // another address still can
}

TEST_F(Net, detached_socket_goes_to_an_engine_with_its_bytes) {
  const Endpoint at = listen(v4(1));
  const Both both = connect(v4(1), at, plain);
  EXPECT_EQ(3, io->write(both.dialled, std::as_bytes(std::span("abc", 3))));
  const StreamSource source = io->detach(both.accepted);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(0u, next(1).socket);
  Rig rig{Kind::kEpoll};
  int owner = 0;
  const StreamId id = rig.attach(int(source.number), &owner);
  rig.receive(id, bytes.data(), bytes.size());
  EXPECT_EQ(3, rig.expect(StreamEventKind::kReceived, &owner));
  io->discard(io->detach(both.dialled));
  rig.receive(id, bytes.data(), bytes.size());
  EXPECT_EQ(0, rig.expect(StreamEventKind::kReceived, &owner));
}

// Goal: if no descriptor is left, a connection is refused. Otherwise the listener would stay ready for ever.
TEST_F(Net, out_of_descriptors_refuses_and_goes_on) {
  const Endpoint at = listen(v4(1));
  auto dialled = io->connect(v4(1), at, plain);
  ASSERT_TRUE(dialled.has_value());
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const int first_free = dup(0);
  ::close(first_free);
  const rlimit none{rlim_t(first_free), files.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  bool connected = false;
  for (NetEvent event = next(5000); event.socket != 0; event = next(connected ? 50 : 5000)) {
    EXPECT_NE(int(NetEventKind::kAccepted), int(event.kind));
    if (event.kind == NetEventKind::kConnected) connected = true;
    if (event.kind == NetEventKind::kReadable) io->close(*dialled);
  }
  setrlimit(RLIMIT_NOFILE, &files);
  EXPECT_TRUE(connected);
  connect(v4(1), at, plain);
}

TEST_F(Net, rounds_leak_nothing) {
  const Endpoint at = listen(v4(1));
  const int before = open_descriptors();
  for (int i = 0; i < 300; ++i) {
    const Both both = connect(v4(1), at, plain);
    io->close(both.dialled);
    io->close(both.accepted);
  }
  EXPECT_EQ(before, open_descriptors());
}

}  // namespace
}  // namespace ulnet::socklnd::test
