// Pipes of the engines over kernel sockets: the same tests for io_uring and epoll.
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "lnd/socklnd/engine/kernel_pipes.h"
#include "tests/unit/engine/rig.h"

namespace ulnet::socklnd::test {
namespace {

class Pipes : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (!rig.missing.empty()) GTEST_SKIP() << rig.missing;
  }
  Rig rig{GetParam()};
  int tag = 0;
  void* const a_owner = &tag;
};
INSTANTIATE_TEST_SUITE_P(Engines, Pipes, testing::Values(Kind::kUring, Kind::kEpoll), kind_name);

// Goal: the peer goes while a pipe is sent to it. The kernel would raise SIGPIPE, also if a part was sent before. This
// program does not ignore that signal.
TEST_P(Pipes, a_peer_that_goes_raises_no_signal) {
  ASSERT_EQ(std::signal(SIGPIPE, SIG_DFL), SIG_DFL);
  for (int round = 0; round < 10; ++round) {
    const auto [a, b] = tcp_pair();
    const StreamId id = rig.attach(a, a_owner);
    StreamPipe* pipe = rig.engine->pipe_take();
    ASSERT_NE(pipe, nullptr);
    const std::vector<char> bytes(512 * 1024, 'x');
    std::thread peer([&, fd = b] {
      for (size_t at = 0; at < bytes.size();) {
        const ssize_t put = ::send(fd, bytes.data() + at, bytes.size() - at, 0);
        ASSERT_GT(put, 0);
        at += size_t(put);
      }
      ::close(fd);
    });
    while (pipe->bytes() < bytes.size()) {
      rig.engine->receive_piped(id, *pipe, uint32_t(bytes.size()) - pipe->bytes());
      ASSERT_GT(rig.expect(StreamEventKind::kReceived, a_owner), 0);
    }
    peer.join();
    uint32_t left = pipe->bytes();
    for (int result = 1; left > 0 && result > 0;) {
      rig.engine->send_piped(id, *pipe, left, false);
      result = rig.expect(StreamEventKind::kSent, a_owner);
      left -= uint32_t(std::max(result, 0));
    }
    rig.engine->close(id, true);
    rig.expect(StreamEventKind::kClosed, a_owner);
    pipe->give_back();
  }
}

// Goal: a process that has few descriptors left opens no pipes. Later, when it has more, it opens some.
TEST_P(Pipes, none_are_opened_when_descriptors_are_scarce) {
  const int before = open_descriptors();
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const rlimit few{rlim_t(before) + 2, files.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(rig.engine->pipe_take(), nullptr);
  EXPECT_EQ(open_descriptors(), before);
  setrlimit(RLIMIT_NOFILE, &files);
  StreamPipe* pipe = nullptr;
  for (int tries = 0; tries < 2000 && pipe == nullptr; ++tries) pipe = rig.engine->pipe_take();
  ASSERT_NE(pipe, nullptr);
  EXPECT_EQ(open_descriptors(), before + 2);
  pipe->give_back();
  EXPECT_EQ(rig.engine->pipe_take(), pipe) << "the same, and it is open";
  EXPECT_EQ(open_descriptors(), before + 2);
  unsigned count = 1;
  while (rig.engine->pipe_take() != nullptr) ++count;
  EXPECT_EQ(count, kPipesMax);
  rig.engine.reset();
  EXPECT_LE(open_descriptors(), before) << "the engine closes them";
}

}  // namespace
}  // namespace ulnet::socklnd::test
