// The contract of lnd/rc/rc.h between two nodes. Connections come about, and messages come in order. Writes are in
// place before the message behind them. A key allows its window and nothing else.
#include <numeric>

#include "tests/unit/rc/world.h"

namespace ulnet::test {
namespace {

using rc::Posted;

class RcContract : public RcTest {
 protected:
  /// A window of node 1's memory, with its key.
  void offer(const Payload& window) {
    ASSERT_EQ(worker(1).key_open(*passive().qp, key, window), Posted::kYes);
    EXPECT_TRUE(key.open);
    worker(1).flush(world->now);
    passive().send("key", 1);
    until([&] { return !active().messages.empty(); });
  }
  [[nodiscard]] static uint64_t address_of(const std::byte* at) { return uint64_t(reinterpret_cast<uintptr_t>(at)); }
  void write(const std::byte* from, uint32_t bytes, const std::byte* to) {
    const Segment segment{const_cast<std::byte*>(from), bytes, RegionId{1}};  // NOLINT
    ASSERT_EQ(worker(0).write(*active().qp, {&segment, 1}, key.value, address_of(to), 0), Posted::kYes);
  }
  /// The window ends at byte 8192, and the write one byte behind it.
  void write_outside(std::span<std::byte> region) {
    connect();
    register_memory(0, 1, ours);
    register_memory(1, 2, region);
    fill(ours, 1);
    const Segment window{theirs.data() + 4096, 4096, RegionId{2}};
    offer({&window, 1, 0, 4096});
    write(ours.data(), 4096, theirs.data() + 4097);
    until_both_are_broken();
    EXPECT_EQ(active().cause, rc::Cause::kRemoteAccess);
    EXPECT_EQ(passive().cause, rc::Cause::kRemoteAccess);
    EXPECT_EQ(theirs[8192], std::byte{0}) << "the byte behind the window";
  }
  void until_both_are_broken() {
    until([&] { return active().is_broken && passive().is_broken; });
  }
  std::vector<std::byte> ours = std::vector<std::byte>(1 << 20), theirs = std::vector<std::byte>(1 << 20);
  rc::RemoteKey key;
};

TEST_F(RcContract, private_data_goes_both_ways) {
  connect();
  EXPECT_NE(seen.find("1 request hello; "), std::string::npos) << seen;
  EXPECT_NE(seen.find("0 established welcome; "), std::string::npos) << seen;
  EXPECT_EQ(adopted[0]->receives, 18u);
  EXPECT_EQ(adopted[0]->worker, kWorker);
}

TEST_F(RcContract, messages_come_whole_and_in_order) {
  connect();
  std::vector<std::string> expected;
  for (unsigned i = 0; i < 200; ++i) {
    expected.push_back(std::to_string(i) + std::string(i * 37 % (kBufferBytes - 4), 'x'));
    for (Side* side : {&active(), &passive()}) side->send(expected.back(), i + 1);
    if (i % 8 == 7) until([&] { return active().tokens.size() == i + 1 && passive().tokens.size() == i + 1; });
  }
  until([&] { return active().messages.size() == 200 && passive().messages.size() == 200; });
  std::vector<uint64_t> tokens(200);
  std::iota(tokens.begin(), tokens.end(), 1);
  for (Side* side : {&active(), &passive()}) {
    EXPECT_EQ(side->messages, expected);
    EXPECT_EQ(side->tokens, tokens);
  }
}

// Goal: the end of a message that wakes nobody is reported with the next event, and in order.
TEST_F(RcContract, ends_that_do_not_wake_are_reported_with_the_next_event) {
  connect();
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_EQ(active().try_send("quiet", 2 * i + 1, rc::Wake::kNo), rc::Posted::kYes);
    active().send("loud", 2 * i + 2);
    until([&] { return active().tokens.size() == 2 * i + 2; });
  }
  std::vector<uint64_t> tokens(10);
  std::iota(tokens.begin(), tokens.end(), 1);
  EXPECT_EQ(active().tokens, tokens);
  ASSERT_EQ(active().try_send("question", 11, rc::Wake::kNo), rc::Posted::kYes);
  until([&] { return passive().messages.size() == 11; });
  passive().send("answer");
  until([&] { return active().messages.size() == 1 && active().tokens.size() == 11; });
}

// Goal: the passive side may have a message before control hears that the connection is established.
TEST_F(RcContract, the_active_side_may_send_at_once) {
  listen();
  dial(spec());
  accept();
  until([&] { return seen.find("0 established") != std::string::npos; });
  active().send("first");
  until([&] { return passive().messages.size() == 1; });
  EXPECT_EQ(passive().messages[0], "first");
}

// Goal: a send buffer of 0 bytes is a message, too.
TEST_F(RcContract, an_empty_message) {
  connect();
  active().send("", 7);
  until([&] { return passive().messages.size() == 1 && active().tokens.size() == 1; });
  EXPECT_EQ(passive().messages[0], "");
}

TEST_F(RcContract, writes_are_in_place_before_the_next_message) {
  connect();
  fill(ours, 3);
  register_memory(0, 1, ours);
  register_memory(1, 2, theirs);
  const Segment window{theirs.data(), uint32_t(theirs.size()), RegionId{2}};
  offer({&window, 1, 0, window.bytes});
  const Segment halves[] = {{ours.data(), 300'000, RegionId{1}},
                            {ours.data() + 300'000, uint32_t(ours.size() - 300'000), RegionId{1}}};
  ASSERT_EQ(worker(0).write(*active().qp, halves, key.value, address_of(theirs.data()), 0), Posted::kYes);
  active().send("done", 9);
  until([&] { return passive().messages.size() == 1; });
  EXPECT_EQ(theirs, ours);
  until([&] { return active().tokens == std::vector<uint64_t>{9}; });
  ASSERT_EQ(worker(1).key_close(*passive().qp, key), Posted::kYes);
  until([&] { return passive().keys_closed == 1; });
  EXPECT_FALSE(key.open);
}

// Goal: an operation that is reported without a message behind it.
TEST_F(RcContract, a_write_with_a_token) {
  connect();
  fill(ours, 5);
  register_memory(0, 1, ours);
  register_memory(1, 2, theirs);
  const Segment window{theirs.data(), 100, RegionId{2}};
  offer({&window, 1, 0, 100});
  const Segment from{ours.data(), 100, RegionId{1}};
  ASSERT_EQ(worker(0).write(*active().qp, {&from, 1}, key.value, address_of(theirs.data()), 4), Posted::kYes);
  until([&] { return active().tokens == std::vector<uint64_t>{4}; });
  EXPECT_TRUE(std::equal(ours.begin(), ours.begin() + 100, theirs.begin()));
}

// Goal: a window of several segments that lie side by side has one key.
TEST_F(RcContract, a_window_of_several_segments) {
  connect();
  fill(ours, 7);
  register_memory(0, 1, ours);
  register_memory(1, 2, theirs);
  const Segment pieces[] = {{theirs.data() + 1000, 500, RegionId{2}}, {theirs.data() + 1500, 700, RegionId{2}}};
  offer({pieces, 2, 100, 1000});
  write(ours.data(), 1000, theirs.data() + 1100);
  active().send("done");
  until([&] { return passive().messages.size() == 1; });
  EXPECT_TRUE(std::equal(ours.begin(), ours.begin() + 1000, theirs.begin() + 1100));
}

// Goal: no key allows writes between the segments of a window.
TEST_F(RcContract, a_window_with_gaps_has_no_key) {
  connect();
  register_memory(1, 2, theirs);
  const Segment pieces[] = {{theirs.data() + 1000, 500, RegionId{2}}, {theirs.data() + 9000, 700, RegionId{2}}};
  EXPECT_EQ(worker(1).key_open(*passive().qp, key, {pieces, 2, 100, 1000}), Posted::kImpossible);
  EXPECT_FALSE(key.open);
  EXPECT_EQ(worker(1).key_open(*passive().qp, key, {pieces, 2, 100, 400}), Posted::kYes) << "all of it in the first";
}

// A provider may keep the bytes that come. The whole window is there in any case, in each order of writes.
class RcKept : public RcContract {
 protected:
  static constexpr uint32_t kWindow = 40'000;
  void start() {
    connect();
    register_memory(0, 1, ours);
    register_memory(1, 2, theirs);
    fill(ours, 9);
    key.may_keep = true;
    offer({&window, 1, 0, kWindow});
  }
  void write_part(uint32_t offset, uint32_t bytes) { write(ours.data() + offset, bytes, theirs.data() + offset); }
  /// All writes have come, and the key is closed.
  void close() {
    active().send("done");
    until([&] { return passive().messages.size() == 1; });
    ASSERT_EQ(worker(1).key_close(*passive().qp, key), Posted::kYes);
  }
  /// The bytes of the window, as its owner sees them. Gives kept ones back.
  std::vector<std::byte> contents() {
    const Payload all = key.kept == nullptr ? Payload{&window, 1, 0, kWindow} : key.kept->payload();
    EXPECT_EQ(all.length, kWindow);
    std::vector<std::byte> out(all.length);
    const Segment target{out.data(), all.length, {}};
    PayloadCursor to({&target, 1, 0, all.length}), from(all);
    EXPECT_EQ(payload_copy(to, from), all.length);
    if (KeptPayload* kept = std::exchange(key.kept, nullptr)) kept->give_back();
    return out;
  }
  [[nodiscard]] std::vector<std::byte> expected(uint32_t from, uint32_t to) const {
    std::vector<std::byte> out(kWindow);
    std::copy(ours.begin() + from, ours.begin() + to, out.begin() + from);
    return out;
  }
  const Segment window{theirs.data(), kWindow, RegionId{2}};
};

TEST_F(RcKept, writes_one_behind_the_other) {
  start();
  for (uint32_t offset = 0; offset < kWindow; offset += 10'000) write_part(offset, 10'000);
  close();
  until([&] { return passive().keys_closed == 1; });
  EXPECT_EQ(contents(), expected(0, kWindow));
}

TEST_F(RcKept, writes_in_any_order_and_twice) {
  start();
  for (const uint32_t offset : {0u, 10'000u, 30'000u, 0u, 20'000u, 25'000u}) write_part(offset, 10'000);
  close();
  until([&] { return passive().keys_closed == 1; });
  EXPECT_EQ(contents(), expected(0, kWindow));
}

TEST_F(RcKept, a_window_that_is_not_full) {
  start();
  write_part(0, 12'345);
  close();
  until([&] { return passive().keys_closed == 1; });
  EXPECT_EQ(contents(), expected(0, 12'345));
}

// Goal: the connection ends while the key is closed: nothing is lost, and kept bytes are handed over once.
TEST_F(RcKept, the_connection_ends_behind_the_close_of_the_key) {
  start();
  write_part(0, kWindow);
  close();
  finish(1);
  EXPECT_EQ(contents(), expected(0, kWindow));
}

TEST_F(RcKept, the_connection_ends_with_an_open_key) {
  start();
  write_part(0, kWindow);
  active().send("done");
  until([&] { return passive().messages.size() == 1; });
  finish(1);
  EXPECT_EQ(key.kept, nullptr);
}

TEST_F(RcContract, a_write_outside_the_window_is_refused) {
  if (!world->windows_have_bounds()) GTEST_SKIP() << "the device checks regions only";
  write_outside(theirs);
}

TEST_F(RcContract, a_write_outside_the_region_is_refused) {
  write_outside(std::span(theirs).first(8192));
}

TEST_F(RcContract, a_write_without_a_key_is_refused) {
  connect();
  register_memory(0, 1, ours);
  register_memory(1, 2, theirs);
  fill(ours, 1);
  key.value = 0x12345601;
  write(ours.data(), 64, theirs.data());
  until_both_are_broken();
  EXPECT_EQ(theirs, std::vector<std::byte>(theirs.size()));
}

TEST_F(RcContract, a_write_by_a_closed_key_is_refused) {
  connect();
  if (!control(1).device(listener).keys_end) GTEST_SKIP() << "this device ends keys with their connection only";
  register_memory(0, 1, ours);
  register_memory(1, 2, theirs);
  fill(ours, 1);
  const Segment window{theirs.data(), 4096, RegionId{2}};
  offer({&window, 1, 0, 4096});
  const rc::RemoteKey known = key;
  ASSERT_EQ(worker(1).key_close(*passive().qp, key), Posted::kYes);
  until([&] { return passive().keys_closed == 1; });
  key.value = known.value;
  write(ours.data(), 64, theirs.data());
  until_both_are_broken();
  EXPECT_EQ(theirs, std::vector<std::byte>(theirs.size()));
}

// Goal: two keys in a row for the same memory are not the same, so that an old one allows nothing.
TEST_F(RcContract, each_transfer_has_a_key_of_its_own) {
  connect();
  register_memory(1, 2, theirs);
  const Segment window{theirs.data(), 4096, RegionId{2}};
  std::vector<uint32_t> values;
  for (unsigned i = 0; i < 50; ++i) {
    ASSERT_EQ(worker(1).key_open(*passive().qp, key, {&window, 1, 0, 4096}), Posted::kYes);
    values.push_back(key.value);
    ASSERT_EQ(worker(1).key_close(*passive().qp, key), Posted::kYes);
    until([&] { return passive().keys_closed == i + 1; });
  }
  if (!control(1).device(listener).keys_end) return;
  for (size_t i = 1; i < values.size(); ++i) EXPECT_NE(values[i], values[i - 1]);
}

TEST_F(RcContract, memory_that_no_key_or_write_can_have) {
  connect();
  register_memory(0, 1, ours);
  register_memory(1, 2, std::span(theirs).first(1000));
  register_memory(1, 3, std::span(theirs).subspan(2000, 1000));
  const Segment two[] = {{theirs.data(), 100, RegionId{2}}, {theirs.data() + 2000, 100, RegionId{3}}};
  EXPECT_EQ(worker(1).key_open(*passive().qp, key, {two, 2, 0, 200}), Posted::kImpossible);
  EXPECT_FALSE(key.open);
  const Segment nowhere{theirs.data(), 100, RegionId{}};
  EXPECT_EQ(worker(1).key_open(*passive().qp, key, {&nowhere, 1, 0, 100}), Posted::kImpossible);
  const Segment from{ours.data(), 100, RegionId{}};
  EXPECT_EQ(worker(0).write(*active().qp, {&from, 1}, 1, 1, 0), Posted::kImpossible);
  ASSERT_EQ(worker(1).key_open(*passive().qp, key, {two, 2, 0, 100}), Posted::kYes)
      << "the second is not in the window";
}

TEST_F(RcContract, the_number_of_keys_has_a_bound) {
  connect();
  register_memory(1, 2, theirs);
  const Segment window{theirs.data(), 64, RegionId{2}};
  std::vector<rc::RemoteKey> keys(passive().qp->keys + 1);
  for (size_t i = 0; i + 1 < keys.size(); ++i) {
    ASSERT_EQ(worker(1).key_open(*passive().qp, keys[i], {&window, 1, 0, 64}), Posted::kYes) << i;
    step();
  }
  EXPECT_EQ(worker(1).key_open(*passive().qp, keys.back(), {&window, 1, 0, 64}), Posted::kNoRoom);
  ASSERT_EQ(worker(1).key_close(*passive().qp, keys[0]), Posted::kYes);
  until([&] { return passive().keys_closed == 1; });
  EXPECT_EQ(worker(1).key_open(*passive().qp, keys.back(), {&window, 1, 0, 64}), Posted::kYes);
}

// Goal: as many operations as the queue pair has room for, and again when they are done.
TEST_F(RcContract, room_for_operations) {
  rc::QpNeeds needs = usual_needs();
  needs.sends = 64;
  needs.receives = 64;
  connect(needs);
  for (unsigned round = 0; round < 3; ++round) {
    active().tokens.clear();
    unsigned count = 0;
    while (active().try_send("x", count + 1) == Posted::kYes) ++count;
    EXPECT_EQ(count, active().qp->work);
    EXPECT_EQ(worker(0).room(*active().qp), 0u);
    until([&] { return active().tokens.size() == count; });
    EXPECT_EQ(worker(0).room(*active().qp), count);
  }
}

// Goal: after the end, posting does nothing, and nothing is reported.
TEST_F(RcContract, posts_after_the_end) {
  connect();
  register_memory(0, 1, ours);
  control(1).disconnect(conns[1], world->now);
  until([&] { return active().is_broken; });
  const Segment from{ours.data(), 100, RegionId{1}};
  EXPECT_EQ(worker(0).room(*active().qp), 0u);
  EXPECT_EQ(active().try_send("late", 5), Posted::kYes);
  EXPECT_EQ(worker(0).write(*active().qp, {&from, 1}, 1, 1, 6), Posted::kYes);
  for (unsigned i = 0; i < 100; ++i) step();
  EXPECT_TRUE(active().tokens.empty());
}

// Goal: the bounds of one call of poll() hold, and it goes on where it stopped.
TEST_F(RcContract, poll_has_a_budget) {
  connect();
  for (unsigned i = 0; i < 8; ++i) active().send("x", i + 1);
  worker(0).flush(world->now);
  unsigned calls = 0;
  for (unsigned i = 0; i < 100'000 && passive().messages.size() < 8; ++i) {
    const Instant now = world->pass();
    EXPECT_LE(worker(1).poll(1, now), 1u);
    ++calls;
    worker(0).poll(64, now);
    for (const unsigned node : {0u, 1u}) {
      worker(node).timers(now);
      worker(node).flush(now);
    }
  }
  EXPECT_EQ(passive().messages.size(), 8u);
  EXPECT_GE(calls, 8u);
}

}  // namespace
}  // namespace ulnet::test
