// An allocation fails while a peer is made: the tables of peers are as before, and the peer is made when memory is
// back. This is a program of its own, because it replaces the allocation functions.
#include <cstdlib>
#include <new>

#include "tests/unit/control/node_rig.h"

namespace {
uint64_t plenty = UINT64_MAX;  ///< this number of further allocations succeeds
bool fail_once = false;        ///< after the first that fails, all succeed, as with a reserve

void take_one() {
  if (plenty == UINT64_MAX || plenty-- > 0) return;
  plenty = fail_once ? UINT64_MAX : 0;
  throw std::bad_alloc();
}
}  // namespace

[[gnu::noinline]] void* operator new(size_t bytes) {  // sanitizers have their own
  take_one();
  if (void* block = std::malloc(bytes)) return block;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(bytes);
}
[[gnu::noinline]] void operator delete(void* block, const std::nothrow_t&) noexcept {
  std::free(block);
}
[[gnu::noinline]] void* operator new(size_t bytes, std::align_val_t align) {
  take_one();
  if (void* block = std::aligned_alloc(size_t(align), (bytes + size_t(align) - 1) / size_t(align) * size_t(align)))
    return block;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* block) noexcept {
  std::free(block);
}
[[gnu::noinline]] void operator delete(void* block, size_t) noexcept {
  std::free(block);
}
[[gnu::noinline]] void operator delete(void* block, std::align_val_t) noexcept {
  std::free(block);
}
[[gnu::noinline]] void operator delete(void* block, size_t, std::align_val_t) noexcept {
  std::free(block);
}

namespace ulnet::test {
namespace {

/// Places peers until no allocation fails: the first fails, then the second, and so on. Returns how often one failed.
unsigned place_until_it_works(PeerDb& peers, const Nid& peer, const Nid& via) {
  for (unsigned failed = 0;; ++failed) {
    plenty = failed;
    try {
      const Result<PeerNi*> placed = peers.place(peer, via);
      plenty = UINT64_MAX;
      EXPECT_TRUE(placed.has_value());
      return failed;
    } catch (const std::bad_alloc&) {
      plenty = UINT64_MAX;
    }
    EXPECT_EQ(peers.find(peer), nullptr) << failed;
    for (const auto& [id, one] : peers.peers()) {
      EXPECT_NE(one, nullptr) << failed;
      EXPECT_TRUE(one == nullptr || one->ni_count() > 0) << failed;
    }
  }
}

TEST(NoMemory, a_peer_is_made_whole_or_not_at_all) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"}, 2);
  rig.add({"10.0.0.2@tcp"});
  PeerDb& peers = *a.node->control().peers;
  EXPECT_GT(place_until_it_works(peers, nid("10.0.0.2@tcp"), nid("10.0.0.1@tcp")), 4u);
  EXPECT_GT(place_until_it_works(peers, nid("10.0.0.3@tcp"), nid("10.0.0.1@tcp")), 4u);
  rig.run_for(1s);
  EXPECT_EQ(NodeRig::text(rig.ping(a, "10.0.0.2@tcp")), "10.0.0.2@tcp");
  EXPECT_EQ(peers.allocated(), 2u);
  rig.stop_all();
}

// Goal: a rule is in force and evaluated if its change was answered as done. If memory was short, the change is
// refused, and nothing of it is in force.
TEST(NoMemory, a_rule_is_in_force_or_refused) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp", "10.0.0.2@tcp"});
  Control& c = a.node->control();
  ASSERT_TRUE(c.peers->find_or_create(nid("10.0.0.9@tcp"), kAnyNid));
  rig.run_for(10ms);
  fail_once = true;
  unsigned refused = 0;
  for (unsigned failed = 0;; ++failed) {
    std::string answer = "none";
    a.node->apply({{config::UdspAdd{{.src = "10.0.0.2@tcp", .dst = "10.0.0.9@tcp"}}, {}}},
                  [&](const config::Problems& errors) { answer = errors.empty() ? "done" : "refused"; });
    plenty = failed;
    (void)a.node->applier().turn(rig.now);
    const bool all = plenty != UINT64_MAX;
    plenty = UINT64_MAX;
    ASSERT_TRUE(rig.run_until([&] { return answer != "none"; })) << failed;
    const bool there = c.peers->find(nid("10.0.0.9@tcp"))->policy.sources.list != nullptr;
    EXPECT_EQ(there, answer == "done") << failed;
    EXPECT_EQ(c.desired.udsp.size(), answer == "done" ? 1u : 0u) << failed;
    EXPECT_EQ(c.policies->rules().rules, c.desired.udsp) << failed;
    refused += answer == "refused";
    if (all) break;
    EXPECT_EQ(rig.apply(a, config::UdspDel{.all = true}), "");
  }
  EXPECT_GT(refused, 10u);
  fail_once = false;
  rig.stop_all();
}

// Goal: an evaluation that had no memory is repeated.
TEST(NoMemory, peers_get_their_lists_when_memory_is_back) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp", "10.0.0.2@tcp"});
  Control& c = a.node->control();
  ASSERT_TRUE(c.peers->find_or_create(nid("10.0.0.9@tcp"), kAnyNid));
  rig.run_for(10ms);
  const PolicyTables tables{*c.nis, *c.peers, *c.routes};
  const std::vector<config::UdspRule> some = {{.src = "10.0.0.2@tcp", .dst = "10.0.0.9@tcp"}};
  for (unsigned failed = 0;; ++failed) {
    PolicyRules ready(some), none;
    plenty = 0;
    c.policies->set_rules(std::move(ready));
    plenty = failed;
    c.policies->follow(true, tables);
    (void)c.policies->turn(*c.peers);
    const bool all = plenty > 0;
    plenty = UINT64_MAX;
    const bool evaluated = c.peers->find(nid("10.0.0.9@tcp"))->policy.sources.list != nullptr;
    EXPECT_TRUE(evaluated || !c.policies->settled()) << failed;
    rig.run_for(10ms);
    EXPECT_TRUE(c.policies->settled()) << failed;
    EXPECT_NE(c.peers->find(nid("10.0.0.9@tcp"))->policy.sources.list, nullptr) << failed;
    if (all) break;
    c.policies->set_rules(std::move(none));
    rig.run_for(10ms);
    EXPECT_EQ(c.peers->find(nid("10.0.0.9@tcp"))->policy.sources.list, nullptr) << failed;
  }
  rig.stop_all();
}

// Goal: an entry of the table that workers read has its peer's memory, or there is no entry.
TEST(NoMemory, a_table_of_peers_has_all_of_an_entry_or_nothing) {
  PeerTableBuilder table;
  std::vector<Nid> nids;
  for (int i = 1; i <= 2000; ++i)
    nids.push_back(nid("10.0." + std::to_string(i / 250) + "." + std::to_string(i % 250 + 1) + "@tcp"));
  for (const Nid& one : nids) {
    auto view = std::make_shared<PeerView>();
    view->nis.resize(1);
    for (unsigned failed = 0;; ++failed) {
      plenty = failed;
      try {
        table.set(one, view, 0);
        plenty = UINT64_MAX;
        break;
      } catch (const std::bad_alloc&) {
        plenty = UINT64_MAX;
      }
      ASSERT_FALSE(table.snapshot()->find(one)) << failed;
    }
  }
  EXPECT_EQ(table.size(), nids.size());
  for (const Nid& one : nids) {
    ASSERT_TRUE(table.snapshot()->find(one));
    table.erase(one);
    ASSERT_FALSE(table.snapshot()->find(one));
  }
  EXPECT_EQ(table.size(), 0u);
}

}  // namespace
}  // namespace ulnet::test
