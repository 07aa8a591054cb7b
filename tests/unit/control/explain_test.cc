// The answer to `explain`, as ulnetctl prints it. The reasons come from the function that sends (tests/unit/select);
// here are the words, the rules that gave a priority, and that nothing changes.
#include "control/api/explain.h"

#include <algorithm>
#include <array>

#include "config/emit.h"
#include "control/publish/view_builder.h"
#include "tests/unit/control/node_rig.h"

namespace ulnet::test {
namespace {

struct Explain : testing::Test {
  NodeRig rig;
  std::array<RigNode*, 2> routers = {&rig.add({"10.0.0.91@tcp", "10.9.0.91@tcp9"}),
                                     &rig.add({"10.0.0.92@tcp", "10.9.0.92@tcp9"})};
  RigNode& node = rig.add({"10.0.0.1@tcp", "10.0.0.2@tcp", "10.1.0.1@o2ib"}, 2);
  Control& c = node.node->control();

  static config::PeerAdd peer_add(std::vector<std::string> nids, bool multi_rail = true) {
    config::PeerAdd add;
    add.peer.primary = nid(nids.front());
    for (const std::string& one : nids) add.peer.nids.push_back(nid(one));
    add.peer.multi_rail = multi_rail;
    return add;
  }
  void SetUp() override {
    for (RigNode* router : routers) rig.start_routing(*router);
    ASSERT_EQ(rig.apply(node, {{config::SetValue{"discovery", 0}, {}},
                               {peer_add({"10.0.0.11@tcp", "10.0.0.12@tcp", "10.1.0.11@o2ib"}), {}},
                               {peer_add({"10.0.0.21@tcp"}, false), {}},
                               {NodeRig::route_add("tcp9", "10.0.0.91@tcp"), {}},
                               {NodeRig::route_add("tcp9", "10.0.0.92@tcp"), {}},
                               {peer_add({"10.9.0.5@tcp9"}), {}}}),
              "");
    for (const auto& [id, peer] : c.peers->peers()) peer->up_to_date = true, c.peers->touch(*peer);
    ASSERT_TRUE(rig.run_until([&] {
      return std::all_of(c.routes->routes().begin(), c.routes->routes().end(),
                         [](const Route& one) { return one.alive; });
    }));
    rig.run_for(1ms);
  }
  void rules(std::vector<config::UdspRule> all) {
    config::ChangeList changes;
    for (config::UdspRule& rule : all) changes.push_back({config::UdspAdd{std::move(rule)}, {}});
    ASSERT_EQ(rig.apply(node, std::move(changes)), "");
  }
  /// All of `parts` are in `text`, in this order.
  template <class... Parts>
  static bool has(const std::string& text, const Parts&... parts) {
    size_t at = 0;
    const auto next = [&](const std::string& part) {
      const size_t found = text.find(part, at);
      at = found == std::string::npos ? found : found + part.size();
      return found != std::string::npos;
    };
    return (next(parts) && ...);
  }
  std::string explain(const std::string& to, ExplainRequest request = {}) {
    request.to = nid(to);
    return config::emit(explain_doc(c, request));
  }
};

constexpr const char* kWholeAnswer = R"(explain:
    - nid: 10.0.0.11@tcp
      worker: 0
      result: direct
      source: 10.0.0.2@tcp
      next hop: 10.0.0.12@tcp
      destination: 10.0.0.12@tcp
      served by worker: 1
      steps:
        - step: net
          chosen: tcp
          candidates:
            - net: tcp
              result: won
              by: local net priority
              value: 2
              against: o2ib
              its value: 9
              udsp:
                  local net:
                      priority: 2
                      idx: 1
            - net: o2ib
              result: lost
              by: local net priority
              value: 9
              against: tcp
              its value: 2
              udsp:
                  local net:
                      priority: 9
                      idx: 0
        - step: local NI
          chosen: 10.0.0.2@tcp
          candidates:
            - nid: 10.0.0.1@tcp
              result: lost
              by: priority
              value: -1
              against: 10.0.0.2@tcp
              its value: 0
            - nid: 10.0.0.2@tcp
              result: won
              by: priority
              value: 0
              against: 10.0.0.1@tcp
              its value: -1
              udsp:
                  nid:
                      priority: 0
                      idx: 2
                  preferred source:
                      rank: 0
                      idx: 3
        - step: peer NI
          chosen: 10.0.0.12@tcp
          candidates:
            - nid: 10.0.0.11@tcp
              result: lost
              by: preferred
              value: -1
              against: 10.0.0.12@tcp
              its value: 0
            - nid: 10.0.0.12@tcp
              result: won
              by: preferred
              value: 0
              against: 10.0.0.11@tcp
              its value: -1
              udsp:
                  preferred source:
                      rank: 0
                      idx: 3
)";

TEST_F(Explain, each_candidate_of_each_step_with_its_rule) {
  rules({{.src = "o2ib", .priority = 9},
         {.src = "tcp", .priority = 2},
         {.src = "10.0.0.2@tcp", .priority = 0},
         {.src = "10.0.0.2@tcp", .dst = "10.0.0.12@tcp"}});
  EXPECT_EQ(explain("10.0.0.11@tcp"), kWholeAnswer);
}

TEST_F(Explain, a_peer_without_multi_rail_has_a_recorded_source) {
  const std::string text = explain("10.0.0.21@tcp");
  EXPECT_TRUE(has(text, "result: direct", "by: recorded source")) << text;
}

TEST_F(Explain, routes_with_their_gateways) {
  rules({{.dst = "10.9.0.*@tcp9", .rte = "10.0.0.92@tcp"}});
  const std::string text = explain("10.9.0.5@tcp9");
  EXPECT_TRUE(has(text, "result: routed", "next hop: 10.0.0.92@tcp", "destination: 10.9.0.5@tcp9")) << text;
  EXPECT_TRUE(has(text, R"(
            - gateway: 10.0.0.92@tcp
              result: won
              by: preferred gateway
              value: 0
              against: 10.0.0.91@tcp
              its value: -1
              udsp:
                  preferred gateway:
                      rank: 0
                      idx: 0
)")) << text;
  ASSERT_EQ(rig.apply(node, config::RouteDel{net("tcp9"), nid("10.0.0.92@tcp")}), "");
  EXPECT_TRUE(has(explain("10.9.0.5@tcp9"), "next hop: 10.0.0.91@tcp", "by: only candidate"));
}

TEST_F(Explain, destinations_that_have_no_path) {
  EXPECT_TRUE(
      has(explain("10.7.0.5@tcp7"), "result: fails", "errno: -113", "this node has no NI on tcp7 and no route to it"));
  EXPECT_TRUE(has(explain("10.0.0.77@tcp"), "result: waits", "a look-up of 10.0.0.77@tcp"));
  EXPECT_TRUE(has(explain("10.0.0.1@tcp"), "result: loopback", "source: 10.0.0.1@tcp"));
  EXPECT_TRUE(has(explain("10.0.0.11@tcp", {.from = nid("10.0.0.99@tcp")}), "result: fails", "errno: -99",
                  "this node has no NI 10.0.0.99@tcp"));
}

TEST_F(Explain, a_peer_that_is_not_discovered_has_a_path_without_discovery) {
  c.peers->find(nid("10.0.0.11@tcp"))->peer->up_to_date = false;
  c.peers->touch(*c.peers->find(nid("10.0.0.11@tcp"))->peer);
  (void)publish_views(c);
  const std::string text = explain("10.0.0.11@tcp");
  EXPECT_TRUE(
      has(text, "result: waits", "discovery of 10.0.0.11@tcp", "without discovery:", "result: direct", "step: peer NI"))
      << text;
}

TEST_F(Explain, spread_of_the_next_messages) {
  const std::string even = explain("10.0.0.11@tcp", {.bytes = 4096, .count = 120});
  EXPECT_TRUE(has(even, R"(
      spread:
        - path: 10.0.0.1@tcp -> 10.0.0.12@tcp
          messages: 30
          percent: 25
        - path: 10.0.0.2@tcp -> 10.0.0.11@tcp
          messages: 30
          percent: 25
        - path: 10.1.0.1@o2ib -> 10.1.0.11@o2ib
          messages: 60
          percent: 50
)")) << even;
  rules({{.src = "o2ib", .priority = 0}});
  EXPECT_TRUE(has(explain("10.0.0.11@tcp", {.count = 7}),
                  "path: 10.1.0.1@o2ib -> 10.1.0.11@o2ib\n          messages: 7\n          percent: 100\n"));
  EXPECT_TRUE(has(explain("10.7.0.5@tcp7", {.count = 3}), "path: none\n          messages: 3"));
}

TEST_F(Explain, responses_and_forwarded_messages) {
  EXPECT_TRUE(has(explain("10.0.0.12@tcp", {.response = true}), "next hop: 10.0.0.12@tcp", "by: given"));
  EXPECT_TRUE(has(explain("10.0.0.12@tcp", {.from = nid("10.9.0.5@tcp9"), .forward = true}), "next hop: 10.0.0.12@tcp",
                  "by: given"));
  EXPECT_TRUE(has(explain("10.0.0.11@tcp", {.from = nid("10.0.0.2@tcp")}), "source: 10.0.0.2@tcp"));
}

// Goal: an explanation changes nothing.
// Method: the tallies of all NIs and peer NIs before and after, at both workers.
TEST_F(Explain, changes_nothing) {
  const auto numbers = [&] {
    std::string text;
    const auto add = [&](const TallyNow& now) {
      for (const int64_t number : {int64_t{now.under_way}, now.bytes, now.sequence})
        text += std::to_string(number) + " ";
    };
    const ViewSet& view = c.publisher->current();
    for (const auto& tallies : c.mesh->tallies) {
      text += std::to_string(tallies->choices.get()) + " ";
      for (const NiView& ni : view.local->nis) add(tallies->ni_now(ni.slot, PaceKind::kSmall));
      for (const char* name : {"10.0.0.11@tcp", "10.0.0.12@tcp", "10.1.0.11@o2ib"})
        add(tallies->peer_ni_now(view.peers->find(nid(name)).ni().slot, PaceKind::kSmall));
    }
    return text;
  };
  const std::string before = numbers();
  const Epoch epoch = c.publisher->epoch();
  const std::string first = explain("10.0.0.11@tcp", {.count = 50});
  EXPECT_EQ(explain("10.0.0.11@tcp", {.count = 50}), first);
  EXPECT_EQ(numbers(), before);
  EXPECT_EQ(c.publisher->epoch(), epoch);
}

}  // namespace
}  // namespace ulnet::test
