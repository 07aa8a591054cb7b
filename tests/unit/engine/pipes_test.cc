// Pipes of the engines over kernel sockets: the same tests for io_uring and epoll.
#include <sys/ioctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <numeric>
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

/// Writes `bytes` to the socket, and returns when all of them have come to the other end.
void bring(int from, int to, size_t bytes) {
  const std::vector<char> memory(64 * 1024, 'x');
  int there = 0, now = 0;
  ASSERT_EQ(ioctl(to, FIONREAD, &there), 0);
  for (size_t left = bytes; left > 0;) {
    const ssize_t put = ::send(from, memory.data(), std::min(left, memory.size()), 0);
    ASSERT_GT(put, 0);
    left -= size_t(put);
  }
  const auto end = std::chrono::steady_clock::now() + 20s;
  do {
    ASSERT_EQ(ioctl(to, FIONREAD, &now), 0);
    ASSERT_LT(std::chrono::steady_clock::now(), end) << now - there << " of " << bytes;
  } while (now < there + int(bytes));
}

/// The number of bytes from which on the socket is readable.
uint32_t readable_from(int fd) {
  int value = 0;
  socklen_t bytes = sizeof value;
  EXPECT_EQ(getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &value, &bytes), 0);
  return uint32_t(value);
}

// Goal: the ring reports a payload when all but its end has come, the end in its turn, and a receive to memory at once.
TEST(UringPipes, a_receive_waits_for_much) {
  Rig rig(Kind::kUring);
  if (!rig.missing.empty()) GTEST_SKIP() << rig.missing;
  int tag = 0;
  void* const owner = &tag;
  const auto [a, b] = tcp_pair();
  const StreamId id = rig.attach(a, owner);
  StreamPipe* pipe = rig.engine->pipe_take();
  if (pipe == nullptr) GTEST_SKIP() << "the kernel refuses pipes here";
  constexpr uint32_t kKib = 1024, kAll = 512 * kKib;
  for (const uint32_t until : {384 * kKib, kAll}) {
    rig.engine->receive_piped(id, *pipe, kAll - pipe->bytes());
    const uint32_t wanted = readable_from(a);
    if (wanted < until - pipe->bytes() && pipe->bytes() == 0) GTEST_SKIP() << "this kernel waits for " << wanted;
    ASSERT_EQ(wanted, until - pipe->bytes());
    ASSERT_NO_FATAL_FAILURE(bring(b, a, wanted - kKib));
    EXPECT_EQ(rig.next(20).owner, nullptr) << until;
    ASSERT_NO_FATAL_FAILURE(bring(b, a, kKib));
    EXPECT_GT(rig.expect(StreamEventKind::kReceived, owner), 0);
    ASSERT_EQ(pipe->bytes(), until);
  }
  char byte;
  rig.receive(id, &byte, 1);
  EXPECT_EQ(readable_from(a), 1u);
  ASSERT_NO_FATAL_FAILURE(bring(b, a, 1));
  EXPECT_EQ(rig.expect(StreamEventKind::kReceived, owner), 1);
  rig.engine->receive_piped(id, *pipe, 200 * kKib);
  EXPECT_EQ(readable_from(a), 128 * kKib);
  rig.engine->close(id, true);
  EXPECT_LT(rig.expect(StreamEventKind::kReceived, owner), 0);
  rig.expect(StreamEventKind::kClosed, owner);
  ::close(b);
  pipe->give_back();
}

