// The application side of a submitter: slots, generations, checks, back-pressure. The home worker is a stand-in.
#include "dataplane/state/submitter.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <cstdlib>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "control/lib/md_spec.h"
#include "tests/unit/lib/fake_worker.h"

namespace ulnet {
namespace {

using test::FakeWorker;

constexpr SubmitterSize kSmall{.ops = 8, .mds = 4, .eqs = 2, .segment_blocks = 1};

struct SubmitterTest : ::testing::Test {
  Submitter submitter{WorkerId{3}, 7, kSmall, nullptr};
  FakeWorker worker{submitter};
  std::array<std::byte, 64> memory{};
  Segment segment{memory.data(), 64};

  MdHandle bind(EqHandle eq = {}, uint32_t options = 0) {
    auto md = submitter.md_bind({.segments = {&segment, 1}, .options = options, .user_ptr = this, .eq = eq});
    EXPECT_TRUE(md.has_value()) << md.error().what;
    return md.value_or(MdHandle{});
  }
  EqHandle queue(uint32_t size = 16) {
    auto eq = submitter.eq_open(size);
    EXPECT_TRUE(eq.has_value());
    return eq.value_or(EqHandle{});
  }
  std::vector<Event> poll(EqHandle eq) {
    std::array<Event, 64> events;
    const unsigned count = submitter.eq_poll(eq, events);
    return {events.begin(), events.begin() + count};
  }
  PutSpec to_peer(MdHandle md) {
    return {.md = md, .target = {Nid::v4(Net::of(NetType::kTcp, 0), 0x0A000001), kLnetPid}, .portal = 63};
  }
};

template <class T>
int code(const Result<T>& result) {
  return result.has_value() ? 0 : result.error().code;
}

TEST_F(SubmitterTest, md_slot_holds_everything_before_the_call_is_seen) {
  const EqHandle eq = queue();
  auto md = submitter.md_bind({.segments = {&segment, 1},
                               .threshold = 5,
                               .max_size = 8,
                               .options = kMdPut | kMdTruncate,
                               .user_ptr = this,
                               .eq = eq});
  ASSERT_TRUE(md);
  EXPECT_EQ(md->worker, 3);
  EXPECT_EQ(md->submitter, 7);
  EXPECT_TRUE(md->valid());
  const Md& slot = submitter.md_slot(md->index);
  EXPECT_EQ(slot.handle, *md);
  EXPECT_FALSE(slot.bound);  // the worker sets it
  EXPECT_EQ(slot.segments, slot.own_segments.data());
  EXPECT_EQ(slot.segments[0].base, memory.data());
  EXPECT_EQ(slot.segment_count, 1u);
  EXPECT_EQ(slot.length, 64u);
  EXPECT_EQ(slot.threshold, 5u);
  EXPECT_EQ(slot.max_size, 8u);
  EXPECT_EQ(slot.options, uint32_t{kMdPut | kMdTruncate});
  EXPECT_EQ(slot.user_ptr, this);
  EXPECT_EQ(slot.eq, &submitter.eq_slot(eq.index));
  EXPECT_EQ(slot.of, EventSource::Of::kMd);
  worker.run();
  ASSERT_EQ(worker.seen.size(), 2u);
  EXPECT_EQ(std::get<EqOpenCall>(worker.seen[0]).eq, eq.index);
  EXPECT_EQ(std::get<BindCall>(worker.seen[1]).md, md->index);
  ASSERT_TRUE(submitter.put(to_peer(*md)));
  worker.run();
  EXPECT_EQ(std::get<PutCall>(worker.seen[2]).operation.eq, eq.index);
}

/// All memory lies on node 2.
struct OnNode2 final : MemoryLocator {
  uint32_t numa_of(const void*) const override { return 2; }
};

// Goal: a spec of the C API gives the place of the memory only with the options for it. In a spec of zeros, no place is
// given, and the node is looked up. The options themselves are for the C API only.
TEST_F(SubmitterTest, a_c_spec_gives_the_place_of_memory_with_an_option) {
  const OnNode2 locator;
  submitter.locate_memory_by(&locator);
  const ulnet_segment_t c_segment = {memory.data(), 64};
  const auto slot_of = [&](uint32_t options, uint32_t numa, uint32_t accelerator) -> const Md& {
    ulnet_md_spec_t spec = {};
    spec.segments = &c_segment;
    spec.segment_count = 1;
    spec.threshold = 1;
    spec.options = options;
    spec.numa = numa;
    spec.accelerator = accelerator;
    const auto md = submitter.md_bind(md_spec_of(spec));
    EXPECT_TRUE(md.has_value()) << md.error().what;
    return submitter.md_slot(md.value_or(MdHandle{}).index);
  };
  const Md& zero = slot_of(0, 0, 0);
  EXPECT_EQ(std::pair(zero.numa, zero.accelerator), std::pair(2u, UINT32_MAX));
  const Md& node_0 = slot_of(ULNET_MD_PUT | ULNET_MD_NUMA, 0, 0);
  EXPECT_EQ(std::pair(node_0.numa, node_0.accelerator), std::pair(0u, UINT32_MAX));
  EXPECT_EQ(node_0.options, uint32_t{kMdPut});
  const Md& accelerator_0 = slot_of(ULNET_MD_ACCELERATOR, 0, 0);
  EXPECT_EQ(std::pair(accelerator_0.numa, accelerator_0.accelerator), std::pair(UINT32_MAX, 0u));
  const Md& both = slot_of(ULNET_MD_NUMA | ULNET_MD_ACCELERATOR, 1, 3);
  EXPECT_EQ(std::pair(both.numa, both.accelerator), std::pair(1u, 3u));
}

TEST_F(SubmitterTest, md_bind_refuses_what_cannot_be_an_md) {
  std::vector<Segment> many(kMaxSegments + 1, segment);
  EXPECT_EQ(code(submitter.md_bind({})), -EINVAL);
  EXPECT_EQ(code(submitter.md_bind({.segments = many})), -EINVAL);
  const Segment hole{nullptr, 1};
  EXPECT_EQ(code(submitter.md_bind({.segments = {&hole, 1}})), -EINVAL);
  const std::array<Segment, 2> huge{Segment{memory.data(), UINT32_MAX}, Segment{memory.data(), 1}};
  EXPECT_EQ(code(submitter.md_bind({.segments = huge})), -EINVAL);
  EXPECT_EQ(code(submitter.md_bind({.segments = {&segment, 1}, .options = 1u << 31})), -EINVAL);
  EXPECT_EQ(code(submitter.md_bind({.segments = {&segment, 1}, .threshold = 0})), -EINVAL);
  EXPECT_EQ(code(submitter.md_bind({.segments = {&segment, 1}, .max_size = 65})), -EINVAL);
  EXPECT_EQ(submitter.mds_in_use(), 0u);
  EXPECT_EQ(worker.run(), 0u);  // nothing was sent
}

TEST_F(SubmitterTest, md_of_no_bytes_is_fine) {
  const Segment empty{nullptr, 0};
  auto md = submitter.md_bind({.segments = {&empty, 1}});
  ASSERT_TRUE(md);
  EXPECT_TRUE(submitter.put(to_peer(*md)));
}

TEST_F(SubmitterTest, long_segment_lists_take_a_block_and_give_it_back) {
  std::vector<Segment> many(kMaxSegments, Segment{memory.data(), 1});
  auto md = submitter.md_bind({.segments = many});
  ASSERT_TRUE(md);
  const Md& slot = submitter.md_slot(md->index);
  EXPECT_NE(slot.segments, slot.own_segments.data());
  EXPECT_EQ(slot.segment_count, kMaxSegments);
  EXPECT_EQ(slot.length, kMaxSegments);
  EXPECT_EQ(code(submitter.md_bind({.segments = {many.data(), 5}})), -ENOSPC);  // the one block is out
  EXPECT_TRUE(submitter.md_bind({.segments = {many.data(), 4}}));               // fits into the slot
  EXPECT_EQ(submitter.mds_in_use(), 2u);
  ASSERT_TRUE(submitter.unlink(*md));
  worker.run();
  EXPECT_EQ(submitter.mds_in_use(), 1u);
  EXPECT_TRUE(submitter.md_bind({.segments = many}));
}

TEST_F(SubmitterTest, slots_run_out_and_come_back_with_a_new_generation) {
  std::vector<MdHandle> mds;
  for (uint32_t i = 0; i < kSmall.mds; ++i) mds.push_back(bind());
  EXPECT_EQ(code(submitter.md_bind({.segments = {&segment, 1}})), -ENOSPC);
  worker.run();
  ASSERT_TRUE(submitter.unlink(mds[2]));
  EXPECT_EQ(code(submitter.md_bind({.segments = {&segment, 1}})), -ENOSPC);  // not back yet
  worker.run();
  const MdHandle again = bind();
  EXPECT_EQ(again.index, mds[2].index);
  EXPECT_NE(again.generation, mds[2].generation);
  EXPECT_EQ(code(submitter.put(to_peer(mds[2]))), -ENOENT);
  EXPECT_TRUE(submitter.put(to_peer(again)));
}

TEST_F(SubmitterTest, full_ring_takes_nothing) {
  const EqHandle eq = queue();
  const MdHandle md = bind(eq, kMdPut);
  const MdHandle free_md = bind(eq);
  while (submitter.put(to_peer(free_md))) {
  }
  EXPECT_EQ(code(submitter.put(to_peer(free_md))), -EAGAIN);
  EXPECT_EQ(code(submitter.get(to_peer(free_md))), -EAGAIN);
  EXPECT_EQ(code(submitter.md_bind({.segments = {&segment, 1}})), -EAGAIN);
  EXPECT_EQ(code(submitter.me_attach(PortalIndex{1}, {}, 0, 0, MePosition::kTail, md)), -EAGAIN);
  EXPECT_EQ(code(submitter.unlink(md)), -EAGAIN);
  EXPECT_EQ(code(submitter.eq_open(4)), -EAGAIN);
  EXPECT_EQ(code(submitter.eq_close(eq)), -EAGAIN);
  EXPECT_EQ(submitter.mds_in_use(), 2u);
  worker.run();
  // The refused operations have left no trace.
  EXPECT_TRUE(submitter.me_attach(PortalIndex{1}, {}, 0, 0, MePosition::kTail, md));
  EXPECT_TRUE(submitter.unlink(md));
  EXPECT_TRUE(submitter.eq_open(4));
  EXPECT_TRUE(submitter.md_bind({.segments = {&segment, 1}, .eq = eq}));
}

TEST_F(SubmitterTest, handles_of_other_submitters_give_exdev) {
  Submitter sibling{WorkerId{3}, 8, kSmall, nullptr};
  Submitter elsewhere{WorkerId{4}, 7, kSmall, nullptr};
  for (Submitter* other : {&sibling, &elsewhere}) {
    const auto eq = other->eq_open(4);
    const auto md = other->md_bind({.segments = {&segment, 1}});
    ASSERT_TRUE(eq && md);
    EXPECT_EQ(code(submitter.put(to_peer(*md))), -EXDEV);
    EXPECT_EQ(code(submitter.get(to_peer(*md))), -EXDEV);
    EXPECT_EQ(code(submitter.unlink(*md)), -EXDEV);
    EXPECT_EQ(code(submitter.me_attach(PortalIndex{1}, {}, 0, 0, MePosition::kHead, *md)), -EXDEV);
    EXPECT_EQ(code(submitter.md_bind({.segments = {&segment, 1}, .eq = *eq})), -EXDEV);
    EXPECT_EQ(code(submitter.eq_close(*eq)), -EXDEV);
    EXPECT_EQ(poll(*eq).size(), 0u);
  }
  EXPECT_EQ(worker.run(), 0u);
}

TEST_F(SubmitterTest, handles_that_never_were_give_enoent) {
  for (const MdHandle md : {MdHandle{3, 7, 0, 0}, MdHandle{3, 7, 0, 99}, MdHandle{3, 7, kSmall.mds, 1}}) {
    EXPECT_EQ(code(submitter.put(to_peer(md))), -ENOENT);
    EXPECT_EQ(code(submitter.unlink(md)), -ENOENT);
  }
  EXPECT_EQ(code(submitter.eq_close({3, 7, 0, 1})), -ENOENT);
  EXPECT_EQ(code(submitter.eq_close({3, 7, kSmall.eqs, 1})), -ENOENT);
  EXPECT_EQ(code(submitter.md_bind({.segments = {&segment, 1}, .eq = {3, 7, 1, 4}})), -ENOENT);
  EXPECT_EQ(poll({3, 7, kSmall.eqs, 1}).size(), 0u);
  EXPECT_EQ(poll({3, 7, 0, 0}).size(), 0u);
}

TEST_F(SubmitterTest, put_checks_its_range) {
  const MdHandle md = bind();
  auto with = [&](uint32_t offset, uint32_t length) {
    PutSpec spec = to_peer(md);
    spec.md_offset = offset;
    spec.length = length;
    return code(submitter.put(spec));
  };
  EXPECT_EQ(with(0, 64), 0);
  EXPECT_EQ(with(64, 0), 0);
  EXPECT_EQ(with(60, kInfinite), 0);
  EXPECT_EQ(with(0, 65), -EINVAL);
  EXPECT_EQ(with(65, kInfinite), -EINVAL);
  EXPECT_EQ(with(60, 5), -EINVAL);
  EXPECT_EQ(with(UINT32_MAX, 2), -EINVAL);
  worker.run();
  const OperationCall& last = std::get<PutCall>(worker.seen.back()).operation;
  EXPECT_EQ(last.length, 4u);  // kInfinite = to the end
  EXPECT_EQ(last.md_offset, 60u);
}

TEST_F(SubmitterTest, put_checks_size_portal_and_target) {
  std::vector<std::byte> big(kMaxPayload + 1);
  const Segment large{big.data(), kMaxPayload + 1};
  const auto md = submitter.md_bind({.segments = {&large, 1}});
  ASSERT_TRUE(md);
  PutSpec spec = to_peer(*md);
  EXPECT_EQ(code(submitter.put(spec)), -EINVAL);  // the whole MD: over 1 MiB
  spec.length = kMaxPayload;
  EXPECT_EQ(code(submitter.get(spec)), 0);
  spec.portal = kPortalCount;
  EXPECT_EQ(code(submitter.put(spec)), -EINVAL);
  spec.portal = 1;
  spec.target.nid = kAnyNid;
  EXPECT_EQ(code(submitter.put(spec)), -EINVAL);
}

TEST_F(SubmitterTest, call_carries_the_whole_request) {
  const MdHandle md = bind();
  PutSpec spec = to_peer(md);
  spec.self = Nid::v4(Net::of(NetType::kTcp, 0), 0x0A000002);
  spec.target.pid = kAnyPid;
  spec.match_bits = 0x1122334455667788;
  spec.offset = 4096;
  spec.hdr_data = 42;
  spec.user_data = 43;
  ASSERT_TRUE(submitter.put(spec));
  ASSERT_TRUE(submitter.get(spec));
  worker.run();
  const PutCall& put = std::get<PutCall>(worker.seen[1]);
  EXPECT_TRUE(put.ack);
  EXPECT_EQ(put.hdr_data, 42u);
  for (const OperationCall& call : {put.operation, std::get<GetCall>(worker.seen[2]).operation}) {
    EXPECT_EQ(call.md, (Handle{md.index, md.generation}));
    EXPECT_EQ(call.self, spec.self);
    EXPECT_EQ(call.target, (ProcessId{spec.target.nid, kLnetPid}));
    EXPECT_EQ(call.portal, PortalIndex{63});
    EXPECT_EQ(call.match_bits, spec.match_bits);
    EXPECT_EQ(call.offset, 4096u);
    EXPECT_EQ(call.user_data, 43u);
    EXPECT_EQ(call.eq, UINT32_MAX);
  }
}

TEST_F(SubmitterTest, attach_is_once_and_excludes_operations) {
  const MdHandle md = bind({}, kMdPut);
  const MdHandle bare = bind();
  const ProcessId any{};
  EXPECT_EQ(code(submitter.me_attach(PortalIndex{kPortalCount}, any, 0, 0, MePosition::kTail, md)), -EINVAL);
  EXPECT_EQ(code(submitter.me_attach(PortalIndex{4}, any, 0, 0, MePosition::kTail, bare)), -EINVAL);
  ASSERT_TRUE(submitter.me_attach(PortalIndex{4}, {kLoNid, 9}, 5, 6, MePosition::kHead, md));
  EXPECT_EQ(code(submitter.me_attach(PortalIndex{4}, any, 0, 0, MePosition::kTail, md)), -EBUSY);
  EXPECT_EQ(code(submitter.put(to_peer(md))), -EINVAL);
  worker.run();
  const AttachCall& call = std::get<AttachCall>(worker.seen.back());
  EXPECT_EQ(call.md, (Handle{md.index, md.generation}));
  EXPECT_EQ(call.position, MePosition::kHead);
  EXPECT_EQ(call.portal, PortalIndex{4});
  EXPECT_EQ(call.match_bits, 5u);
  EXPECT_EQ(call.ignore_bits, 6u);
  EXPECT_EQ(call.initiator, (ProcessId{kLoNid, 9}));
}

TEST_F(SubmitterTest, unlinked_md_refuses_operations) {
  const EqHandle eq = queue();
  const MdHandle md = bind(eq);
  ASSERT_TRUE(submitter.unlink(md));
  EXPECT_EQ(code(submitter.put(to_peer(md))), -ENOENT);
  EXPECT_EQ(code(submitter.unlink(md)), -ENOENT);
  EXPECT_EQ(code(submitter.me_attach(PortalIndex{1}, {}, 0, 0, MePosition::kTail, md)), -ENOENT);
  EXPECT_EQ(submitter.mds_in_use(), 1u);
  worker.run();
  EXPECT_EQ(submitter.mds_in_use(), 0u);
  const auto events = poll(eq);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, EventKind::kUnlink);
  EXPECT_EQ(events[0].md, md);
  EXPECT_EQ(events[0].user_ptr, this);
}

TEST_F(SubmitterTest, md_that_retired_by_itself_is_noticed) {
  const MdHandle md = bind();
  worker.run();
  worker.retire(md.index);
  EXPECT_EQ(code(submitter.put(to_peer(md))), -ENOENT);
  EXPECT_EQ(code(submitter.unlink(md)), -ENOENT);
  EXPECT_EQ(submitter.mds_in_use(), 0u);
}

TEST_F(SubmitterTest, events_come_in_order_and_in_portions) {
  const EqHandle eq = queue();
  const MdHandle md = bind(eq);
  for (uint64_t i = 0; i < 5; ++i) {
    PutSpec spec = to_peer(md);
    spec.user_data = i;
    ASSERT_TRUE(submitter.put(spec));
  }
  worker.run();
  std::array<Event, 2> two;
  EXPECT_EQ(submitter.eq_poll(eq, two), 2u);
  EXPECT_EQ(two[1].user_data, 1u);
  const auto rest = poll(eq);
  ASSERT_EQ(rest.size(), 3u);
  EXPECT_EQ(rest[2].user_data, 4u);
  EXPECT_TRUE(rest[2].final);
  EXPECT_EQ(rest[2].kind, EventKind::kAck);
  EXPECT_TRUE(poll(eq).empty());
}

bool readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, 0) == 1;
}

