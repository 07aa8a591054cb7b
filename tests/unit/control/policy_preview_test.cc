// Previews of selection policies: the contents of a dry run, and the bounds of previews.
#include "control/policy/policies.h"
#include "tests/unit/control/policy_node.h"

namespace ulnet::test {
namespace {

using Part = PolicyPreviews::Part;
using Next = PolicyPreviews::Next;

struct Previews : testing::Test {
  NodeRig rig;
  RigNode& node = rig.add({"10.0.0.1@tcp", "10.0.0.2@tcp"});
  Control& c = node.node->control();
  std::vector<PolicyChange> changes;
  std::vector<size_t> parts;
  bool ended = false;

  void add_peer(const std::string& peer, bool multi_rail) {
    config::PeerAdd add;
    add.peer.primary = nid(peer);
    add.peer.nids = {nid(peer)};
    add.peer.multi_rail = multi_rail;
    ASSERT_EQ(rig.apply(node, add), "");
  }
  Next take(const Part& part) {
    changes.insert(changes.end(), part.changes.begin(), part.changes.end());
    parts.push_back(part.changes.size());
    ended |= part.last();
    return Next::kGoOn;
  }
  void run(const std::vector<UdspRule>& then) {
    ASSERT_NE(c.policies->preview(then, [this](const Part& part) { return take(part); }), 0u);
    ASSERT_TRUE(rig.run_until([&] { return ended; }));
  }
};

TEST_F(Previews, show_ranks_of_lists_and_the_source_of_a_plain_peer) {
  add_peer("10.0.0.11@tcp", true);
  add_peer("10.0.0.31@tcp", false);
  const Nid before = c.peers->find(nid("10.0.0.31@tcp"))->source;
  const Nid other = before == nid("10.0.0.1@tcp") ? nid("10.0.0.2@tcp") : nid("10.0.0.1@tcp");
  run({{.src = nid_text(other), .priority = 0},
       {.src = "10.0.0.[1-2]@tcp", .dst = "10.0.0.11@tcp", .priority = 4},
       {.src = "10.0.0.1@tcp", .dst = "10.0.0.99@tcp"}});
  ASSERT_EQ(changes.size(), 3u);
  EXPECT_EQ(changes[0].nid, other);
  EXPECT_EQ(changes[1].nid, nid("10.0.0.11@tcp"));
  EXPECT_TRUE(changes[1].before.sources.empty());
  const std::vector<PreferredNid> both = {{nid("10.0.0.1@tcp"), {4, 1}}, {nid("10.0.0.2@tcp"), {4, 1}}};
  EXPECT_EQ(changes[1].after.sources, both);
  EXPECT_EQ(changes[2].nid, nid("10.0.0.31@tcp"));
  EXPECT_EQ(changes[2].before.source, before);
  EXPECT_EQ(changes[2].after.source, other);
  EXPECT_EQ(c.peers->find(nid("10.0.0.31@tcp"))->policy.source, before) << "nothing has changed";
}

TEST_F(Previews, name_rules_without_effect_at_the_end) {
  std::vector<std::string> notes;
  const config::ChangeList added = {{config::UdspAdd{{.src = "tcp9"}}, {}}};
  ASSERT_NE(c.policies->preview(std::vector<UdspRule>{{.src = "tcp9"}},
                                [&](const Part& part) {
                                  if (part.then != nullptr) notes = idle_rules(added, *part.then);
                                  return take(part);
                                }),
            0u);
  ASSERT_TRUE(rig.run_until([&] { return ended; }));
  EXPECT_EQ(notes, std::vector<std::string>{"no effect yet: no NI of this node matches src tcp9; the rule will hold "
                                            "for objects that are added later"});
}

// Goal: parts have a bound, also if one peer has all the changes; the work of a turn has the budget of a walk.
TEST_F(Previews, come_in_parts) {
  config::PeerAdd add;
  add.peer.primary = nid("10.9.0.1@tcp");
  add.peer.multi_rail = true;
  for (unsigned i = 0; i < 2000; ++i)
    add.peer.nids.push_back(nid("10.9." + std::to_string(i / 250) + "." + std::to_string(1 + i % 250) + "@tcp"));
  ASSERT_EQ(rig.apply(node, add), "");
  run({{.dst = "10.9.*.*@tcp", .priority = 1}});
  EXPECT_EQ(changes.size(), 2000u);
  EXPECT_GE(parts.size(), 2000 / kPreviewPart);
  EXPECT_LE(*std::max_element(parts.begin(), parts.end()), kPreviewPart);
}

TEST_F(Previews, have_a_bound_and_make_room_when_one_ends) {
  std::vector<uint64_t> numbers;
  const auto pause = [](const Part&) { return Next::kPause; };
  const std::vector<UdspRule> then = {{.src = "tcp", .priority = 0}};
  for (size_t i = 0; i < kPreviewsMax; ++i) numbers.push_back(c.policies->preview(then, pause));
  EXPECT_NE(numbers.back(), 0u);
  EXPECT_EQ(c.policies->preview(then, pause), 0u) << "none is paused yet";
  c.policies->preview_end(numbers.front());
  run(then);
  EXPECT_EQ(changes.size(), 1u);
}

// Goal: clients that do not read their answers do not keep others from a dry run.
TEST_F(Previews, that_are_paused_give_way) {
  config::ChangeList peers;
  for (unsigned i = 0; i < 600; ++i)
    peers.push_back({peer_add({"10.9." + std::to_string(i / 250) + "." + std::to_string(1 + i % 250) + "@tcp"}), {}});
  ASSERT_EQ(rig.apply(node, std::move(peers)), "");
  const std::vector<UdspRule> then = {{.dst = "10.9.*.*@tcp", .priority = 0}};
  std::map<size_t, int32_t> errors;
  size_t paused = 0;
  for (size_t i = 0; i < kPreviewsMax; ++i) {
    const auto pause = [&, i](const Part& part) {
      if (part.error != 0) errors[i] = part.error;
      paused += part.error == 0;
      return Next::kPause;
    };
    ASSERT_NE(c.policies->preview(then, pause), 0u);
  }
  ASSERT_TRUE(rig.run_until([&] { return paused == kPreviewsMax; }));
  run(then);
  EXPECT_EQ(changes.size(), 600u);
  EXPECT_EQ(errors, (std::map<size_t, int32_t>{{0, -EAGAIN}})) << "the oldest";
}

// Goal: a peer whose NIDs change between two turns is shown whole.
TEST_F(Previews, go_on_with_the_nids_that_are_left) {
  config::PeerAdd large = peer_add({"10.9.0.1@tcp"});
  for (unsigned i = 0; i < 900; ++i)
    large.peer.nids.push_back(nid("10.9." + std::to_string(1 + i / 250) + "." + std::to_string(1 + i % 250) + "@tcp"));
  ASSERT_EQ(rig.apply(node, large), "");
  const std::vector<UdspRule> then = {{.dst = "10.9.*.*@tcp", .priority = 0}};
  std::set<std::string> shown;
  bool removed = false;
  const auto sink = [&](const Part& part) {
    for (const PolicyChange& one : part.changes) EXPECT_TRUE(shown.insert(nid_text(one.nid)).second);
    ended |= part.last();
    return Next::kGoOn;
  };
  ASSERT_NE(c.policies->preview(then, sink), 0u);
  ASSERT_TRUE(rig.run_until([&] {
    if (!shown.empty() && !removed) {
      removed = true;
      for (const char* gone : {"10.9.1.1@tcp", "10.9.1.2@tcp"}) {
        EXPECT_TRUE(shown.contains(gone));
        c.peers->lose_nid(*c.peers->find(nid(gone)));
      }
      c.peers->set_primary(*c.peers->find(nid("10.9.0.1@tcp"))->peer, nid("10.9.4.1@tcp"));
    }
    return ended;
  }));
  EXPECT_TRUE(removed);
  EXPECT_EQ(shown.size(), 901u) << "none is left out, although the places of the NIDs have changed";
}

TEST_F(Previews, end_when_nobody_takes_the_answer) {
  config::ChangeList peers;
  for (unsigned i = 0; i < 600; ++i) {
    config::PeerAdd add;
    add.peer.primary = nid("10.9." + std::to_string(i / 250) + "." + std::to_string(1 + i % 250) + "@tcp");
    peers.push_back({add, {}});
  }
  ASSERT_EQ(rig.apply(node, std::move(peers)), "");
  unsigned calls = 0;
  ASSERT_NE(c.policies->preview(std::vector<UdspRule>{{.dst = "10.9.*.*@tcp", .priority = 1}},
                                [&](const Part&) { return ++calls, Next::kEnd; }),
            0u);
  rig.run_for(100ms);
  EXPECT_EQ(calls, 1u);
}

// Goal: without memory the preview fails, and nothing else does.
TEST_F(Previews, fail_without_memory) {
  bool failed = false;
  ASSERT_NE(c.policies->preview(std::vector<UdspRule>{{.src = "tcp", .priority = 0}},
                                [&](const Part& part) {
                                  if (part.error == 0) throw std::bad_alloc();
                                  failed = ended = part.last();
                                  return Next::kGoOn;
                                }),
            0u);
  ASSERT_TRUE(rig.run_until([&] { return ended; }));
  EXPECT_TRUE(failed);
  EXPECT_EQ(rig.apply(node, NodeRig::net_add("10.0.0.3@tcp")), "");
}

}  // namespace
}  // namespace ulnet::test