// Goal: lent memory is not copied. The engine says that it is sent while the peer on this machine has not read it, and
// the peer reads what it then contains. Without a pipe, it is copied.
TEST_P(Pipes, lent_memory_is_sent_without_a_copy) {
  StreamPipe* first = rig.engine->pipe_take();
  if (first == nullptr) GTEST_SKIP() << "the kernel refuses pipes here";
  first->give_back();
  for (const bool pipes : {true, false}) {
    SCOPED_TRACE(pipes);
    std::vector<StreamPipe*> taken;
    for (StreamPipe* pipe = nullptr; !pipes && (pipe = rig.engine->pipe_take()) != nullptr;) taken.push_back(pipe);
    const auto [a, b] = tcp_pair();
    const StreamId id = rig.attach(a, a_owner);
    std::vector<char> memory(64 * 1024, 'a');
    const std::array<iovec, 2> pieces{{{memory.data(), 1000}, {memory.data() + 1000, memory.size() - 1000}}};
    rig.engine->send_lent(id, pieces, false);
    ASSERT_EQ(rig.expect(StreamEventKind::kSent, a_owner), int(memory.size()));
    std::fill(memory.begin(), memory.end(), 'b');
    std::vector<char> got(memory.size());
    ASSERT_EQ(::recv(b, got.data(), got.size(), MSG_WAITALL), ssize_t(got.size()));
    EXPECT_EQ(std::count(got.begin(), got.end(), 'b'), pipes ? ptrdiff_t(got.size()) : 0);
    rig.engine->close(id, false);
    rig.expect(StreamEventKind::kClosed, a_owner);
    for (StreamPipe* pipe : taken) pipe->give_back();
    ::close(b);
  }
}

