// Real connections of one node: two thousand that break at the same moment, and more than there are slots for. The
// other ends are sockets of this program that speak just enough of socklnd.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <mutex>
#include <vector>

#include "control/lib/ulnet.hh"
#include "lnd/socklnd/proto/acceptor.h"
#include "lnd/socklnd/proto/hello.h"
#include "tests/free_port.h"

namespace ulnet {
namespace {

constexpr unsigned kConnections = 2000;

std::string config(const std::string& address, uint16_t port, unsigned workers = 2, unsigned connections = 4096) {
  return fmt::format(
      "net:\n    - net type: tcp\n      local NI(s):\n        - nid: {}@tcp\n"
      "ulnet:\n    workers: {}\n    unprivileged_ports: true\n    accept_port: {}\n"
      "    memory:\n        connections_per_worker: {}\n        messages_per_worker: 1024\n",
      address, workers, port, connections);
}

bool descriptors(rlim_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < wanted) return false;
  limit.rlim_cur = std::max(limit.rlim_cur, wanted);
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

sockaddr_in endpoint(uint32_t address, uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = htonl(address);
  out.sin_port = htons(port);
  return out;
}

/// A connection of a node of its own, past its HELLO; -1 when that failed.
int connect_as(uint32_t address, const Nid& target, uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in from = endpoint(address, 0), to = endpoint(0x7F000001, port);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&from), sizeof from) != 0 ||
      connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) {
    close(fd);
    return -1;
  }
  std::array<std::byte, socklnd::kConnRequestMaxBytes + socklnd::kHelloMaxBytes> out;
  const size_t request = socklnd::conn_request_encode(target, out);
  const Nid self = Nid::v4(target.net(), address);
  const auto hello = socklnd::hello_request(self, target, 1, socklnd::ConnType::kControl, socklnd::kVersion3);
  const size_t bytes = request + socklnd::hello_encode(hello, std::span(out).subspan(request));
  std::array<std::byte, socklnd::kHelloMaxBytes> answer;
  const size_t expected = socklnd::hello_bytes(socklnd::kVersion3);
  if (send(fd, out.data(), bytes, MSG_NOSIGNAL) == ssize_t(bytes) &&
      recv(fd, answer.data(), expected, MSG_WAITALL) == ssize_t(expected))
    return fd;
  close(fd);
  return -1;
}

TEST(RaceBreak, two_thousand_connections_break_at_once) {
  if (!descriptors(2 * kConnections + 512)) GTEST_SKIP() << "the limit of open files is too low for two thousand pairs";
  const uint16_t port = test::free_port();
  auto server = Instance::open({.config = config("127.0.0.1", port)});
  ASSERT_TRUE(server) << server.error().what;
  const Nid target = nid_parse("127.0.0.1@tcp").value();
  for (int round = 0; round < 2; ++round) {
    std::vector<int> fds;
    for (unsigned i = 0; i < kConnections; ++i) {
      fds.push_back(connect_as(0x7F010001 + i / 250 * 256 + i % 250, target, port));
      ASSERT_GE(fds.back(), 0) << i;
    }
    const linger reset{.l_onoff = 1, .l_linger = 0};
    for (const int fd : fds) (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    for (const int fd : fds) close(fd);
    auto client = Instance::open({.config = config("127.0.0.2", port)});
    ASSERT_TRUE(client) << client.error().what;
    const auto answer = (*client)->ping(target, 60s);
    EXPECT_TRUE(answer) << answer.error().what;
    EXPECT_EQ((*client)->close(), "");
  }
  EXPECT_EQ((*server)->close(), "");
}

// Goal: the slots that `connections_per_worker` gives a worker are the ones by which connections are refused or closed.
TEST(RaceBreak, slots_are_those_of_the_configuration) {
  constexpr unsigned kSlots = 16;
  const uint16_t port = test::free_port();
  std::mutex mutex;
  unsigned lines = 0;
  const auto log = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    lines += line.find("ulnet.memory.connections_per_worker") != std::string::npos;
  };
  auto server = Instance::open({.config = config("127.0.0.1", port, 1, kSlots), .log = log});
  ASSERT_TRUE(server) << server.error().what;
  std::vector<int> fds;
  for (unsigned i = 0; i <= kSlots; ++i) {
    fds.push_back(connect_as(0x7F010001 + i, nid_parse("127.0.0.1@tcp").value(), port));
    EXPECT_GE(fds.back(), 0) << "a node without a slot answers as well";
  }
  {
    const std::lock_guard lock(mutex);
    EXPECT_GE(lines, 1u);
  }
  for (const int fd : fds) close(fd);
  EXPECT_EQ((*server)->close(), "");
}

}  // namespace
}  // namespace ulnet
