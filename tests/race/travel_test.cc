// Messages that travel between workers of real threads: handles, and match requests among them. Above all for TSan,
// which finds a write to a slot after its post, and a write to a payload before the payload is back.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/unit/core/bench.h"

namespace ulnet::test {
namespace {

// Goal: rings, message pool and event queue are all too small. Every put still matches, in the order of arrival, and
// its payload is right.
// Method: worker 1 gets all headers at once, the portal is at home on worker 0, the application polls from a third
// thread.
TEST(TravelRace, puts_go_home_while_both_workers_run) {
  constexpr uint32_t kPuts = 3000, kBytes = 16;
  Bench bench({.workers = 2, .incoming = 8, .ring_size = 8});
  bench.add_peer(tcp(2), WorkerId{1});
  bench.open_portal(9, WorkerId{0});
  bench.publish();
  Submitter& submitter = bench.submitter(WorkerId{0});
  const EqHandle eq = *submitter.eq_open(16);
  std::vector<std::byte> memory(kPuts * kBytes);
  const Segment segment{memory.data(), uint32_t(memory.size())};
  const MdHandle md = *submitter.md_bind({.segments = {&segment, 1}, .options = kMdPut, .eq = eq});
  ASSERT_TRUE(submitter.me_attach(PortalIndex{9}, {}, 0, ~0ull, MePosition::kTail, md));
  bench.settle();
  for (uint32_t i = 0; i < kPuts; ++i) {
    const bool whole = i % 3 != 0;  // the others are held: they have no payload, so no byte is outstanding
    RxSlot& slot = bench.inject(put_header(tcp(1), tcp(2), 9, i, whole ? kBytes : 0, 0, false), tcp(2));
    if (whole) bench.lnd(WorkerId{1}).make_movable(slot, uint8_t(i));
  }
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (uint16_t i = 0; i < 2; ++i)
    threads.emplace_back([&bench, &stop, i] {
      while (!stop.load())
        if (bench.turn(WorkerId{i}) == 0) std::this_thread::yield();  // there may be fewer cores than threads
    });
  std::vector<Event> events;
  Event seen[8];
  while (events.size() < kPuts) {
    const unsigned count = submitter.eq_poll(eq, seen);
    events.insert(events.end(), seen, seen + count);
    if (count == 0) std::this_thread::yield();
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  bench.settle();
  uint32_t offset = 0;
  std::sort(events.begin(), events.end(), [](const Event& x, const Event& y) { return x.match_bits < y.match_bits; });
  for (uint32_t i = 0; i < kPuts; ++i) {
    ASSERT_EQ(events[i].match_bits, i);
    ASSERT_EQ(events[i].status, 0);
    ASSERT_EQ(events[i].offset, offset) << "matched in the order in which they came";
    for (uint32_t b = 0; b < events[i].mlength; ++b) ASSERT_EQ(memory[offset + b], std::byte(uint8_t(i)));
    offset += events[i].mlength;
  }
  EXPECT_EQ(bench.lnd(WorkerId{1}).taken.size(), 0u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

}  // namespace
}  // namespace ulnet::test
