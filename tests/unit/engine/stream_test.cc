// StreamEngine over kernel sockets: the same tests for io_uring and epoll.
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>
#include <numeric>
#include <thread>

#include "dataplane/base/rng.h"
#include "tests/unit/engine/rig.h"

namespace ulnet::socklnd::test {
namespace {

constexpr auto kReceived = StreamEventKind::kReceived;
constexpr auto kSent = StreamEventKind::kSent;
constexpr auto kClosed = StreamEventKind::kClosed;

class Stream : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (!rig.missing.empty()) GTEST_SKIP() << rig.missing;
  }
  /// Sends until a send stays under way, because an engine may report a short send first.
  void send_until_it_waits(StreamId id, const std::vector<char>& memory) {
    do rig.send(id, memory.data(), memory.size());
    while (rig.next(20).owner != nullptr);
  }
  Rig rig{GetParam()};
  int a_tag = 0, b_tag = 0;
  void* const a_owner = &a_tag;
  void* const b_owner = &b_tag;
  std::array<char, 64> buffer{};
};
INSTANTIATE_TEST_SUITE_P(Engines, Stream, testing::Values(Kind::kUring, Kind::kEpoll), kind_name);

// Goal: bytes that have already come are received at once, in pieces, and no more than came.
TEST_P(Stream, receives_waiting_bytes_into_pieces) {
  const auto [a, b] = tcp_pair();
  ASSERT_EQ(7, ::send(b, "partial", 7, 0));
  const StreamId id = rig.attach(a, a_owner);
  std::array<iovec, 3> pieces{{{buffer.data(), 3}, {buffer.data() + 10, 1}, {buffer.data() + 20, 40}}};
  rig.engine->receive(id, pieces, 0);
  EXPECT_EQ(7, rig.expect(kReceived, a_owner));
  EXPECT_EQ("par", std::string(buffer.data(), 3));
  EXPECT_EQ("t", std::string(buffer.data() + 10, 1));
  EXPECT_EQ("ial", std::string(buffer.data() + 20, 3));
  rig.engine->close(id, false);
  rig.expect(kClosed, a_owner);
  EXPECT_EQ(0, ::recv(b, buffer.data(), 1, 0));
  ::close(b);
}

