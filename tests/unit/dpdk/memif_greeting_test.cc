// The question to a memif server whether it answers: servers that are away, that greet, end, and do not answer.
#include "lnd/net/dpdk/memif_greeting.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>

namespace ulnet::dpdk {
namespace {

using Answer = MemifGreeting::Answer;

/// A server's socket, with the longest queue that memif's server has.
class Server {
 public:
  Server(const std::string& name, bool abstract) : fd_(::socket(AF_UNIX, SOCK_SEQPACKET, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(name.begin(), name.end(), address.sun_path + (abstract ? 1 : 0));
    const size_t bytes = abstract ? offsetof(sockaddr_un, sun_path) + 1 + name.size() : sizeof address;
    if (::bind(fd_, reinterpret_cast<const sockaddr*>(&address), socklen_t(bytes)) != 0 || ::listen(fd_, 1) != 0)
      ADD_FAILURE() << "no socket " << name;
  }
  ~Server() { ::close(fd_); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  [[nodiscard]] int accept() { return ::accept(fd_, nullptr, nullptr); }

 private:
  const int fd_;
};

class MemifGreetingTest : public testing::TestWithParam<bool> {
 protected:
  MemifGreetingTest() { std::filesystem::remove(name_); }
  ~MemifGreetingTest() override { std::filesystem::remove(name_); }
  [[nodiscard]] DeviceSpec device() const {
    return *device_spec("memif,role=client,socket=" + name_ + (GetParam() ? "" : ",socket-abstract=no"));
  }
  const std::string name_ = testing::TempDir() + "ulnet-greeting-" + std::to_string(::getpid());
};

TEST_P(MemifGreetingTest, no_server) {
  MemifGreeting greeting(device());
  EXPECT_EQ(Answer::kNoServer, greeting.look());
  EXPECT_EQ(Answer::kNoServer, greeting.look());
}

TEST_P(MemifGreetingTest, greets_once_it_has_accepted) {
  Server server(name_, GetParam());
  MemifGreeting greeting(device());
  EXPECT_EQ(Answer::kNone, greeting.look());
  const int accepted = server.accept();
  EXPECT_EQ(Answer::kNone, greeting.look());
  const std::array<std::byte, 128> hello{};
  ASSERT_EQ(ssize_t(hello.size()), ::send(accepted, hello.data(), hello.size(), 0));
  EXPECT_EQ(Answer::kGreeted, greeting.look());
  ::close(accepted);
}

TEST_P(MemifGreetingTest, ends_behind_the_connection) {
  Server server(name_, GetParam());
  MemifGreeting accepted(device());
  EXPECT_EQ(Answer::kNone, accepted.look());
  ::close(server.accept());
  EXPECT_EQ(Answer::kNoServer, accepted.look());
}

TEST_P(MemifGreetingTest, ends_before_it_accepts) {
  auto server = std::make_unique<Server>(name_, GetParam());
  MemifGreeting greeting(device());
  EXPECT_EQ(Answer::kNone, greeting.look());
  server.reset();
  EXPECT_EQ(Answer::kNoServer, greeting.look());
}

// DPDK's own connect would wait here.
TEST_P(MemifGreetingTest, a_full_queue) {
  Server server(name_, GetParam());
  std::vector<std::unique_ptr<MemifGreeting>> greetings;
  for (unsigned i = 0; i < 5; ++i) {
    greetings.push_back(std::make_unique<MemifGreeting>(device()));
    EXPECT_EQ(Answer::kNone, greetings.back()->look());
  }
  for (unsigned i = 0; i < 5; ++i) {
    const int accepted = server.accept();
    ASSERT_EQ(1, ::send(accepted, "h", 1, 0));
    EXPECT_EQ(Answer::kGreeted, greetings[i]->look()) << i;
    ::close(accepted);
    for (unsigned later = i + 1; later < 5; ++later) EXPECT_EQ(Answer::kNone, greetings[later]->look()) << later;
  }
}

INSTANTIATE_TEST_SUITE_P(names, MemifGreetingTest, testing::Bool(),
                         [](const auto& given) { return given.param ? "abstract" : "file"; });

}  // namespace
}  // namespace ulnet::dpdk