TEST_F(SubmitterTest, a_queue_has_a_descriptor_to_sleep_on) {
  const EqHandle eq = queue();
  const MdHandle md = bind(eq);
  EXPECT_FALSE(submitter.eq_arm(eq)) << "without a descriptor there is no sleep";
  const auto fd = submitter.eq_fd(eq);
  ASSERT_TRUE(fd);
  EXPECT_EQ(submitter.eq_fd(eq).value_or(-1), *fd);
  EXPECT_FALSE(readable(*fd));
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(submitter.put(to_peer(md)));
    ASSERT_TRUE(submitter.eq_arm(eq));
    EXPECT_TRUE(submitter.eq_arm(eq)) << "twice is once";
    EXPECT_FALSE(readable(*fd));
    worker.run();
    EXPECT_TRUE(readable(*fd));
    EXPECT_FALSE(submitter.eq_arm(eq)) << "an event is there";
    EXPECT_EQ(poll(eq).size(), 1u);
    EXPECT_FALSE(readable(*fd));
    ASSERT_TRUE(submitter.put(to_peer(md)));
    worker.run();
    EXPECT_FALSE(readable(*fd)) << "nobody has said that he will sleep";
    EXPECT_EQ(poll(eq).size(), 1u);
  }
}

TEST_F(SubmitterTest, descriptors_of_bad_handles_are_refused) {
  const EqHandle eq = queue();
  EqHandle other = eq;
  ++other.submitter;
  EXPECT_EQ(code(submitter.eq_fd(other)), -EXDEV);
  EXPECT_FALSE(submitter.eq_arm(other));
  EXPECT_EQ(code(submitter.eq_fd({})), -EXDEV);
  ASSERT_TRUE(submitter.eq_fd(eq));
  ASSERT_TRUE(submitter.eq_arm(eq));
  ASSERT_TRUE(submitter.eq_close(eq));
  worker.run();
  const EqHandle again = queue();
  ASSERT_EQ(again.index, eq.index);
  EXPECT_EQ(code(submitter.eq_fd(eq)), -ENOENT);
  EXPECT_FALSE(submitter.eq_arm(eq)) << "stale";
  EXPECT_TRUE(submitter.eq_arm(again)) << "the descriptor stays with the slot";
  const auto callback = submitter.eq_open([](void*, const Event&) {}, nullptr);
  ASSERT_TRUE(callback);
  EXPECT_EQ(code(submitter.eq_fd(*callback)), -EINVAL);
}