// Goal: memory that the kernel does not lend is refused like memory that it does not copy, and costs no pipe.
TEST_P(Pipes, lent_memory_that_is_not_there_is_refused) {
  const auto all_pipes = [&] {
    std::vector<StreamPipe*> taken;
    while (StreamPipe* pipe = rig.engine->pipe_take()) taken.push_back(pipe);
    for (StreamPipe* pipe : taken) pipe->give_back();
    return taken.size();
  };
  const size_t before = all_pipes();
  const auto [a, b] = tcp_pair();
  const StreamId id = rig.attach(a, a_owner);
  const iovec nowhere{reinterpret_cast<void*>(4096), 100'000};
  for (unsigned tries = 0; tries <= kPipesMax; ++tries) {
    rig.engine->send_lent(id, {&nowhere, 1}, false);
    EXPECT_EQ(rig.expect(StreamEventKind::kSent, a_owner), -EFAULT);
  }
  EXPECT_EQ(all_pipes(), before);
  rig.engine->close(id, true);
  rig.expect(StreamEventKind::kClosed, a_owner);
  ::close(b);
}

// Goal: many sends of lent memory, more than there are pipes, over sockets that are full. All bytes come out, and no
// pipe is lost.
TEST_P(Pipes, lent_memory_over_many_full_sockets) {
  constexpr unsigned kCount = kPipesMax + 8;
  constexpr size_t kBytes = 300'000;
  const int before = open_descriptors();
  const std::vector<char> memory(kBytes, 'x');
  const iovec piece{const_cast<char*>(memory.data()), kBytes};
  std::array<StreamId, kCount> ids;
  std::array<int, kCount> owners{}, peers{};
  std::array<size_t, kCount> sent{};
  for (unsigned i = 0; i < kCount; ++i) {
    const auto [a, b] = tcp_pair(8192);
    ids[i] = rig.attach(a, &owners[i]);
    peers[i] = b;
    rig.engine->send_lent(ids[i], {&piece, 1}, false);
  }
  std::array<size_t, kCount> got{};
  std::vector<char> scrap(65536);
  const auto whole = [&] { return std::accumulate(got.begin(), got.end(), size_t{0}) == kCount * kBytes; };
  while (!whole()) {
    const StreamEvent event = rig.next(1);
    if (event.owner != nullptr) {
      const auto i = size_t(static_cast<int*>(event.owner) - owners.data());
      ASSERT_GT(event.result, 0);
      sent[i] += size_t(event.result);
      const iovec rest{const_cast<char*>(memory.data()) + sent[i], kBytes - sent[i]};
      if (rest.iov_len > 0) rig.engine->send_lent(ids[i], {&rest, 1}, false);
    }
    for (unsigned i = 0; i < kCount; ++i)
      got[i] += size_t(std::max<ssize_t>(::recv(peers[i], scrap.data(), scrap.size(), MSG_DONTWAIT), 0));
  }
  EXPECT_GT(open_descriptors(), before + int(2 * kCount)) << "no pipe was used";
  for (unsigned i = 0; i < kCount; ++i) {
    rig.engine->close(ids[i], i % 2 == 0);
    ::close(peers[i]);
  }
  unsigned count = 0;
  for (unsigned closed = 0; closed < kCount;) {
    const StreamEvent event = rig.next();
    ASSERT_NE(event.owner, nullptr) << "one is not closed";
    closed += event.kind == StreamEventKind::kClosed;
  }
  while (rig.engine->pipe_take() != nullptr) ++count;
  EXPECT_EQ(count, kPipesMax);
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

/// Results of the events of one stream.
struct Results {
  std::vector<int> sent, received;
  bool closed = false;
};

/// One flush and poll of an engine whose owners are Results.
void collect(StreamEngine& engine) {
  engine.flush();
  std::array<StreamEvent, 7> out;
  for (const StreamEvent& event : std::span(out).first(engine.poll(out, kNever))) {
    auto& of = *static_cast<Results*>(event.owner);
    if (event.kind == StreamEventKind::kSent) of.sent.push_back(event.result);
    if (event.kind == StreamEventKind::kReceived) of.received.push_back(event.result);
    of.closed |= event.kind == StreamEventKind::kClosed;
  }
}

// Goal: if the kernel refuses submissions, operations with a pipe end with ENOBUFS, and its bytes stay in it. When the
// kernel takes submissions again, all of them leave.
TEST(UringPipes, submissions_that_are_refused) {
  constexpr uint32_t kStreams = 32, kLast = kStreams - 1;  // of 64 submission entries
  constexpr uint32_t kBytes = 100'000;
  std::atomic<bool> refuses = false;
  Error why_not;
  auto engine = make_uring_engine(kStreams, &why_not, &refuses);
  if (std::string(engine->name()) != "io_uring") GTEST_SKIP() << why_not.what;
  std::array<Results, kStreams> results;
  Results& last = results[kLast];
  std::array<StreamId, kStreams> ids;
  std::array<int, kStreams> peers{};
  for (uint32_t i = 0; i < kStreams; ++i) {
    const auto [a, b] = tcp_pair();
    ids[i] = *engine->attach({a}, &results[i]);
    peers[i] = b;
  }
  std::vector<char> bytes(kBytes);
  for (uint32_t i = 0; i < kBytes; ++i) bytes[i] = char(i % 251);
  ASSERT_EQ(::send(peers[kLast], bytes.data(), kBytes, 0), ssize_t(kBytes));
  StreamPipe* pipe = engine->pipe_take();
  ASSERT_NE(pipe, nullptr);
  while (pipe->bytes() < kBytes && !testing::Test::HasFailure()) {
    engine->receive_piped(ids[kLast], *pipe, kBytes - pipe->bytes());
    for (last.received.clear(); last.received.empty();) collect(*engine);
    EXPECT_GT(last.received.front(), 0);
  }
  last.received.clear();

  char memory[8] = "1234567";
  const std::array<iovec, 1> pieces{{{memory, 8}}};
  refuses = true;
  for (uint32_t i = 0; i < kLast; ++i) {
    engine->receive(ids[i], pieces, 0);
    engine->send(ids[i], pieces, false);
  }
  engine->cancel_receive(ids[0]);
  engine->cancel_receive(ids[1]);
  engine->receive_piped(ids[kLast], *pipe, 1000);
  engine->send_piped(ids[kLast], *pipe, kBytes, false);
  for (int i = 0; i < 20; ++i) collect(*engine);
  EXPECT_EQ(last.received, std::vector<int>{-ENOBUFS});
  EXPECT_EQ(last.sent, std::vector<int>{-ENOBUFS});
  EXPECT_EQ(pipe->bytes(), kBytes);
  EXPECT_FALSE(pipe->begun());

  refuses = false;
  uint32_t left = kBytes;
  while (left > 0 && !testing::Test::HasFailure()) {
    engine->send_piped(ids[kLast], *pipe, left, false);
    for (last.sent.clear(); last.sent.empty();) collect(*engine);
    ASSERT_GT(last.sent.front(), 0);
    left -= uint32_t(last.sent.front());
  }
  std::vector<char> got(kBytes);
  EXPECT_EQ(::recv(peers[kLast], got.data(), kBytes, MSG_WAITALL), ssize_t(kBytes));
  EXPECT_EQ(got, bytes);
  for (const StreamId id : ids) engine->close(id, true);
  while (!std::all_of(results.begin(), results.end(), [](const Results& of) { return of.closed; })) collect(*engine);
  pipe->give_back();
  for (const int fd : peers) ::close(fd);
}

}  // namespace
}  // namespace ulnet::socklnd::test
