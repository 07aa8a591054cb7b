// Requester and responder of our RoCE against each other. Order and content under loss, repeats and reordering. The end
// of a peer, keys, receive buffers, and numbers that wrap. The shares of flows in a bottleneck.
#include <numeric>
#include <set>
#include <string>

#include "tests/unit/rc/roce_wire.h"

namespace ulnet::test {
namespace {

using namespace rc::roce;
using rc::Cause;

struct Losses {
  const char* name;
  WireRules rules;
};
void PrintTo(const Losses& losses, std::ostream* out) {
  *out << losses.name;
}

class RocePairLoss : public ::testing::TestWithParam<Losses> {};

/// Messages and writes of random length from end 0 to end 1, and messages back.
class Traffic {
 public:
  explicit Traffic(RoceWire& wire) : wire_(wire), target_(size_t{1} << 20), source_(roce_pattern(7, size_t{1} << 20)) {
    key_ = *wire.end(1).keys.open(target_);
  }
  void run(unsigned operations) {
    for (unsigned i = 0; i < operations; ++i) {
      begin(i % 5 == 4, i + 1);
      ASSERT_TRUE(
          wire_.run_until([&] { return wire_.end(0).requester.room() > 0 && wire_.end(1).requester.room() > 0; }));
    }
    ASSERT_TRUE(wire_.run_until(
        [&] { return wire_.end(0).tokens.size() == operations && wire_.end(1).tokens.size() == sent_[1].size(); }));
    std::vector<uint64_t> tokens(operations);
    std::iota(tokens.begin(), tokens.end(), 1);
    EXPECT_EQ(wire_.end(0).tokens, tokens);
    for (const size_t to : {0u, 1u}) EXPECT_EQ(wire_.end(to).messages, sent_[to ^ 1]) << to;
    EXPECT_EQ(target_, expected_);
  }