TEST_F(SubmitterTest, callback_queue_calls_on_the_worker) {
  struct Seen {
    unsigned count = 0;
    uint64_t last = 0;
  } seen;
  auto callback = [](void* context, const Event& event) {
    auto& s = *static_cast<Seen*>(context);
    ++s.count;
    s.last = event.user_data;
  };
  const auto eq = submitter.eq_open(callback, &seen);
  ASSERT_TRUE(eq);
  PutSpec spec = to_peer(bind(*eq));
  spec.user_data = 12;
  ASSERT_TRUE(submitter.put(spec));
  EXPECT_EQ(seen.count, 0u);
  worker.run();
  EXPECT_EQ(seen.count, 1u);
  EXPECT_EQ(seen.last, 12u);
  EXPECT_TRUE(poll(*eq).empty());  // nothing to poll
}

TEST_F(SubmitterTest, queues_run_out_close_and_open_again) {
  EXPECT_EQ(code(submitter.eq_open(0)), -EINVAL);
  EXPECT_EQ(code(submitter.eq_open(kEqEventsMax + 1)), -EINVAL);
  EXPECT_EQ(code(submitter.eq_open(nullptr, nullptr)), -EINVAL);
  const EqHandle first = queue(), second = queue();
  EXPECT_EQ(code(submitter.eq_open(4)), -ENOSPC);
  const MdHandle md = bind(first);
  ASSERT_TRUE(submitter.eq_close(first));
  EXPECT_EQ(code(submitter.eq_close(first)), -ENOENT);
  EXPECT_EQ(code(submitter.md_bind({.segments = {&segment, 1}, .eq = first})), -ENOENT);
  ASSERT_TRUE(submitter.put(to_peer(md)));  // the MD that is bound already goes on
  worker.run();
  EXPECT_EQ(code(submitter.eq_open(4)), -ENOSPC);  // the MD still needs the queue
  ASSERT_TRUE(submitter.unlink(md));
  worker.run();
  EXPECT_EQ(poll(first).size(), 2u);  // ACK and UNLINK
  const EqHandle again = queue(4);
  EXPECT_EQ(again.index, first.index);
  EXPECT_NE(again.generation, first.generation);
  EXPECT_TRUE(poll(first).empty());  // stale now
  (void)second;
}

