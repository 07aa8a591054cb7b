// Requests that a worker keeps in mind (dataplane/state/requests_seen.h), as a table alone: no request is new twice.
#include "dataplane/state/requests_seen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "dataplane/base/rng.h"

namespace ulnet::test {
namespace {

using Verdict = RequestsSeen::Verdict;
using wire::WireHandle;

constexpr uint64_t kLife = kCookieOfRequests | 0x1234;
constexpr unsigned kWays = 4;  ///< entries of a set

/// A handle as object_cookie() and mark_copy() make it.
WireHandle handle(uint32_t slot, uint32_t generation, bool copy = false, uint64_t life = kLife) {
  const uint64_t object = uint64_t{generation} << 32 | uint64_t{slot} << 10 | 1;
  if (!copy) return {life, object};
  return {life | uint64_t{0x7A5B} << kCookieLifeShift, object | kCookieCopy};
}

const char* name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kNew: return "new";
    case Verdict::kOpen: return "open";
    case Verdict::kDelivered: return "delivered";
    case Verdict::kOld: return "old";
    case Verdict::kUnknown: return "unknown";
  }
  return "?";
}

struct RequestsSeenTest : ::testing::Test {
  std::string look(const WireHandle& one) const { return name(seen.look(one, now).verdict); }
  /// A request is matched, and perhaps its payload is in place.
  uint32_t open(const WireHandle& one) {
    EXPECT_EQ(look(one), "new");
    return seen.open(one, {5, 6}, now);
  }
  uint32_t deliver(const WireHandle& one, const Delivered& how = {}) {
    const uint32_t place = open(one);
    seen.delivered(place, one, how);
    return place;
  }
  /// Requests of other slots come to the only set.
  void crowd(unsigned count) {
    for (unsigned i = 0; i < count; ++i) deliver(handle(next_slot++, 1));
  }
  RequestsSeen seen{kWays};
  Instant now{1000s};
  uint32_t next_slot = 1000;
};

TEST_F(RequestsSeenTest, copies_find_the_first_open_then_delivered) {
  const uint32_t place = open(handle(1, 7));
  EXPECT_EQ(look(handle(1, 7)), "open");
  EXPECT_EQ(look(handle(1, 7, true)), "open");
  EXPECT_EQ(seen.look(handle(1, 7, true), now).incoming, (Handle{5, 6}));
  seen.delivered(place, handle(1, 7), {.mlength = 11, .offset = 22, .order = -33});
  for (const bool copy : {false, true}) {
    const RequestsSeen::Look found = seen.look(handle(1, 7, copy), now);
    EXPECT_EQ(found.verdict, Verdict::kDelivered);
    EXPECT_EQ(found.of.mlength, 11u);
    EXPECT_EQ(found.of.offset, 22u);
    EXPECT_EQ(found.of.order, -33);
  }
  EXPECT_EQ(look(handle(2, 7, true)), "new") << "another slot";
  EXPECT_EQ(look(handle(1, 7, true, kLife + 1)), "new") << "another life";
}

TEST_F(RequestsSeenTest, generations_of_a_slot_rise_and_wrap) {
  uint32_t slot = 1;
  for (const uint32_t first : {7u, UINT32_MAX}) {
    const uint32_t second = first + 1 + (first == UINT32_MAX);  // 0 is never valid
    deliver(handle(slot, first));
    EXPECT_EQ(look(handle(slot, first - 1)), "old");
    EXPECT_EQ(look(handle(slot, first - 1, true)), "old");
    EXPECT_EQ(look(handle(slot, second, true)), "new");
    deliver(handle(slot, second));
    EXPECT_EQ(look(handle(slot, first)), "old");
    EXPECT_EQ(look(handle(slot, second)), "delivered");
    ++slot;
  }
}

TEST_F(RequestsSeenTest, forgotten_requests_are_new) {
  for (const bool copy : {false, true}) {
    const uint32_t place = open(handle(1, 7, copy));
    seen.forget(place, handle(1, 7, copy));
    EXPECT_EQ(look(handle(1, 7)), "new");
    EXPECT_EQ(look(handle(1, 7, true)), "new");
  }
}

// Goal: the ACK of the older request was the last that its sender waited for, but its copies may still be on their way.
TEST_F(RequestsSeenTest, forgotten_requests_leave_older_ones_old) {
  deliver(handle(1, 7));
  const uint32_t place = open(handle(1, 8));
  seen.forget(place, handle(1, 8));
  EXPECT_EQ(look(handle(1, 7, true)), "old");
  EXPECT_EQ(look(handle(1, 8, true)), "new");
}

