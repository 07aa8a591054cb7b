// An exhaustive search (search.h) of the credits of an o2iblnd connection, for small depths. No order of events may
// lead to a deadlock, to more messages than receive buffers, or to credits that are lost or made up. Each fault that a
// test plants into the protocol must be found. ULNET_FULL=1 searches larger spaces.
#include "tests/model/o2iblnd_model.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/model/search.h"

namespace ulnet::model {
namespace {

constexpr size_t kStatesMax = 100'000'000;

CreditOptions space(unsigned depth, unsigned high_water, const CreditSide& one, const CreditSide& other) {
  return {.depth = depth, .high_water = high_water, .sides = {one, other}};
}
/// Both sides may do the same.
CreditOptions space(unsigned depth, unsigned high_water, const CreditSide& each) {
  return space(depth, high_water, each, each);
}

/// `buffers`: the most that any order of events uses.
void expect_right(const CreditOptions& options, unsigned buffers) {
  CreditModel model(options);
  const SearchResult result = search(model, kStatesMax);
  EXPECT_EQ(result.wrong, "") << result.story();
  EXPECT_TRUE(result.complete) << result.states << " states, and more";
  EXPECT_GT(result.converged, 0u);
  EXPECT_EQ(model.buffers_used(), buffers);
  std::printf("%zu states, %zu steps, %zu final\n", result.states, result.steps, result.converged);
}
std::string wrong_with(const CreditOptions& options, size_t states_max = kStatesMax) {
  CreditModel model(options);
  return search(model, states_max).wrong;
}

// Goal: with all kinds of operations, requests that are held, and GETs that are answered late.
TEST(O2iblndModel, all_operations) {
  expect_right(space(2, 1, {2, "ipg", 1, 0, true, true}), 6);
  expect_right(space(3, 2, {3, "ipg"}, {1, "ipg"}), 4);
}
TEST(O2iblndModel, all_operations_at_length) {
  if (std::getenv("ULNET_FULL") == nullptr) GTEST_SKIP() << "ULNET_FULL=1 runs it";
  expect_right(space(2, 1, {3, "ipg", 1, 0, false, true}), 6);
  expect_right(space(3, 2, {4, "p"}), 6);
  expect_right(space(3, 2, {4, "g", 0, 0, true, true}), 7);
  expect_right(space(4, 2, {4, "g"}, {4, "i", 0, 1, false, true}), 10);
  expect_right(space(4, 2, {5, "p"}, {2, "pi"}), 6);
}

// Goal: 2·Q + 2 buffers are enough, and needed: Q requests of one side, Q late responses to the other, two NOOPs.
TEST(O2iblndModel, buffers) {
  expect_right(space(2, 1, {2, "g"}, {2, "i", 0, 0, false, true}), 6);
  expect_right(space(4, 2, {4, "g"}, {4, "i", 0, 0, false, true}), 10);
  expect_right(space(3, 2, {3, "g"}, {3, "i", 0, 1, false, true}), 8);
}

// Goal: more requests than the depth, so that credits and reservations run out on both sides.
TEST(O2iblndModel, credits_run_out) {
  expect_right(space(2, 1, {3, "p", 1}), 5);
  expect_right(space(3, 2, {4, "i", 1}), 4);
  expect_right(space(3, 2, {6, "g"}, {3, "i", 0, 0, false, true}), 7);
  expect_right(space(4, 2, {6, "i", 1}), 6);
  expect_right(space(4, 2, {5, "g"}), 8);
  expect_right(space(4, 2, {5, "p"}, {1, "g"}), 5);
}

// Goal: while the core of a side holds requests without end, all other work ends: as many as depth less high water.
TEST(O2iblndModel, held_requests_stop_nothing_else) {
  for (auto [depth, high_water, holds, buffers] : {std::tuple(2u, 1u, 1u, 4u), std::tuple(3u, 2u, 1u, 4u),
                                                   std::tuple(4u, 3u, 1u, 5u), std::tuple(4u, 2u, 2u, 6u)}) {
    CreditOptions options = space(depth, high_water, {depth + 2, "i", holds});
    options.held_forever = true;
    expect_right(options, buffers);
  }
}

TEST(O2iblndModel, keepalives) {
  expect_right(space(3, 2, {4, "i", 0, 1}), 5);
  expect_right(space(4, 2, {4, "i", 0, 1}), 6);
  expect_right(space(4, 3, {4, "i", 1, 1}), 6);
}

// Goal: the connection breaks in any state; the next one begins with all credits.
TEST(O2iblndModel, breaks) {
  for (CreditOptions options : {space(2, 1, {2, "ipg", 1}), space(3, 2, {4, "i", 0, 0})}) {
    options.breaks = 1;
    expect_right(options, 4);
  }
}

// Goal: the bounds of credits.h are the right ones. With a third of the depth as high water, three NOOPs may wait. At
// depth 2 there is no high water that leaves room for a keepalive.
TEST(O2iblndModel, lower_bounds_are_needed) {
  EXPECT_EQ(wrong_with(space(3, 1, {3, "g"}, {3, "i", 0, 0, false, true})), "9 messages for 8 buffers of side 0");
  EXPECT_EQ(wrong_with(space(2, 1, {2, "g"}, {2, "i", 0, 1, false, true})), "7 messages for 6 buffers of side 0");
}

/// A fault, a space in which it shows, and what is found.
struct Planted {
  CreditMutant mutant;
  CreditOptions space;
  const char* found;
};

// Goal: each planted fault is found, where nothing is found without it.
TEST(O2iblndModel, planted_faults_are_found) {
  constexpr size_t kLook = 100000;
  CreditOptions held = space(2, 1, {4, "i", 1}), broken = space(2, 1, {3, "i"});
  held.held_forever = true;
  broken.breaks = 1;
  const CreditSide early_keepalives{3, "i", 0, 2, false, true};
  using M = CreditMutant;
  const Planted all[] = {
      {M::kPutAckReturnsCredit, space(2, 1, {2, "g"}, {4, "ip", 0, 0, true}), "7 messages for 6 buffers"},
      {M::kNakReturnsNoCredit, space(2, 1, {3, "p"}), "deadlock"},
      {M::kPutDoneReturnsNoCredit, space(2, 1, {3, "p"}), "deadlock"},
      {M::kReservedStays, space(2, 1, {3, "g"}), "deadlock"},
      {M::kNothingIsReserved, space(2, 1, {4, "g"}, {2, "i", 0, 0, false, true}), "7 messages for 6 buffers"},
      {M::kOwedStays, space(2, 1, {3, "i"}), ""},
      {M::kHighWaterIsDepth, held, "deadlock"},
      {M::kWaitingHeadCarries, space(2, 1, {4, "i"}), "deadlock"},
      {M::kOneQueue, space(2, 1, {3, "p"}), "deadlock"},
      {M::kKeepaliveAnyTime, space(3, 2, {3, "g"}, early_keepalives), "9 messages for 8 buffers"},
      {M::kKeepaliveIsForgotten, space(4, 2, {4, "g"}, {4, "i", 0, 1, false, true}), "11 messages for 10 buffers"},
      {M::kRepostComesLast, space(2, 1, {3, "gp"}, {3, "gi"}), "7 messages for 6 buffers"},
      {M::kOneBufferLess, space(2, 1, {2, "g"}, {2, "i", 0, 0, false, true}), "6 messages for 5 buffers"},
      {M::kCreditsSurviveBreak, broken, "more credits come back than were used"},
  };
  static_assert(std::size(all) == size_t(CreditMutant::kCount) - 1);
  for (const Planted& planted : all) {
    EXPECT_EQ(wrong_with(planted.space, kLook), "") << "without " << name_of(planted.mutant);
    CreditOptions options = planted.space;
    options.mutant = planted.mutant;
    const std::string wrong = wrong_with(options, kLook);
    EXPECT_NE(wrong, "") << name_of(planted.mutant);
    EXPECT_EQ(wrong.find(planted.found), 0u) << name_of(planted.mutant) << ": " << wrong;
    std::printf("%s: %s\n", name_of(planted.mutant), wrong.c_str());
  }
}

}  // namespace
}  // namespace ulnet::model