 private:
  void begin(bool write, uint64_t token) {
    Rng& rng = wire_.rng;
    if (write) {
      const auto bytes = uint32_t(rng.below(rng.one_in(4) ? 200'000 : 5'000)), to = uint32_t(rng.below(800'000));
      const auto from = uint32_t(rng.below(800'000)), first = uint32_t(rng.below(bytes + 1));
      const Segment segments[] = {{source_.data() + from, first}, {source_.data() + from + first, bytes - first}};
      wire_.end(0).write(segments, key_, target_.data() + to, token);
      std::copy_n(source_.begin() + from, bytes, expected_.begin() + to);
      return;
    }
    for (const size_t from : {0u, 1u}) {
      if (from == 1 && token % 3 != 0) continue;
      sent_[from].push_back(roce_pattern(token, size_t(rng.below(kRoceBufferBytes + 1))));
      wire_.end(from).send(sent_[from].back(), from == 0 ? token : sent_[1].size());
    }
  }
  RoceWire& wire_;
  std::vector<std::byte> target_, source_, expected_ = std::vector<std::byte>(size_t{1} << 20);
  uint32_t key_ = 0;
  std::vector<std::vector<std::byte>> sent_[2];
};

// Goal: each operation takes effect once and in order, and is reported in order.
TEST_P(RocePairLoss, all_comes_once_and_in_order) {
  for (const uint32_t mtu : {256u, 1024u, 4096u}) {
    RoceWire wire(mtu);
    wire.rules = GetParam().rules;
    wire.add_pair({.mtu = mtu, .first = Psn(0xFF'FFE0)});
    Traffic(wire).run(300);
    EXPECT_EQ(wire.end(0).requester.failure(), Cause::kNone);
    EXPECT_EQ(wire.end(0).requester.pending(), 0u);
    EXPECT_EQ(wire.end(0).requester.deadline(), kForever) << "nothing is under way, so no timer runs";
    const bool clean = std::string(GetParam().name) == "clean";
    EXPECT_EQ(wire.end(0).counts[Count::kPacketsResent].get() == 0, clean);
    EXPECT_EQ(wire.end(1).counts[Count::kNaksRnrSent].get(), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, RocePairLoss,
                         ::testing::Values(Losses{"clean", {}}, Losses{"loss_1", {.lose_one_in = 100}},
                                           Losses{"loss_10", {.lose_one_in = 10}},
                                           Losses{"repeats", {.repeat_one_in = 5, .reorder_one_in = 50}},
                                           Losses{"all",
                                                  {.lose_one_in = 30, .repeat_one_in = 30, .reorder_one_in = 30}}),
                         [](const auto& one) { return std::string(one.param.name); });

class RocePair : public ::testing::Test {
 protected:
  explicit RocePair(const RoceEndOptions& options = {}) { wire.add_pair(options); }
  RoceEnd& a() { return wire.end(0); }
  RoceEnd& b() { return wire.end(1); }
  void write(uint32_t bytes, uint32_t key, const std::byte* to) {
    const Segment segment{source.data(), bytes};
    a().write({&segment, 1}, key, to, 1);
  }
  bool both_fail() {
    return wire.run_until([&] { return a().requester.failure() != Cause::kNone; }) &&
           b().responder.failure() == Cause::kRemoteAccess;
  }
  RoceWire wire{3};
  std::vector<std::byte> source = roce_pattern(1, 64 << 10), target = std::vector<std::byte>(64 << 10);
};

// Goal: one ACK stands for all messages that come at once, and a lost one costs nothing if a later one comes.
TEST_F(RocePair, acknowledgements_are_merged) {
  for (uint64_t i = 1; i <= 10; ++i) a().send(roce_pattern(i, 64), i);
  ASSERT_TRUE(wire.run_until([&] { return a().tokens.size() == 10; }));
  EXPECT_EQ(b().counts[Count::kAcksSent].get(), 1u);
  EXPECT_EQ(wire.packets, 11u);
}

// Goal: a connection fails after the time that retry count and timeout allow, and repeats come sooner before that.
TEST_F(RocePair, a_peer_that_is_gone) {
  a().send(roce_pattern(1, 64), 1);
  ASSERT_TRUE(wire.run_until([&] { return a().tokens.size() == 1; }));
  wire.is_cut = true;
  const Instant cut = wire.now;
  for (uint64_t i = 2; i <= 5; ++i) a().send(roce_pattern(i, 3000), i);
  wire.run_until([&] { return a().requester.failure() != Cause::kNone; });
  EXPECT_EQ(a().requester.failure(), Cause::kRetryExceeded);
  EXPECT_EQ(wire.now - cut, 6 * 67ms);
  EXPECT_GE(a().counts[Count::kTimeouts].get(), 8u);
  EXPECT_LE(a().counts[Count::kTimeouts].get(), 12u);
  EXPECT_EQ(a().tokens.size(), 1u);
  EXPECT_EQ(a().requester.deadline(), kForever);
  EXPECT_FALSE(a().requester.ready(wire.now));
}

// Goal: a short interruption is over soon after it ends, whatever the timeout of the connection is.
TEST(RoceRetry, an_interruption_is_over_soon) {
  RoceWire wire(5);
  wire.add_pair({.timeout = 2147ms});
  wire.end(0).send(roce_pattern(1, 64), 1);
  ASSERT_TRUE(wire.run_until([&] { return wire.end(0).tokens.size() == 1; }));
  wire.is_cut = true;
  wire.end(0).send(roce_pattern(2, 64), 2);
  wire.run_for(50ms);
  wire.is_cut = false;
  const Instant healed = wire.now;
  ASSERT_TRUE(wire.run_until([&] { return wire.end(0).tokens.size() == 2; }));
  EXPECT_LT(wire.now - healed, 100ms);
}

// Goal: a round trip that becomes longer than the wait costs a timeout or two, and not the throughput for good.
TEST(RoceRetry, a_round_trip_that_becomes_longer) {
  RoceWire wire(5);
  wire.add_pair();
  std::vector<std::byte> source(1 << 20), target(1 << 20);
  const uint32_t key = *wire.end(1).keys.open(target);
  const auto delivered_in = [&](Duration time) {
    const uint64_t before = wire.end(1).delivered;
    for (const Instant end = wire.now + time; wire.now < end;) {
      const Segment segment{source.data(), uint32_t(source.size())};
      if (wire.end(0).requester.room() > kRoceWork - 2) wire.end(0).write({&segment, 1}, key, target.data(), 1);
      EXPECT_TRUE(wire.step());
    }
    return wire.end(1).delivered - before;
  };
  (void)delivered_in(10ms);
  wire.rules.delay = 10ms;
  (void)delivered_in(1s);
  const uint64_t timeouts = wire.end(0).counts[Count::kTimeouts].get();
  EXPECT_GE(timeouts, 1u);
  const double possible = 1024.0 * kWindowMost * 50;  // a window each 20 ms, for 1 s
  EXPECT_GT(double(delivered_in(1s)), possible * 0.5);
  EXPECT_LE(wire.end(0).counts[Count::kTimeouts].get(), timeouts + 1);
}

// Goal: after an interruption of several waits, the window is soon as large as half of what it was.
TEST(RoceRetry, timeouts_in_a_row_count_once) {
  Window window;
  for (int i = 0; i < 1000; ++i) window.acknowledged(32, Psn(0));
  EXPECT_EQ(window.packets(), kWindowMost);
  for (int i = 0; i < 5; ++i) window.collapse(Psn(100));
  EXPECT_EQ(window.packets(), kWindowLeast);
  window.acknowledged(kWindowMost / 2 - kWindowLeast, Psn(100));
  EXPECT_EQ(window.packets(), kWindowMost / 2);
  window.acknowledged(10, Psn(101));
  EXPECT_EQ(window.packets(), kWindowMost / 2);
}

// Goal: copies of one NAK draw one repeat.
TEST(RoceRetry, copies_of_a_nak_draw_one_repeat) {
  Counts counts;
  Requester requester({.work = 4, .pieces = 1, .mtu = 1024, .first = Psn(10), .retry_count = 5, .timeout = 67ms},
                      counts);
  std::byte memory[8192];
  const Segment segment{memory, sizeof memory};
  requester.post({&segment, 1}, {.token = 1, .write = true, .bytes = segment.bytes});
  const Instant now = kNever + 1s;
  const auto send_all = [&](unsigned most) {
    unsigned sent = 0;
    for (Step step; sent < most && requester.next(step, now); ++sent) {
      step.payload->advance(step.bytes);
      requester.sent(step, now);
    }
    return sent;
  };
  EXPECT_EQ(send_all(100), 8u);
  const Aeth nak{Verdict::kSequence, 0, 0};
  requester.answered(nak, Psn(12), now);
  EXPECT_EQ(send_all(2), 2u);
  for (int i = 0; i < 5; ++i) requester.answered(nak, Psn(12), now);
  EXPECT_EQ(send_all(100), 4u) << "of the six packets behind the second, two are on their way";
  EXPECT_EQ(counts[Count::kNaksSequenceReceived].get(), 1u);
  requester.answered(nak, Psn(12), now);
  EXPECT_EQ(send_all(100), 6u) << "all was sent again, so this one is new";
}

// Goal: operations take no more packet numbers than can be told apart.
TEST(RoceRetry, packet_numbers_have_a_bound) {
  Counts counts;
  Requester requester({.work = 8, .pieces = 1, .mtu = 256, .first = Psn(10), .timeout = 67ms}, counts);
  const Segment segment{nullptr, 0x4000'0000};
  EXPECT_TRUE(requester.fits(segment.bytes));
  requester.post({&segment, 1}, {.token = 1, .write = true, .bytes = segment.bytes});
  EXPECT_FALSE(requester.fits(1)) << "2^22 packets";
  EXPECT_GT(requester.room(), 0u);
  EXPECT_FALSE(Requester({.work = 8, .pieces = 1, .mtu = 4096}, counts).fits(0x8000'0000));
}

// Goal: without a timeout, a requester waits for ever, and sends again.
TEST(RoceRetry, no_timeout_means_no_end) {
  RoceWire wire(5);
  wire.add_pair({.timeout = 0ms});
  wire.is_cut = true;
  wire.end(0).send(roce_pattern(1, 64), 1);
  wire.run_for(1000s);
  EXPECT_EQ(wire.end(0).requester.failure(), Cause::kNone);
  wire.is_cut = false;
  EXPECT_TRUE(wire.run_until([&] { return wire.end(0).tokens.size() == 1; }));
}

TEST_F(RocePair, a_write_outside_its_window_is_refused) {
  const uint32_t key = *b().keys.open({target.data() + 100, 1000});
  write(1000, key, target.data() + 100);
  ASSERT_TRUE(wire.run_until([&] { return a().tokens.size() == 1; }));
  EXPECT_TRUE(std::equal(source.begin(), source.begin() + 1000, target.begin() + 100));
  write(1000, key, target.data() + 101);
  EXPECT_TRUE(both_fail());
  EXPECT_EQ(a().requester.failure(), Cause::kRemoteAccess);
  EXPECT_EQ(target[1100], std::byte{0});
  EXPECT_EQ(b().counts[Count::kNaksAccessSent].get(), 1u);
  EXPECT_EQ(a().counts[Count::kNaksAccessReceived].get(), 1u);
}

TEST_F(RocePair, a_write_before_its_window_is_refused) {
  const uint32_t key = *b().keys.open({target.data() + 100, 1000});
  write(10, key, target.data() + 99);
  EXPECT_TRUE(both_fail());
  EXPECT_EQ(target[100], std::byte{0});
}

TEST_F(RocePair, a_write_of_nothing_needs_no_key) {
  write(0, 4711, nullptr);
  EXPECT_TRUE(wire.run_until([&] { return a().tokens.size() == 1; }));
}

// Goal: a key that was closed is refused, also if its place has another key now, and in the middle of a write.
TEST_F(RocePair, a_key_that_was_closed_is_refused) {
  const uint32_t old = *b().keys.open(target);
  b().keys.close(old);
  const uint32_t next = *b().keys.open(target);
  EXPECT_NE(old, next);
  EXPECT_EQ(old % kKeysMax, next % kKeysMax);
  write(10, old, target.data());
  EXPECT_TRUE(both_fail());
}

TEST_F(RocePair, a_key_that_is_closed_in_the_middle_of_a_write) {
  const uint32_t key = *b().keys.open(target);
  write(uint32_t(source.size()), key, target.data());
  ASSERT_TRUE(wire.run_until([&] { return b().delivered >= 8192; }));
  b().keys.close(key);
  const uint64_t before = b().delivered;
  EXPECT_TRUE(both_fail());
  EXPECT_EQ(b().delivered, before);
}

TEST(RoceKeys, have_a_bound_and_come_back) {
  Rng rng(9);
  KeyTable keys(3, rng);
  std::byte memory[8];
  std::set<uint32_t> values;
  for (int round = 0; round < 100; ++round) {
    std::vector<uint32_t> open;
    for (int i = 0; i < 3; ++i) open.push_back(*keys.open(memory));
    EXPECT_FALSE(keys.open(memory));
    for (const uint32_t value : open) {
      EXPECT_TRUE(values.insert(value).second) << "a value is not used twice";
      EXPECT_EQ(keys.find(value)->memory.data(), memory);
      keys.close(value);
      EXPECT_FALSE(keys.find(value));
    }
  }
  EXPECT_FALSE(keys.find(3)) << "a place that is not there";
  EXPECT_EQ(keys.free_count(), 3u);
}

class RocePairRnr : public RocePair {
 protected:
  RocePairRnr() : RocePair({.post_receives = false}) {}
};

// Goal: messages wait for a receive buffer as long as the retry count allows, and then come in order.
TEST_F(RocePairRnr, messages_wait_for_a_buffer) {
  for (uint64_t i = 1; i <= 3; ++i) a().send(roce_pattern(i, 100), i);
  ASSERT_TRUE(wire.run_until([&] { return a().counts[Count::kNaksRnrReceived].get() == 3; }));
  EXPECT_EQ(b().counts[Count::kNaksSequenceSent].get(), 0u) << "packets behind the refused one are no gap";
  b().receive_all();
  ASSERT_TRUE(wire.run_until([&] { return a().tokens.size() == 3; }));
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(b().messages.at(i), roce_pattern(i + 1, 100));
}

TEST_F(RocePairRnr, messages_without_a_buffer_fail_in_the_end) {
  a().send(roce_pattern(1, 100), 1);
  wire.run_until([&] { return a().requester.failure() != Cause::kNone; });
  EXPECT_EQ(a().requester.failure(), Cause::kRnrExceeded);
  EXPECT_EQ(a().counts[Count::kNaksRnrReceived].get(), 7u);
}

TEST_F(RocePair, a_message_that_is_longer_than_the_buffers_is_refused) {
  const Segment segment{source.data(), kRoceBufferBytes + 1};
  a().requester.post({&segment, 1}, {.token = 1, .bytes = segment.bytes});
  EXPECT_TRUE(both_fail());
  EXPECT_EQ(b().counts[Count::kNaksInvalidSent].get(), 1u);
}

// Goal: each count has a name of its own, a unit and a meaning.
TEST(RoceCounts, have_texts) {
  std::set<std::string> names;
  for (size_t i = 0; i < size_t(Count::kCount); ++i) {
    const CounterText& text = text_of(Count(i));
    ASSERT_TRUE(text.name != nullptr && text.unit != nullptr && text.help != nullptr) << i;
    EXPECT_TRUE(names.insert(text.name).second) << text.name;
  }
}

/// The flows' bytes after a time in one bottleneck: the least and the most.
std::pair<uint64_t, uint64_t> shares(RoceWire& wire, unsigned flows, Duration time) {
  std::vector<std::byte> source(256 << 10), target(256 << 10);
  std::vector<uint32_t> keys;
  for (unsigned i = 0; i < flows; ++i) {
    wire.add_pair({.mtu = 1024});
    keys.push_back(*wire.end(2 * i + 1).keys.open(target));
  }
  std::vector<uint64_t> before(flows);
  const auto run = [&](Duration more) {
    for (const Instant end = wire.now + more; wire.now < end;) {
      for (unsigned i = 0; i < flows; ++i) {
        const Segment segment{source.data(), uint32_t(source.size())};
        RoceEnd& end_of_flow = wire.end(2 * i);
        if (end_of_flow.requester.room() > kRoceWork - 2) end_of_flow.write({&segment, 1}, keys[i], target.data(), 1);
      }
      wire.step();
    }
  };
  run(time / 4);  // until the windows have settled
  for (unsigned i = 0; i < flows; ++i) before[i] = wire.end(2 * i + 1).delivered;
  run(time);
  uint64_t least = UINT64_MAX, most = 0;
  for (unsigned i = 0; i < flows; ++i) {
    const uint64_t share = wire.end(2 * i + 1).delivered - before[i];
    least = std::min(least, share);
    most = std::max(most, share);
  }
  return {least, most};
}

// Goal: flows that share a bottleneck get about the same, and together nearly all of it, if it marks packets. If it
// only loses them, no flow starves.
TEST(RoceCongestion, flows_share_a_bottleneck) {
  for (const unsigned flows : {2u, 8u})
    for (const bool marks : {true, false}) {
      RoceWire wire(flows);
      wire.rules = {.delay = 80us, .burst = 32, .each = 4us, .queue_max = 64};
      if (marks) wire.rules.mark_at = 32;
      const auto [least, most] = shares(wire, flows, 400ms);
      EXPECT_LT(double(most) / double(least), marks ? 1.5 : 4.0) << flows << (marks ? " with marks" : "");
      const double possible = 100'000.0 * 1024;
      EXPECT_GT(double(least + most) / 2 * flows, possible * (marks ? 0.9 : 0.6))
          << flows << (marks ? " with marks" : "");
      if (marks) {
        EXPECT_EQ(wire.end(0).counts[Count::kTimeouts].get(), 0u);
      }
    }
}

}  // namespace
}  // namespace ulnet::test