// Goal: a worker that sleeps on wait_fd() wakes for data each time, in every state of the engine.
TEST_P(Stream, wakes_for_data_that_comes_later) {
  const auto [a, b] = tcp_pair();
  const StreamId id = rig.attach(a, a_owner);
  std::atomic<char> awaited{'a'};
  std::thread peer([fd = b, &awaited] {
    for (char c = 'a'; c < 'f'; ++c) {
      while (awaited < c) usleep(1'000);
      usleep(20'000);
      EXPECT_EQ(1, ::send(fd, &c, 1, 0));
    }
  });
  for (char c = 'a'; c < 'f'; ++c) {
    rig.receive(id, buffer.data(), 8);
    EXPECT_EQ(1, rig.expect(kReceived, a_owner));
    EXPECT_EQ(c, buffer[0]);
    ++awaited;
  }
  peer.join();
  ::close(b);
  rig.receive(id, buffer.data(), 8);
  EXPECT_EQ(0, rig.expect(kReceived, a_owner));  // end of stream
  rig.engine->close(id, false);
  rig.expect(kClosed, a_owner);
}

// Goal: a reset ends a receive and a send that both wait, and fails a send that comes after it.
TEST_P(Stream, ends_both_operations_at_a_reset) {
  const auto [a, b] = tcp_pair(4096);
  const StreamId id = rig.attach(a, a_owner);
  std::vector<char> big(8 << 20);
  rig.receive(id, buffer.data(), 8);
  send_until_it_waits(id, big);
  const linger now{1, 0};
  setsockopt(b, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  ::close(b);
  for (int i = 0; i < 2; ++i) {
    const StreamEvent event = rig.next();
    ASSERT_EQ(a_owner, event.owner);
    // The socket reports ECONNRESET once. If io_uring's send takes this error and reports the sent bytes, the receive
    // gets the end of stream.
    if (event.kind == kReceived) {
      EXPECT_TRUE(event.result == 0 || event.result == -ECONNRESET) << event.result;
    }
  }
  rig.send(id, big.data(), 1);
  EXPECT_EQ(-EPIPE, rig.expect(kSent, a_owner));
  rig.engine->close(id, true);
  rig.expect(kClosed, a_owner);
}

TEST_P(Stream, cancel_gives_the_memory_back) {
  const auto [a, b] = tcp_pair();
  const StreamId id = rig.attach(a, a_owner);
  rig.receive(id, buffer.data(), 8);
  EXPECT_EQ(nullptr, rig.next(10).owner);
  rig.engine->cancel_receive(id);
  EXPECT_EQ(-ECANCELED, rig.expect(kReceived, a_owner));
  rig.engine->cancel_receive(id);  // nothing under way: no effect
  ASSERT_EQ(2, ::send(b, "ok", 2, 0));
  rig.receive(id, buffer.data(), 8);
  EXPECT_EQ(2, rig.expect(kReceived, a_owner));
  // Receive and cancel in one turn: exactly one answer, either way.
  rig.receive(id, buffer.data(), 8);
  rig.engine->cancel_receive(id);
  EXPECT_EQ(-ECANCELED, rig.expect(kReceived, a_owner));
  EXPECT_EQ(nullptr, rig.next(10).owner);
  rig.engine->close(id, false);
  rig.expect(kClosed, a_owner);
  ::close(b);
}

// Goal: both kinds of close end a receive and a send under way before kClosed. The receive ends with an error. The send
// ends with the number of bytes sent, if any (see script/stream_contract_test.cc for their meaning).
TEST_P(Stream, close_with_operations_under_way) {
  for (const bool abort : {false, true}) {
    const auto [a, b] = tcp_pair(4096);
    const StreamId id = rig.attach(a, a_owner);
    std::vector<char> big(8 << 20);
    rig.receive(id, buffer.data(), 8);
    send_until_it_waits(id, big);
    rig.engine->close(id, abort);
    rig.engine->close(id, abort);  // no effect
    unsigned seen = 0;
    for (StreamEvent event = rig.next(); event.kind != kClosed; event = rig.next()) {
      ASSERT_EQ(a_owner, event.owner);
      EXPECT_TRUE(event.result < 0 || event.kind == kSent) << event.result;
      seen |= event.kind == kReceived ? 1u : 2u;
    }
    EXPECT_EQ(3u, seen) << "abort " << abort;
    ssize_t bytes;
    do bytes = ::recv(b, big.data(), big.size(), 0);
    while (bytes > 0);
    EXPECT_EQ(abort, bytes < 0) << "abort resets, else end of stream";
    ::close(b);
  }
}

TEST_P(Stream, abort_resets_the_peer) {
  const auto [a, b] = tcp_pair();
  const StreamId id = rig.attach(a, a_owner);
  rig.engine->close(id, true);
  EXPECT_EQ(0, rig.expect(kClosed, a_owner));
  EXPECT_EQ(-1, ::recv(b, buffer.data(), 1, 0));
  EXPECT_EQ(ECONNRESET, errno);
  ::close(b);
}

// Goal: 1 MiB passes unharmed when sender and receiver cut it into odd pieces and the socket buffers are small.
// Method: one engine has both ends. Each side goes on where its last operation stopped, with random windows and a fixed
// seed.
TEST_P(Stream, bulk_in_odd_pieces) {
  constexpr size_t kBytes = 1 << 20;
  Rng rng{1};
  std::vector<char> out(kBytes), in(kBytes);
  for (auto& c : out) c = char(rng.next());
  const auto [a, b] = tcp_pair(8192);
  const StreamId from = rig.attach(a, a_owner);
  const StreamId to = rig.attach(b, b_owner);
  size_t sent = 0, got = 0;
  const auto pieces = [&](std::vector<char>& memory, size_t at, std::vector<iovec>& list) {
    list.clear();
    const size_t most = 1 + rng.below(kStreamPieces);
    while (list.size() < most && at < kBytes) {
      const size_t bytes = std::min<size_t>(kBytes - at, 1 + rng.below(5000));
      list.push_back({memory.data() + at, bytes});
      at += bytes;
    }
  };
  std::vector<iovec> list;
  const auto go_on = [&](bool sender) {
    pieces(sender ? out : in, sender ? sent : got, list);
    if (sender) rig.engine->send(from, list, rng.one_in(2));
    if (!sender) rig.engine->receive(to, list, 0);
  };
  go_on(true);
  go_on(false);
  while (got < kBytes) {
    const StreamEvent event = rig.next();
    ASSERT_GT(event.result, 0);
    const bool sender = event.kind == kSent;
    ASSERT_EQ(sender ? a_owner : b_owner, event.owner);
    (sender ? sent : got) += size_t(event.result);
    if ((sender ? sent : got) < kBytes) go_on(sender);
  }
  while (sent < kBytes) sent += size_t(rig.expect(kSent, a_owner));
  EXPECT_EQ(0, std::memcmp(out.data(), in.data(), kBytes));
  rig.engine->close(from, false);
  rig.engine->close(to, false);
  rig.expect(kClosed, a_owner);
  rig.expect(kClosed, b_owner);
}

TEST_P(Stream, unsent_bytes_are_what_the_peer_has_not_taken) {
  const auto [a, b] = tcp_pair(4096);
  const StreamId id = rig.attach(a, a_owner);
  EXPECT_EQ(0u, rig.engine->unsent_bytes(id));
  std::vector<char> big(1 << 20);
  rig.send(id, big.data(), big.size());
  (void)rig.next(20);
  EXPECT_GT(rig.engine->unsent_bytes(id), 0u);
  rig.engine->close(id, true);
  while (rig.next().kind != kClosed) {
  }
  ::close(b);
}

// Goal: only while the kernel sends bytes again, the user timeout bounds its time to the next attempt.
TEST_P(Stream, resends_soon_to_a_machine_that_answers_nothing) {
  const auto [a, b] = tcp_pair();
  const StreamId id = rig.attach(a, a_owner);
  const auto user_timeout = [fd = a] {
    unsigned ms = UINT_MAX;
    socklen_t bytes = sizeof ms;
    EXPECT_EQ(0, getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, &bytes));
    return ms;
  };
  rig.engine->resend_within(id, 2s, 1500ms);
  EXPECT_EQ(0u, user_timeout()) << "it sends nothing again";
  sock_filter drop_all[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
  const sock_fprog filter{1, drop_all};
  ASSERT_EQ(0, setsockopt(b, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter));
  rig.send(id, "lost", 4);
  EXPECT_EQ(4, rig.expect(kSent, a_owner));
  tcp_info info{};
  while (info.tcpi_retransmits == 0) {
    usleep(10'000);
    socklen_t bytes = sizeof info;
    ASSERT_EQ(0, getsockopt(a, IPPROTO_TCP, TCP_INFO, &info, &bytes));
  }
  rig.engine->resend_within(id, 2s, 1500ms);
  EXPECT_EQ(3500u, user_timeout());
  rig.engine->resend_within(id, 3s, Duration{0});
  EXPECT_EQ(0u, user_timeout());
  rig.engine->close(id, true);
  rig.expect(kClosed, a_owner);
  ::close(b);
}

TEST_P(Stream, refuses_a_source_when_full_and_takes_it_later) {
  Rig small{GetParam(), 2};
  const auto [a, b] = tcp_pair();
  const auto [c, d] = tcp_pair();
  const StreamId id = small.attach(a, a_owner);
  small.attach(b, a_owner);
  auto refused = small.engine->attach({c}, b_owner);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(-ENOSPC, refused.error().code);
  small.engine->close(id, false);
  small.expect(kClosed, a_owner);
  EXPECT_TRUE(small.engine->attach({c}, b_owner).has_value());
  ::close(d);
}  // the destructor closes what is still attached

// Goal: more operations than the submission queue holds go through in one turn.
TEST_P(Stream, many_streams_in_one_turn) {
  constexpr uint32_t kStreams = 200;
  Rig wide{GetParam(), kStreams};
  std::vector<std::array<int, 2>> pairs(kStreams);
  std::vector<StreamId> ids(kStreams);
  std::vector<std::array<char, 8>> in(kStreams);
  for (uint32_t i = 0; i < kStreams; ++i) {
    pairs[i] = tcp_pair();
    ids[i] = wide.attach(pairs[i][0], &in[i]);
    wide.receive(ids[i], in[i].data(), 8);
    wide.send(ids[i], "x", 1);
  }
  for (uint32_t i = 0; i < kStreams; ++i) ASSERT_EQ(1, wide.expect(kSent, &in[i]));
  for (uint32_t i = 0; i < kStreams; ++i) ASSERT_EQ(1, ::send(pairs[i][1], "y", 1, 0));
  for (uint32_t i = 0; i < kStreams; ++i) EXPECT_EQ(1, wide.next().result);
  for (uint32_t i = 0; i < kStreams; ++i) wide.engine->close(ids[i], i % 2 == 0);
  for (uint32_t i = 0; i < kStreams; ++i) EXPECT_EQ(int(kClosed), int(wide.next().kind));
  for (uint32_t i = 0; i < kStreams; ++i) ::close(pairs[i][1]);
}

// Goal: 1,000 rounds of attach, operations and close leave no descriptor and no slot behind.
TEST_P(Stream, a_thousand_rounds_leak_nothing) {
  const int before = open_descriptors();
  for (int round = 0; round < 1000; ++round) {
    const auto [a, b] = tcp_pair();
    const StreamId id = rig.attach(a, a_owner);
    rig.receive(id, buffer.data(), 8);
    if (round % 3 == 0) rig.engine->flush();
    rig.engine->close(id, round % 2 == 0);
    EXPECT_LT(rig.expect(kReceived, a_owner), 0);
    rig.expect(kClosed, a_owner);
    ::close(b);
  }
  EXPECT_EQ(before, open_descriptors());
}

TEST_P(Stream, a_thousand_engines_leak_nothing) {
  const int before = open_descriptors();
  for (int round = 0; round < 1000; ++round) {
    Rig short_lived{GetParam(), 4};
    if (round % 10 != 0) continue;
    const auto [a, b] = tcp_pair();
    const StreamId id = short_lived.attach(a, a_owner);
    short_lived.receive(id, buffer.data(), 8);
    short_lived.engine->flush();
    ::close(b);
  }
  EXPECT_EQ(before, open_descriptors());
}

TEST(UringEngine, says_why_it_is_not_io_uring) {
  Error why_not;
  auto engine = make_uring_engine(8, &why_not);
  if (std::string(engine->name()) == "io_uring") {
    EXPECT_EQ(0, why_not.code);
  } else {
    EXPECT_STREQ("epoll", engine->name());
    EXPECT_LT(why_not.code, 0);
    EXPECT_NE(std::string(), why_not.what);
  }
}

// Goal: a worker that turns without sleep sends and receives without the ring, which refuses everything here. A receive
// that waits this way wakes the worker's sleep, and ends at a cancel or a close, as any other.
class Spinning : public testing::Test {
 protected:
  void SetUp() override {
    Error why_not;
    engine = make_uring_engine(8, &why_not, &refuses);
    if (std::string(engine->name()) != "io_uring") GTEST_SKIP() << why_not.what;
    const auto [a, b] = tcp_pair();
    far = b;
    id = *engine->attach({a}, this);
    receive();
    engine->flush();
    ASSERT_EQ(1, ::send(far, "a", 1, 0));
    ASSERT_EQ(1, result_of(StreamEventKind::kReceived));  // by the ring, without a sleep: the stream is hot now
  }
  void TearDown() override {
    if (far >= 0) ::close(far);
  }
  void receive(uint32_t transfer = 0) {
    const iovec piece{in.data(), in.size()};
    engine->receive(id, {&piece, 1}, transfer);
  }
  /// Turns until the next event, which must be of this kind.
  int result_of(StreamEventKind kind) {
    std::array<StreamEvent, 1> out{};
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (engine->poll(out, kNever) == 0) {
      if (std::chrono::steady_clock::now() > until) return ADD_FAILURE() << "no event", -ETIME;
      engine->flush();
    }
    if (out[0].owner == &near_owner) return result_of(kind);
    EXPECT_EQ(int(kind), int(out[0].kind));
    EXPECT_EQ(this, out[0].owner);
    return out[0].result;
  }
  char near_owner = 0;  ///< of a second stream, whose events nobody looks at
  std::atomic<bool> refuses = false;
  std::unique_ptr<StreamEngine> engine;
  StreamId id;
  int far = -1;
  std::array<char, 64> in{};
};

TEST_F(Spinning, receives_without_the_ring) {
  refuses = true;
  for (int round = 0; round < 3; ++round) {
    receive();
    ASSERT_EQ(3, ::send(far, "bcd", 3, 0));
    EXPECT_EQ(3, result_of(StreamEventKind::kReceived));
    EXPECT_EQ('b', in[0]);
  }
  refuses = false;
  receive(1 << 20);  // a part of a large transfer goes by the ring
  ASSERT_EQ(3, ::send(far, "bcd", 3, 0));
  std::array<StreamEvent, 1> out;
  EXPECT_EQ(0u, engine->poll(out, kNever));
  EXPECT_EQ(3, result_of(StreamEventKind::kReceived));
}

TEST_F(Spinning, sends_at_once) {
  const iovec pieces[] = {{const_cast<char*>("ab"), 2}, {const_cast<char*>("cde"), 3}};
  engine->send(id, pieces, false);
  std::array<char, 8> got{};
  ASSERT_EQ(5, ::recv(far, got.data(), got.size(), 0));
  EXPECT_STREQ("abcde", got.data());
  EXPECT_TRUE(engine->pending());  // the event waits
  EXPECT_EQ(5, result_of(StreamEventKind::kSent));
  ::close(std::exchange(far, -1));
  receive();
  EXPECT_EQ(0, result_of(StreamEventKind::kReceived));
}

TEST_F(Spinning, a_sleep_is_ended_by_data) {
  for (int round = 0; round < 3; ++round) {
    receive();
    std::array<StreamEvent, 1> out;
    ASSERT_EQ(0u, engine->poll(out, kNever));
    engine->flush();
    ASSERT_FALSE(engine->pending());
    pollfd wait{engine->wait_fd(), POLLIN, 0};
    EXPECT_EQ(0, ::poll(&wait, 1, 0));
    ASSERT_EQ(2, ::send(far, "ef", 2, 0));
    EXPECT_EQ(1, ::poll(&wait, 1, 10'000));
    EXPECT_EQ(2, result_of(StreamEventKind::kReceived));
  }
}

// Goal: a stream without traffic goes back to the ring, so that looking at it costs nothing.
TEST_F(Spinning, a_quiet_stream_is_left_to_the_ring) {
  receive();
  std::array<StreamEvent, 1> out;
  for (int turn = 0; turn < 2000; ++turn) {
    ASSERT_EQ(0u, engine->poll(out, kNever));
    engine->flush();
  }
  refuses = true;
  ASSERT_EQ(2, ::send(far, "ef", 2, 0));
  for (int turn = 0; turn < 2000; ++turn) ASSERT_EQ(0u, engine->poll(out, kNever));
  refuses = false;
  EXPECT_EQ(2, result_of(StreamEventKind::kReceived));
}

// Goal: streams whose receives always end in the ring keep neither a send nor the receive of a hot stream waiting.
TEST_F(Spinning, no_source_of_events_starves_another) {
  constexpr size_t kStreams = 24;
  auto many = make_uring_engine(kStreams + 2, nullptr);
  std::array<std::array<int, 2>, kStreams> pairs;
  std::array<StreamId, kStreams> ids;
  std::array<std::byte, kStreams> bytes{};
  const std::vector<char> plenty(20'000, 'x');
  const auto receive_from = [&](size_t i) {
    const iovec piece{&bytes[i], 1};
    many->receive(ids[i], {&piece, 1}, 1 << 20);
  };
  for (size_t i = 0; i < kStreams; ++i) {
    pairs[i] = tcp_pair();
    ids[i] = *many->attach({pairs[i][0]}, &bytes[i]);
    ASSERT_EQ(ssize_t(plenty.size()), ::send(pairs[i][1], plenty.data(), plenty.size(), 0));
    receive_from(i);
  }
  const auto [near, other] = tcp_pair();
  const int at_once = 1;
  ASSERT_EQ(0, setsockopt(other, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once));
  const StreamId hot = *many->attach({near}, &many);
  const iovec piece{in.data(), in.size()};
  many->receive(hot, {&piece, 1}, 0);
  ASSERT_EQ(1, ::send(other, "a", 1, 0));
  int received = 0, begun = 0, sent = 0;
  std::array<StreamEvent, 4> out;
  for (int turn = 0; turn < 400 && (received < 5 || sent < 5); ++turn) {
    many->flush();
    const unsigned count = many->poll(out, kNever);
    for (const StreamEvent& event : std::span(out).first(count)) {
      if (event.owner != &many) {
        ASSERT_EQ(1, event.result);
        receive_from(size_t(static_cast<std::byte*>(event.owner) - bytes.data()));
        continue;
      }
      ++(event.kind == kSent ? sent : received);
      if (event.kind == kSent) continue;
      many->receive(hot, {&piece, 1}, 0);
      if (begun == sent && ++begun > 0) many->send(hot, {&piece, 1}, false);
      ASSERT_EQ(1, ::send(other, "a", 1, 0));
    }
  }
  EXPECT_LE(5, received);
  EXPECT_LE(5, sent);
  many.reset();
  ::close(other);
  for (const auto& pair : pairs) ::close(pair[1]);
}

// Goal: while the ring takes nothing, a hot stream neither fails nor lets the worker sleep.
TEST_F(Spinning, a_quiet_hot_stream_outlives_refusals) {
  const auto [near, other] = tcp_pair();
  const StreamId cold = *engine->attach({near}, &near_owner);
  receive();
  refuses = true;
  std::array<char, 8> unused;
  const iovec piece{unused.data(), unused.size()};
  engine->receive(cold, {&piece, 1}, 0);
  for (int cancel = 0; cancel < 64; ++cancel) engine->cancel_receive(cold);  // more than the queue has entries
  std::array<StreamEvent, 1> out;
  for (int turn = 0; turn < 1000; ++turn) ASSERT_EQ(0u, engine->poll(out, kNever)) << turn;
  EXPECT_TRUE(engine->pending());
  refuses = false;
  ASSERT_EQ(2, ::send(far, "ef", 2, 0));
  EXPECT_EQ(2, result_of(kReceived));
  ::close(other);
}

TEST_F(Spinning, cancel_and_close_end_a_receive) {
  receive();
  engine->cancel_receive(id);
  engine->cancel_receive(id);
  EXPECT_EQ(-ECANCELED, result_of(StreamEventKind::kReceived));
  receive();
  engine->close(id, true);
  EXPECT_EQ(-ECANCELED, result_of(StreamEventKind::kReceived));
  EXPECT_EQ(0, result_of(StreamEventKind::kClosed));
}

// Goal: the count of a send that the socket took in part, and the ring then in whole, has all bytes.
TEST_F(Spinning, a_send_in_two_parts_counts_all_bytes) {
  std::vector<char> big(16 << 20, 'x');
  const iovec pieces[] = {{big.data(), 1000}, {big.data() + 1000, big.size() - 1000}};
  engine->send(id, pieces, false);
  std::thread reader([&] {
    std::vector<char> got(1 << 20);
    for (size_t sum = 0; sum < big.size();) {
      const ssize_t bytes = ::recv(far, got.data(), got.size(), 0);
      ASSERT_GT(bytes, 0);
      sum += size_t(bytes);
    }
  });
  EXPECT_EQ(int(big.size()), result_of(StreamEventKind::kSent));
  reader.join();
}

// Goal: if the kernel refuses submissions, operations fail but the process goes on. An operation without an entry ends
// with ENOBUFS. Streams that were closed meanwhile are released when the kernel takes submissions again.
TEST(UringEngine, submissions_that_are_refused) {
  constexpr uint32_t kStreams = 32;  // of 64 submission entries
  std::atomic<bool> refuses = false;
  Error why_not;
  auto engine = make_uring_engine(kStreams, &why_not, &refuses);
  if (std::string(engine->name()) != "io_uring") GTEST_SKIP() << why_not.what;
  std::array<std::array<int, 3>, kStreams> results{};  // of each stream, by kind of event
  std::array<std::array<int, 3>, kStreams> counts{};
  const auto poll = [&] {
    std::array<StreamEvent, 7> out;
    const unsigned filled = engine->poll(out, kNever);
    for (unsigned i = 0; i < filled; ++i) {
      const auto stream = size_t(static_cast<std::array<int, 3>*>(out[i].owner) - results.data());
      results[stream][size_t(out[i].kind)] = out[i].result;
      ++counts[stream][size_t(out[i].kind)];
    }
    engine->flush();
  };
  poll();
  std::array<StreamId, kStreams> ids;
  std::array<int, kStreams> peers{};
  for (size_t i = 0; i < kStreams; ++i) {
    const auto [a, b] = tcp_pair();
    ids[i] = *engine->attach({a}, &results[i]);
    peers[i] = b;
  }
  char memory[8] = "1234567";
  const std::array<iovec, 1> pieces{{{memory, 8}}};
  refuses = true;
  for (size_t i = 0; i < kStreams - 1; ++i) {
    engine->receive(ids[i], pieces, 0);
    engine->send(ids[i], pieces, false);
  }
  engine->cancel_receive(ids[0]);
  engine->cancel_receive(ids[1]);
  engine->receive(ids[kStreams - 1], pieces, 0);
  engine->send(ids[kStreams - 1], pieces, false);
  engine->cancel_receive(ids[2]);
  EXPECT_TRUE(engine->pending());
  poll();
  EXPECT_EQ(results[kStreams - 1], (std::array<int, 3>{-ENOBUFS, -ENOBUFS, 0}));
  for (const StreamId id : ids) engine->close(id, true);
  for (int i = 0; i < 20; ++i) poll();
  EXPECT_EQ(counts[kStreams - 1], (std::array<int, 3>{1, 1, 1})) << "nothing of it is under way";
  for (size_t i = 0; i < kStreams - 1; ++i) EXPECT_EQ(counts[i], (std::array<int, 3>{0, 0, 0})) << i;
  refuses = false;
  const auto all_closed = [&] {
    return std::all_of(counts.begin(), counts.end(), [](auto& one) { return one[2] == 1; });
  };
  while (!all_closed()) poll();
  for (size_t i = 0; i < kStreams; ++i) EXPECT_EQ(counts[i], (std::array<int, 3>{1, 1, 1})) << i;
  for (const int fd : peers) ::close(fd);
}

}  // namespace
}  // namespace ulnet::socklnd::test