TEST_F(SubmitterTest, reopened_queue_does_not_show_old_events) {
  const EqHandle eq = queue(8);
  const MdHandle md = bind(eq);
  ASSERT_TRUE(submitter.unlink(md));
  ASSERT_TRUE(submitter.eq_close(eq));
  worker.run();
  const EqHandle again = queue(8);  // same ring
  EXPECT_EQ(again.index, eq.index);
  EXPECT_TRUE(poll(again).empty());
}

// Goal: the worker sees a call together with all values of its slot, and no slot is lost.
// Method: two threads, small rings. Each MD carries its number as user_ptr, and the worker compares it with the length.
TEST(SubmitterRace, slots_pass_between_two_threads) {
  Submitter submitter{WorkerId{0}, 0, {.ops = 8, .mds = 4, .eqs = 1, .segment_blocks = 2}, nullptr};
  constexpr uint32_t kRounds = 20000;
  std::thread worker([&] {
    uint32_t unlinked = 0;
    CallMsg call;
    while (unlinked < kRounds) {
      if (!submitter.calls().pop(call)) {
        std::this_thread::yield();
        continue;
      }
      const auto* unlink = std::get_if<UnlinkCall>(&call);
      Md& md = submitter.md_slot(unlink != nullptr ? unlink->md.index : std::get<BindCall>(call).md);
      ULNET_CHECK(unlink == nullptr || md.handle.generation == unlink->md.generation);
      ULNET_CHECK(reinterpret_cast<uintptr_t>(md.user_ptr) == md.length);
      uint32_t sum = 0;
      for (uint32_t i = 0; i < md.segment_count; ++i) sum += md.segments[i].bytes;
      ULNET_CHECK(sum == md.length);
      md.bound = unlink == nullptr;
      if (md.bound) continue;
      ++unlinked;
      submitter.worker_free(true, unlink->md.index);
    }
  });
  std::array<std::byte, 64> memory{};
  for (uint32_t i = 0; i < kRounds;) {
    std::array<Segment, 8> segments;
    segments.fill({memory.data(), 1 + i % 8});
    const std::span<const Segment> list{segments.data(), 1 + i % 8};
    auto* mark = reinterpret_cast<void*>(uintptr_t(list.size() * segments[0].bytes));
    const auto md = submitter.md_bind({.segments = list, .user_ptr = mark});
    if (!md) {
      ASSERT_TRUE(md.error().code == -EAGAIN || md.error().code == -ENOSPC) << md.error().what;
      std::this_thread::yield();
      continue;
    }
    while (!submitter.unlink(*md)) std::this_thread::yield();
    ++i;
  }
  worker.join();
  EXPECT_EQ(submitter.mds_in_use(), 0u);
}

}  // namespace
}  // namespace ulnet
