// An exhaustive search (search.h) of the discovery protocol between two and three nodes. Messages are lost and
// reordered, nodes restart, NIDs come, go and move. There must be no deadlock and no live-lock, and all sides must
// converge. Each fault that a test plants into the protocol must be found. ULNET_FULL=1 searches larger spaces.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/model/discovery_model.h"
#include "tests/model/search.h"

namespace ulnet::model {
namespace {

constexpr size_t kStatesMax = 100'000'000;

/// Sanitizers take ten times as long.
constexpr bool small() {
#ifdef ULNET_SANITIZED
  return true;
#else
  return false;
#endif
}
unsigned larger(unsigned usually, unsigned full) {
  return !small() && std::getenv("ULNET_FULL") != nullptr ? full : usually;
}
/// How many there may be, of each kind.
struct Faults {
  unsigned losses = 0, restarts = 0, changes = 0;
};
ModelOptions with(std::vector<ModelNode> nodes, Faults faults) {
  return {.nodes = std::move(nodes), .losses = faults.losses, .restarts = faults.restarts, .changes = faults.changes};
}
/// Two nodes of one NID, one of which may get another.
ModelOptions two_nodes(Faults faults) {
  return with({{.nids = {1}}, {.nids = {3}, .extra = 4}}, faults);
}
/// Two nodes of two NIDs.
ModelOptions two_rails(Faults faults) {
  return with({{.nids = {1, 2}}, {.nids = {3, 4}}}, faults);
}
/// A node and two others, as a server with its clients: each sends to it, and it to both. The two may have one more
/// NID, the same, one after the other.
ModelOptions three_nodes(Faults faults) {
  return with({{.nids = {1}}, {.nids = {2}, .extra = 4, .with = {0}}, {.nids = {3}, .extra = 4, .with = {0}}}, faults);
}
/// The same, but the two only answer.
ModelOptions one_sends_to_two(Faults faults) {
  return with({{.nids = {1}}, {.nids = {2}, .extra = 4, .with = {1}}, {.nids = {3}, .extra = 4, .with = {2}}}, faults);
}

void expect_converges(const ModelOptions& options) {
  Model model(options);
  const SearchResult result = search(model, kStatesMax);
  EXPECT_EQ(result.wrong, "") << result.story();
  EXPECT_TRUE(result.complete) << result.states << " states, and more";
  EXPECT_GT(result.converged, 0u);
  std::printf("%zu states (%zu of single nodes), %zu steps, %zu final\n", result.states, model.node_states(),
              result.steps, result.converged);
}

TEST(Model, two_nodes_under_reordering) {
  expect_converges(two_nodes({}));
}
TEST(Model, two_nodes_under_loss) {
  expect_converges(two_nodes({.losses = larger(2, 3)}));
}
TEST(Model, two_nodes_that_restart) {
  expect_converges(two_nodes({.losses = 1, .restarts = larger(1, 2)}));
}
TEST(Model, two_nodes_while_a_nid_comes) {
  expect_converges(two_nodes({.losses = 1, .restarts = small() ? 0u : 1u, .changes = 1}));
}
TEST(Model, two_nodes_while_a_nid_comes_and_goes) {
  expect_converges(two_nodes({.losses = small() ? 0u : 1u, .restarts = larger(0, 1), .changes = 2}));
}
TEST(Model, two_nodes_of_two_rails) {
  expect_converges(two_rails({.losses = larger(1, 2), .restarts = small() ? 0u : 1u}));
}
TEST(Model, three_nodes_under_loss) {
  expect_converges(three_nodes({.losses = larger(1, 2)}));
}
TEST(Model, three_nodes_of_which_one_restarts) {
  expect_converges(three_nodes({.losses = larger(0, 1), .restarts = 1}));
}
TEST(Model, three_nodes_while_a_nid_comes) {
  if (small()) GTEST_SKIP() << "not under sanitizers";
  expect_converges(three_nodes({.losses = larger(0, 1), .changes = 1}));
}
TEST(Model, one_sends_to_two_while_a_nid_moves) {
  expect_converges(one_sends_to_two({.changes = 2}));
}

/// A fault, and a space in which it shows.
struct Planted {
  Mutant mutant;
  ModelOptions space;
};

// Goal: each planted fault is found, where nothing is found without it.
TEST(Model, planted_faults_are_found) {
  constexpr size_t kLook = 100000;
  const Planted all[] = {
      {Mutant::kLostPingIsNotNoticed, two_nodes({.losses = 2})},
      {Mutant::kLostPushIsNotNoticed, two_nodes({.losses = 1})},
      {Mutant::kOldPushIsIgnored, two_nodes({.restarts = 1, .changes = 1})},
      {Mutant::kCrossedReplyIsBelieved, one_sends_to_two({.changes = 2})},
      {Mutant::kFailedPushCounts, one_sends_to_two({.changes = 2})},
      {Mutant::kSequenceStays, one_sends_to_two({.changes = 2})},
      {Mutant::kExactPingGoesAnywhere, two_nodes({.losses = 1, .changes = 2})},
      {Mutant::kAckIsOfTheNewestList, two_nodes({.changes = 2})},
      {Mutant::kEarlyAnswerIsSure, two_nodes({.losses = 1, .changes = 2})},
  };
  static_assert(std::size(all) == size_t(Mutant::kCount) - 1);
  for (const Planted& planted : all) {
    Model right(planted.space);
    SearchResult result = search(right, kLook);
    EXPECT_EQ(result.wrong, "") << "without " << name_of(planted.mutant) << ": " << result.story();
    ModelOptions space = planted.space;
    space.mutant = planted.mutant;
    Model wrong(space);
    result = search(wrong, kLook);
    EXPECT_NE(result.wrong, "") << name_of(planted.mutant) << ": not found in " << result.states << " states";
    std::printf("%s: %s, after %zu states\n", name_of(planted.mutant), result.wrong.c_str(), result.states);
  }
}

}  // namespace
}  // namespace ulnet::model