TEST_F(RequestsSeenTest, requests_are_new_again_after_their_time) {
  deliver(handle(1, 7));
  now += kRequestsSeenFor - 1s;
  EXPECT_EQ(look(handle(1, 7, true)), "delivered");
  EXPECT_EQ(look(handle(1, 6)), "old");
  now += 1s;
  EXPECT_EQ(look(handle(1, 7, true)), "new");
  EXPECT_EQ(look(handle(1, 6)), "new");
  deliver(handle(1, 7, true));
  EXPECT_EQ(look(handle(1, 7)), "delivered");
}

// Goal: a set that lost a young entry refuses copies without an entry, until the time of that entry is over.
TEST_F(RequestsSeenTest, a_set_that_lost_an_entry_refuses_copies_for_a_while) {
  deliver(handle(1, 7));
  now += 10s;
  crowd(kWays - 1);
  EXPECT_EQ(look(handle(2, 7, true)), "new") << "nothing is lost";
  crowd(1);
  EXPECT_EQ(look(handle(1, 7, true)), "unknown");
  EXPECT_EQ(look(handle(2, 7, true)), "unknown");
  EXPECT_EQ(look(handle(2, 7)), "new") << "no copy";
  EXPECT_EQ(look(handle(1000, 1, true)), "delivered") << "still here";
  now += kRequestsSeenFor - 1s;
  EXPECT_EQ(look(handle(2, 7, true)), "unknown");
  now += 1s;
  EXPECT_EQ(look(handle(2, 7, true)), "new");
  EXPECT_EQ(look(handle(1, 7, true)), "new");
}

TEST_F(RequestsSeenTest, an_old_entry_is_replaced_without_loss) {
  crowd(kWays);
  now += kRequestsSeenFor;
  crowd(kWays);
  EXPECT_EQ(look(handle(2, 7, true)), "new");
}

// Goal: the first of a copy that was delivered may still come, and finds the entry however many others have come.
TEST_F(RequestsSeenTest, an_entry_of_a_copy_stays_while_young) {
  deliver(handle(1, 7, true));
  for (int i = 0; i < 10; ++i) {
    now += 10s;
    crowd(2 * kWays);
    ASSERT_EQ(look(handle(1, 7)), "delivered");
  }
  now += kRequestsSeenFor - 100s;
  crowd(2 * kWays);
  EXPECT_EQ(look(handle(1, 7)), "new");
}

// Goal: the same if the slot is used again meanwhile.
TEST_F(RequestsSeenTest, an_entry_of_a_copy_stays_though_its_slot_is_used_again) {
  deliver(handle(1, 7, true));
  deliver(handle(1, 8));
  crowd(2 * kWays);
  EXPECT_EQ(look(handle(1, 7)), "old");
}

TEST_F(RequestsSeenTest, a_set_full_of_copies_takes_no_others) {
  for (uint32_t slot = 1; slot <= kWays; ++slot) deliver(handle(slot, 7, true));
  EXPECT_EQ(look(handle(9, 7, true)), "unknown") << "there is no room for its entry";
  EXPECT_EQ(open(handle(9, 7)), RequestsSeen::kNowhere);
  seen.delivered(RequestsSeen::kNowhere, handle(9, 7), {});
  seen.forget(RequestsSeen::kNowhere, handle(9, 7));
  for (uint32_t slot = 1; slot <= kWays; ++slot) EXPECT_EQ(look(handle(slot, 7)), "delivered");
  now += kRequestsSeenFor - 1s;
  EXPECT_EQ(look(handle(9, 7, true)), "unknown");
  now += 1s;
  EXPECT_EQ(look(handle(9, 7, true)), "new");
}

TEST_F(RequestsSeenTest, a_replaced_entry_is_left_alone) {
  const uint32_t place = open(handle(1, 7));
  crowd(kWays);
  seen.delivered(place, handle(1, 7), {});
  seen.forget(place, handle(1, 7));
  EXPECT_EQ(look(handle(1, 7, true)), "unknown");
  for (uint32_t i = 0; i < kWays; ++i) EXPECT_EQ(look(handle(1000 + i, 1)), "delivered");
  const uint32_t older = open(handle(1000, 2));
  deliver(handle(1000, 3));
  seen.forget(older, handle(1000, 2));
  EXPECT_EQ(look(handle(1000, 3)), "delivered") << "the place is of a later request of the slot";
}

