// The credits of one side of an o2iblnd connection, rule by rule (docs/wire/o2iblnd.md §5). The bound on NOOPs is
// checked for each depth. tests/model/o2iblnd_model.h puts two sides together.
#include <gtest/gtest.h>

#include <algorithm>

#include "lnd/o2iblnd/proto/credits.h"

namespace ulnet::o2iblnd {
namespace {

using M = MessageType;
constexpr M kCredited[] = {M::kImmediate, M::kPutReq, M::kGetReq};
constexpr M kCreditFree[] = {M::kPutAck, M::kPutNak, M::kPutDone, M::kGetDone};

TEST(O2iblndCredits, begin_with_the_depth) {
  const Credits credits(8, 4);
  EXPECT_EQ(credits.depth(), 8u);
  EXPECT_EQ(credits.credits(), 8u);
  EXPECT_EQ(credits.reserved(), 8u);
  EXPECT_EQ(credits.owed(), 0u);
  EXPECT_EQ(receive_buffers_of(8), 18u);
}

// Goal: rule 1. Three types use a credit; two of these also reserve a response.
TEST(O2iblndCredits, are_used_by_three_types) {
  for (const M type : kCredited) {
    Credits credits(3, 2);
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(credits.may_send(type));
      EXPECT_EQ(credits.send(type), 0);
    }
    EXPECT_FALSE(credits.may_send(type));
    EXPECT_EQ(credits.credits(), 0u);
    EXPECT_EQ(credits.reserved(), type == M::kImmediate ? 3u : 0u);
    for (const M free : kCreditFree) EXPECT_TRUE(credits.may_send(free));  // rule 2
    EXPECT_TRUE(credits.may_send(M::kNoop));
  }
  for (const M type : kCreditFree) {
    Credits credits(3, 2);
    (void)credits.send(type);
    EXPECT_EQ(credits.credits(), 3u);
    EXPECT_EQ(credits.reserved(), 3u);
  }
}

// Goal: rule 1. A response ends its reservation; without one, a request waits although there are credits.
TEST(O2iblndCredits, responses_are_reserved) {
  for (const M response : {M::kPutAck, M::kPutNak, M::kGetDone}) {
    Credits credits(3, 2);
    for (int i = 0; i < 3; ++i) (void)credits.send(M::kGetReq);
    ASSERT_TRUE(credits.receive(M::kNoop, 3));
    EXPECT_FALSE(credits.may_send(M::kGetReq));
    EXPECT_FALSE(credits.may_send(M::kPutReq));
    EXPECT_TRUE(credits.may_send(M::kImmediate));
    ASSERT_TRUE(credits.receive(response, 0));
    EXPECT_TRUE(credits.may_send(M::kPutReq));
    EXPECT_EQ(credits.reserved(), 1u);
  }
  Credits credits(3, 2);
  EXPECT_FALSE(credits.receive(M::kPutAck, 0));  // nothing was reserved
  EXPECT_TRUE(credits.receive(M::kPutDone, 0));
}

// Goal: rule 3. A message carries all that is owed; more than the depth is a protocol error.
TEST(O2iblndCredits, are_carried_by_every_message) {
  for (const M type :
       {M::kNoop, M::kImmediate, M::kPutReq, M::kPutNak, M::kPutAck, M::kPutDone, M::kGetReq, M::kGetDone}) {
    Credits credits(8, 4);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(credits.repost(M::kImmediate));
    EXPECT_EQ(credits.send(type), 3) << message_type_text(type);
    EXPECT_EQ(credits.owed(), 0u);
    EXPECT_EQ(credits.send(type), 0);
  }
  Credits credits(8, 4);
  EXPECT_FALSE(credits.receive(M::kNoop, 1));
  for (int i = 0; i < 5; ++i) (void)credits.send(M::kImmediate);
  EXPECT_TRUE(credits.receive(M::kImmediate, 2));
  EXPECT_EQ(credits.credits(), 5u);
  EXPECT_FALSE(credits.receive(M::kNoop, 4));
  EXPECT_FALSE(credits.receive(M::kNoop, 255));
  EXPECT_TRUE(credits.receive(M::kNoop, 3));
}

// Goal: rule 4. Which reposted buffer is worth a credit.
TEST(O2iblndCredits, are_owed_for_reposted_buffers) {
  const auto owed = [](M type, bool refused = false) {
    Credits credits(8, 4);
    EXPECT_TRUE(credits.repost(type, refused));
    return credits.owed();
  };
  EXPECT_EQ(owed(M::kImmediate), 1u);
  EXPECT_EQ(owed(M::kGetReq), 1u);
  EXPECT_EQ(owed(M::kPutDone), 1u);
  EXPECT_EQ(owed(M::kPutReq, true), 1u);
  EXPECT_EQ(owed(M::kPutReq, false), 0u);
  for (const M type : {M::kPutAck, M::kPutNak, M::kGetDone, M::kNoop}) EXPECT_EQ(owed(type), 0u);
  Credits credits(3, 2);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(credits.repost(M::kImmediate));
  EXPECT_FALSE(credits.repost(M::kImmediate));  // the peer has sent more than it may
  EXPECT_TRUE(credits.repost(M::kPutReq, false));
}

// Goal: rule 5. A NOOP is due from the high water on, if no message leaves that carries the credits.
TEST(O2iblndCredits, noop_is_due_when_nothing_else_carries_credits) {
  Credits credits(8, 4);
  for (int i = 0; i < 3; ++i) (void)credits.repost(M::kImmediate);
  EXPECT_EQ(credits.next({}), NextSend::kNothing);
  (void)credits.repost(M::kImmediate);
  EXPECT_EQ(credits.next({}), NextSend::kNoop);
  EXPECT_EQ(credits.next({.credit_free = true}), NextSend::kCreditFree);
  EXPECT_EQ(credits.next({.credited = true, .first = M::kGetReq}), NextSend::kCredited);
  EXPECT_EQ(credits.next({.credit_free = true, .credited = true}), NextSend::kCreditFree);
  for (int i = 0; i < 8; ++i) (void)credits.send(M::kGetReq);
  for (int i = 0; i < 4; ++i) (void)credits.repost(M::kImmediate);
  // A message that waits for a credit or for room for a response carries nothing.
  EXPECT_EQ(credits.next({.credited = true, .first = M::kImmediate}), NextSend::kNoop);
  ASSERT_TRUE(credits.receive(M::kNoop, 8));
  EXPECT_EQ(credits.next({.credited = true, .first = M::kImmediate}), NextSend::kCredited);
  EXPECT_EQ(credits.next({.credited = true, .first = M::kPutReq}), NextSend::kNoop);
}

TEST(O2iblndCredits, two_noops_in_the_transport) {
  Credits credits(8, 4);
  const auto owe = [&] {
    for (int i = 0; i < 4; ++i) (void)credits.repost(M::kImmediate);
  };
  owe();
  EXPECT_EQ(credits.send(M::kNoop), 4);
  owe();
  EXPECT_EQ(credits.send(M::kNoop), 4);
  owe();
  EXPECT_FALSE(credits.may_send(M::kNoop));
  EXPECT_EQ(credits.next({}), NextSend::kNothing);
  credits.noop_completed();
  EXPECT_EQ(credits.next({}), NextSend::kNoop);
}

// Goal: whatever the peer has processed, at most two NOOPs wait there, one of which may be a keepalive.
// Method: the peer sends all its credits and processes nothing; count the NOOPs that answer. Each depth and high water.
TEST(O2iblndCredits, at_most_two_noops_are_unprocessed) {
  for (unsigned depth = kDepthLeast; depth <= kDepthMax; ++depth)
    for (unsigned high_water = depth / 3 + 1; high_water < depth; ++high_water)
      for (unsigned owed_before = 0; owed_before <= high_water; ++owed_before) {
        Credits credits(depth, high_water);
        unsigned noops = 0;
        const auto send_noop = [&] {
          (void)credits.send(M::kNoop);
          credits.noop_completed();
          ++noops;
        };
        for (unsigned i = 0; i < depth; ++i) {
          if (i == owed_before && owed_before < high_water) send_noop();  // a keepalive
          (void)credits.repost(M::kImmediate);
          if (credits.noop_due()) send_noop();
        }
        ASSERT_LE(noops, kNoopsMax) << depth << " " << high_water << " " << owed_before;
      }
}

// Goal: with one message held, the others still reach the high water: the peer gets credits back.
TEST(O2iblndCredits, high_water_is_below_the_depth) {
  for (unsigned depth = kDepthLeast; depth <= kDepthMax; ++depth)
    for (unsigned high_water = 1; high_water < depth; ++high_water) {
      Credits credits(depth, high_water);
      (void)credits.send(M::kNoop);  // a keepalive
      for (unsigned i = 0; i < depth - 1; ++i) (void)credits.repost(M::kImmediate);
      ASSERT_TRUE(credits.noop_due());
    }
}

// Goal: §5 rule 5: half by default, clamped, scaled to the depth of the connection; always more than a third of it.
TEST(O2iblndCredits, high_water) {
  EXPECT_EQ(high_water_of(8, 8, 0), 4u);
  EXPECT_EQ(high_water_of(8, 8, 2), 4u);
  EXPECT_EQ(high_water_of(8, 8, 6), 6u);
  EXPECT_EQ(high_water_of(8, 8, 100), 7u);
  EXPECT_EQ(high_water_of(8, 32, 0), 4u);
  EXPECT_EQ(high_water_of(8, 32, 24), 6u);
  EXPECT_EQ(high_water_of(32, 32, 24), 24u);
  EXPECT_EQ(high_water_of(255, 255, 0), 127u);
  EXPECT_EQ(high_water_of(3, 255, 0), 2u);
  for (unsigned peer_credits = kDepthMin; peer_credits <= kDepthMax; ++peer_credits)
    for (unsigned depth = kDepthLeast; depth <= peer_credits; ++depth)
      for (unsigned hiw = 0; hiw <= peer_credits; ++hiw) {
        const unsigned high_water = high_water_of(depth, peer_credits, hiw);
        ASSERT_GT(3 * high_water, depth);
        ASSERT_LT(high_water, depth);
        // From the least depth of upstream on, it is the documented value.
        const unsigned whole = hiw == 0 ? peer_credits / 2 : std::clamp(hiw, peer_credits / 2, peer_credits - 1);
        ASSERT_TRUE(depth < kDepthMin || high_water == depth * whole / peer_credits);
      }
}

}  // namespace
}  // namespace ulnet::o2iblnd
