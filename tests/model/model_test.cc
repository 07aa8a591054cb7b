// The protocol of discovery between two and three nodes, searched exhaustively (search.h) under loss, reordering, nodes
// that begin anew and NIDs that come, go and move: no deadlock, no live-lock, all sides converge. And each fault that
// is planted into the protocol is found. ULNET_FULL=1 searches larger spaces.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/model/search.h"

namespace ulnet::model {
namespace {

constexpr size_t kStatesMax = 4'000'000;

bool full() {
  return std::getenv("ULNET_FULL") != nullptr;
}
/// Two nodes of one NID, one of which may get another.
ModelOptions two_nodes(unsigned losses, unsigned restarts, unsigned changes) {
  return {
      .nodes = {{.nids = {1}}, {.nids = {3}, .extra = 4}}, .losses = losses, .restarts = restarts, .changes = changes};
}
/// Two nodes of two NIDs.
ModelOptions two_rails(unsigned losses, unsigned restarts) {
  return {.nodes = {{.nids = {1, 2}}, {.nids = {3, 4}}}, .losses = losses, .restarts = restarts};
}
/// A node that talks to two others, and a NID that goes from the one to the other.
ModelOptions three_nodes(unsigned losses, unsigned changes) {
  return {.nodes = {{.nids = {1}}, {.nids = {2}, .extra = 4, .with = {1}}, {.nids = {3}, .extra = 4, .with = {2}}},
          .losses = losses,
          .changes = changes};
}

std::string story(const SearchResult& result) {
  std::string text = result.wrong + ", by\n";
  for (const std::string& line : result.trace) text += "  " + line + "\n";
  return text;
}
void expect_converges(const ModelOptions& options) {
  const SearchResult result = search(options, kStatesMax);
  EXPECT_EQ(result.wrong, "") << story(result);
  EXPECT_TRUE(result.complete) << result.states << " states, and more";
  EXPECT_GT(result.converged, 0u);
  std::printf("%zu states, %zu of them final\n", result.states, result.converged);
}

TEST(Model, two_nodes_under_reordering) {
  expect_converges(two_nodes(0, 0, 0));
}
TEST(Model, two_nodes_under_loss) {
  expect_converges(two_nodes(full() ? 3 : 2, 0, 0));
}
TEST(Model, two_nodes_of_which_one_begins_anew) {
  expect_converges(two_nodes(1, 1, 0));
}
TEST(Model, two_nodes_while_a_nid_comes) {
  expect_converges(two_nodes(full() ? 1 : 0, 0, 1));
}
TEST(Model, two_nodes_while_a_nid_comes_and_nodes_begin_anew) {
  if (!full()) GTEST_SKIP() << "with ULNET_FULL=1";
  expect_converges(two_nodes(0, 1, 1));
}
TEST(Model, two_nodes_of_two_rails) {
  expect_converges(two_rails(full() ? 1 : 0, 0));
}
TEST(Model, three_nodes_while_a_nid_comes) {
  expect_converges(three_nodes(0, 1));
}
TEST(Model, three_nodes_while_a_nid_moves) {
  if (!full()) GTEST_SKIP() << "with ULNET_FULL=1";
  expect_converges(three_nodes(0, 2));
}

/// A fault, and a space in which it shows.
struct Planted {
  Mutant mutant;
  ModelOptions space;
};

// Goal: each planted fault is found, where nothing is found without it.
TEST(Model, planted_faults_are_found) {
  constexpr size_t kLook = 5000;
  const Planted all[] = {
      {Mutant::kLostPingIsNotNoticed, two_nodes(2, 0, 0)}, {Mutant::kLostPushIsNotNoticed, two_nodes(1, 0, 0)},
      {Mutant::kOldPushIsIgnored, two_nodes(0, 1, 1)},     {Mutant::kCrossedReplyIsBelieved, three_nodes(0, 2)},
      {Mutant::kFailedPushCounts, three_nodes(0, 2)},      {Mutant::kSequenceStays, three_nodes(0, 2)},
  };
  static_assert(std::size(all) == size_t(Mutant::kCount) - 1);
  for (const Planted& planted : all) {
    SearchResult result = search(planted.space, kLook);
    EXPECT_EQ(result.wrong, "") << "without " << name_of(planted.mutant) << ": " << story(result);
    ModelOptions space = planted.space;
    space.mutant = planted.mutant;
    result = search(space, kLook);
    EXPECT_NE(result.wrong, "") << name_of(planted.mutant) << ": not found";
    std::printf("%s: %s, after %zu states\n", name_of(planted.mutant), result.wrong.c_str(), result.states);
  }
}

}  // namespace
}  // namespace ulnet::model