// Senders with few slots, whose requests and copies arrive in any order, through a table that has too little room.
class Model {
 public:
  explicit Model(uint64_t seed) : rng_(seed), seen_(uint32_t(kWays << rng_.below(3))), senders_(4 + rng_.below(20)) {}
  /// Returns the fault, or "".
  std::string run() {
    for (int step = 0; step < 4000; ++step) {
      now_ += std::chrono::milliseconds(rng_.below(rng_.one_in(200) ? 100'000 : 500));
      send(uint32_t(rng_.below(senders_.size())));
      for (size_t i = flying_.size(); i-- > 0;)
        if (flying_[i].due <= now_) arrive(i);
      while (!receiving_.empty() && rng_.one_in(2)) end_payload(rng_.below(receiving_.size()));
      if (!fault_.empty()) return fault_ + " in step " + std::to_string(step);
    }
    return delivered_ > 100 ? "" : "too little is delivered: " + std::to_string(delivered_);
  }

 private:
  using Key = std::pair<uint32_t, uint32_t>;  ///< slot and generation
  struct Sender {
    uint32_t generation = UINT32_MAX - 20;  ///< so that it wraps
    Instant issued;
    bool waits = false;
    bool copied = false;
  };
  struct Message {
    Key key;
    bool copy = false;
    Instant due;
  };
  struct Open {
    Message message;
    uint32_t place = 0;
  };

  /// A slot sends a request, or a copy of the request that it waits for.
  void send(uint32_t slot) {
    Sender& sender = senders_[slot];
    if (sender.waits && now_ - sender.issued > 150s) sender.waits = false;  // the deadline has passed
    if (!sender.waits) {
      sender.generation += 1 + (sender.generation == UINT32_MAX);
      sender.issued = now_;
      sender.waits = true;
      sender.copied = false;
    } else if (now_ - sender.issued < kCopyFor) {
      sender.copied = true;
    } else {
      return;
    }
    if (rng_.one_in(10)) return;  // lost
    const Duration late = std::chrono::milliseconds(rng_.below(rng_.one_in(3) ? 100'000 : 100));
    const Instant last = sender.issued + kCopyFor + kHopHoldMax + kPoolHoldMax;
    flying_.push_back({{slot, sender.generation}, sender.copied, std::min(now_ + late, last)});
  }
  void arrive(size_t i) {
    const Message m = flying_[i];
    flying_.erase(flying_.begin() + std::ptrdiff_t(i));
    const WireHandle one = handle(m.key.first, m.key.second, m.copy);
    const RequestsSeen::Look found = seen_.look(one, now_);
    const auto before = delivered_as_.find(m.key);
    const std::string who = "slot " + std::to_string(m.key.first) + " generation " + std::to_string(m.key.second);
    if (found.verdict == Verdict::kDelivered) {
      const bool right = before != delivered_as_.end() && before->second == found.of.mlength;
      if (!right) fault_ = who + " has an answer that is not its own";
      answer(m.key);
    }
    if (found.verdict == Verdict::kUnknown && !m.copy) fault_ = who + " is no copy, and unknown";
    if (found.verdict == Verdict::kOld && senders_[m.key.first].generation == m.key.second)
      fault_ = who + " is the newest, and old";
    if (found.verdict != Verdict::kNew) return;
    const auto same = [&](const Open& open) { return open.message.key == m.key; };
    const bool comes = std::any_of(receiving_.begin(), receiving_.end(), same);
    if (comes || before != delivered_as_.end()) fault_ = who + " is delivered twice";
    const uint32_t place = seen_.open(one, {}, now_);
    if (place == RequestsSeen::kNowhere && m.copy) fault_ = who + " is a copy without a place";
    receiving_.push_back({m, place});
  }
  void end_payload(size_t i) {
    const Open open = receiving_[i];
    receiving_.erase(receiving_.begin() + std::ptrdiff_t(i));
    const WireHandle one = handle(open.message.key.first, open.message.key.second, open.message.copy);
    if (rng_.one_in(8)) return seen_.forget(open.place, one);
    delivered_as_[open.message.key] = ++delivered_;
    seen_.delivered(open.place, one, {.mlength = delivered_, .offset = 0, .order = 0});
    answer(open.message.key);
  }
  /// The ACK or REPLY arrives, or is lost.
  void answer(const Key& key) {
    Sender& sender = senders_[key.first];
    if (sender.generation == key.second && !rng_.one_in(3)) sender.waits = false;
  }

  Rng rng_;
  Instant now_{1000s};
  RequestsSeen seen_;
  std::vector<Sender> senders_;
  std::vector<Message> flying_;
  std::vector<Open> receiving_;
  std::map<Key, uint32_t> delivered_as_;
  uint32_t delivered_ = 0;
  std::string fault_;
};

// Goal: no order of requests, copies, losses and replaced entries delivers a request twice. No answer is that of
// another request, and no request is refused but a copy.
TEST(RequestsSeenModel, no_request_is_delivered_twice) {
  for (uint64_t seed = 1; seed <= 300; ++seed) ASSERT_EQ(Model(seed).run(), "") << "seed " << seed;
}

}  // namespace
}  // namespace ulnet::test
