// Two workers' engines on two threads, asleep whenever there is nothing to do: no completion is slept through. This is
// about the order between the kernel's signals and pending(), which no model of ours can show. Bounded by counts.
#include <gtest/gtest.h>
#include <netinet/tcp.h>

#include <chrono>
#include <thread>

#include "dataplane/base/idle_gate.h"
#include "dataplane/base/rng.h"
#include "tests/unit/engine/rig.h"

namespace ulnet::socklnd::test {
namespace {

constexpr auto kLost = 20s;

Instant clock_now() {
  return Instant{std::chrono::steady_clock::now().time_since_epoch()};
}

/// One end: sends a byte for each that it receives, `rounds` times; the one that serves begins. False: a completion was
/// slept through.
bool play(StreamEngine& engine, int fd, bool serves, unsigned rounds) {
  Rng rng{serves ? 1u : 2u};
  char in = 0, out = 'x';
  const StreamId id = *engine.attach({fd}, &in);
  const iovec into{&in, 1}, from{&out, 1};
  engine.receive(id, {&into, 1}, 0);
  if (serves) engine.send(id, {&from, 1}, false);
  unsigned received = 0, sent = 0, sends = serves;
  std::array<StreamEvent, 4> events;
  while (received < rounds || sent < sends) {
    const unsigned count = engine.poll(events, kNever);
    for (unsigned i = 0; i < count; ++i) {
      EXPECT_EQ(1, events[i].result);
      if (events[i].kind == StreamEventKind::kSent) {
        ++sent;
        continue;
      }
      ++received;
      if (received < rounds) engine.receive(id, {&into, 1}, 0);
      if (sends < rounds) {
        engine.send(id, {&from, 1}, false);
        ++sends;
      }
    }
    engine.flush();
    for (volatile uint64_t pause = rng.below(256); pause > 0;) pause = pause - 1;
    if (count > 0 || engine.pending()) continue;
    const Instant now = clock_now();
    const int fds[] = {engine.wait_fd()};
    (void)wait_readable(fds, now + kLost, now);
    if (clock_now() - now >= kLost) return false;
  }
  engine.close(id, false);
  while (engine.poll(events, kNever) == 0 || events[0].kind != StreamEventKind::kClosed) engine.flush();
  return true;
}

class RaceEngine : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Engines, RaceEngine, testing::Values(Kind::kUring, Kind::kEpoll), kind_name);

TEST_P(RaceEngine, ping_pong_between_sleepers) {
  constexpr unsigned kRounds = 20'000;
  const auto [a, b] = tcp_pair();
  const int one = 1;
  for (const int fd : {a, b}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  Rig here{GetParam(), 4}, there{GetParam(), 4};  // made on this thread, used on two
  if (!here.missing.empty()) GTEST_SKIP() << here.missing;
  bool other = false;
  std::thread thread([&, fd = b] { other = play(*there.engine, fd, false, kRounds); });
  EXPECT_TRUE(play(*here.engine, a, true, kRounds)) << "slept through a completion";
  thread.join();
  EXPECT_TRUE(other) << "slept through a completion";
}

}  // namespace
}  // namespace ulnet::socklnd::test
