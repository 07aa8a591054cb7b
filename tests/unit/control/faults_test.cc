// `ulnetctl fault` from its words to the rules of a node and back to what it prints. The node and its control socket
// are real; the network is simulated. Effects on messages: tests/unit/core/faults_test.cc and tests/sim/faults_test.cc.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <sstream>
#include <thread>

#include "config/export.h"
#include "control/api/requests.h"
#include "control/faults/fault_rules.h"
#include "tests/unit/control/node_rig.h"
#include "tools/ulnetctl/run.h"

namespace ulnet::test {
namespace {

class FaultCommands : public testing::Test {
 protected:
  ~FaultCommands() override { rig.stop_all(); }

  /// "STATUS" and what was printed: out, then after "!" err, in the classic layout.
  std::string ctl(const std::string& line) {
    const std::string path =
        std::filesystem::temp_directory_path() / ("ulnet_faults." + std::to_string(getpid()) + ".sock");
    NodeRequests requests(*a.node, "test");
    auto server = *api::Server::open({.path = path}, requests);
    requests.set_server(*server);
    std::atomic<bool> done = false;
    std::string printed;
    std::thread client([&] {
      std::vector<std::string> words = *ctl::line_split("--layout classic --socket " + path + " " + line);
      auto program = ctl::program_options(words);
      std::ostringstream out, err;
      const int status = ctl::run(*program, words, {}, out, err);
      printed = std::to_string(status) + "\n" + out.str() + (err.str().empty() ? "" : "!" + err.str());
      done = true;
    });
    while (!done) {
      (void)server->poll(rig.now);
      rig.step();
    }
    client.join();
    return printed;
  }
  [[nodiscard]] FaultRules& rules() { return a.node->control().faults; }
  /// The rules that the workers see now; 0: none.
  [[nodiscard]] size_t rules_in_view() {
    const FaultTable* table = a.node->control().publisher->current().faults;
    return table == nullptr ? 0 : table->rules.size();
  }

  NodeRig rig;
  RigNode& a = rig.add({"10.1.0.1@tcp", "10.1.0.2@tcp"}, 2);
  RigNode& b = rig.add({"10.1.0.7@tcp"});
};

TEST_F(FaultCommands, rules_are_added_shown_and_deleted) {
  EXPECT_EQ(ctl("fault drop show"), "0\n") << "as other shows, nothing";
  EXPECT_EQ(rules_in_view(), 0u);
  EXPECT_EQ(a.node->control().publisher->current().faults, nullptr);
  EXPECT_EQ(ctl("fault drop add -s *@tcp -d 10.1.0.7@tcp -r 10"), "0\n");
  EXPECT_EQ(ctl("fault drop add --source * --dest * --interval 5 --random --portal 0 -p 9,63 -m put -m GET "
                "--local_nid 10.1.0.2@tcp -e remote_error -e local_timeout"),
            "0\n");
  EXPECT_EQ(ctl("fault drop add -s 10.1.0.1@tcp -d *@tcp1 -x -e random"), "0\n");
  EXPECT_EQ(ctl("fault delay add -s * -d 10.1.0.7@tcp -i 3 -l 60 -m ack"), "0\n");
  EXPECT_EQ(rules_in_view(), 4u);
  EXPECT_EQ(ctl("fault drop show"),
            "0\n"
            "fault:\n"
            "    - rule_type: drop\n      fa_src: \"*@tcp\"\n      fa_dst: 10.1.0.7@tcp\n"
            "      fa_ptl_mask: 0\n      fa_msg_mask: 15\n      da_rate: 10\n      da_interval: 0\n"
            "      ds_dropped: 0\n      fs_count: 0\n      fs_put: 0\n      fs_ack: 0\n      fs_get: 0\n"
            "      fs_reply: 0\n"
            "    - rule_type: drop\n      fa_src: \"*\"\n      fa_dst: \"*\"\n"
            "      fa_ptl_mask: 9223372036854776321\n      fa_msg_mask: 6\n      da_rate: 0\n      da_interval: 5\n"
            "      ds_dropped: 0\n      fs_count: 0\n      fs_put: 0\n      fs_ack: 0\n      fs_get: 0\n"
            "      fs_reply: 0\n      local_nid: 10.1.0.2@tcp\n      health_error: local_timeout,remote_error\n"
            "      random: True\n"
            "    - rule_type: drop\n      fa_src: 10.1.0.1@tcp\n      fa_dst: \"*@tcp1\"\n"
            "      fa_ptl_mask: 0\n      fa_msg_mask: 15\n      da_rate: 0\n      da_interval: 0\n"
            "      ds_dropped: 0\n      fs_count: 0\n      fs_put: 0\n      fs_ack: 0\n      fs_get: 0\n"
            "      fs_reply: 0\n      health_error: random\n      drop_all: True\n");
  EXPECT_EQ(ctl("fault delay show"),
            "0\n"
            "fault:\n"
            "    - rule_type: delay\n      fa_src: \"*\"\n      fa_dst: 10.1.0.7@tcp\n"
            "      fa_ptl_mask: 0\n      fa_msg_mask: 1\n      la_rate: 0\n      la_interval: 3\n      la_latency: 60\n"
            "      ls_delayed: 0\n      fs_count: 0\n      fs_put: 0\n      fs_ack: 0\n      fs_get: 0\n"
            "      fs_reply: 0\n");
  EXPECT_EQ(ctl("fault drop del -s *@tcp0 -d 10.1.0.7@tcp"), "0\n") << "tcp0 is tcp";
  EXPECT_EQ(ctl("fault drop del -d *@tcp1"), "0\n") << "one of the two is enough";
  EXPECT_EQ(rules_in_view(), 2u);
  EXPECT_EQ(rules().list(FaultKind::kDrop).at(0).spec.interval, 5s);
  EXPECT_EQ(ctl("fault drop del --all"), "0\n");
  EXPECT_EQ(rules().list(FaultKind::kDelay).size(), 1u) << "all of the kind";
  EXPECT_EQ(ctl("fault delay del -s *"), "0\n");
  EXPECT_EQ(a.node->control().publisher->current().faults, nullptr);
}

TEST_F(FaultCommands, counts_are_those_of_all_workers_until_they_are_reset) {
  EXPECT_EQ(ctl("fault drop add -s 10.1.0.7@tcp -d 10.1.0.1@tcp -r 1 -m get"), "0\n");
  EXPECT_EQ(ctl("fault delay add -s 10.1.0.7@tcp -d 10.1.0.1@tcp -r 1 -l 1 -m get"), "0\n");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(rig.text(rig.ping(b, "10.1.0.1@tcp")), "error -5");
  const auto shown = [&](FaultKind kind) {
    const FaultRules::Counts counts = rules().list(kind).at(0).counts;
    return fmt::format("{}/{} get {}", counts.hit_sum(), counts.matched, counts.hit[size_t(wire::MsgType::kGet)]);
  };
  const auto printed = [&] {
    const std::string text = ctl("fault drop show");
    return text.substr(text.find("      ds_dropped"));
  };
  EXPECT_EQ(shown(FaultKind::kDrop), "3/3 get 3");
  EXPECT_EQ(shown(FaultKind::kDelay), "0/0 get 0") << "what is lost is not delayed";
  EXPECT_EQ(printed(),
            "      ds_dropped: 3\n      fs_count: 3\n      fs_put: 0\n      fs_ack: 0\n      fs_get: 3\n"
            "      fs_reply: 0\n");
  EXPECT_EQ(ctl("fault delay reset"), "0\n");
  EXPECT_EQ(shown(FaultKind::kDrop), "3/3 get 3") << "of the other kind";
  EXPECT_EQ(ctl("fault drop reset"), "0\n");
  EXPECT_EQ(shown(FaultKind::kDrop), "0/0 get 0");
  EXPECT_EQ(rig.text(rig.ping(b, "10.1.0.1@tcp")), "error -5");
  EXPECT_EQ(shown(FaultKind::kDrop), "1/1 get 1");
  EXPECT_EQ(ctl("fault drop del -a"), "0\n");
  EXPECT_EQ(ctl("fault delay del -a"), "0\n");
  EXPECT_EQ(rig.text(rig.ping(b, "10.1.0.1@tcp")), "10.1.0.1@tcp 10.1.0.2@tcp");
}

TEST_F(FaultCommands, a_delete_that_finds_nothing_is_an_error) {
  const auto error = [](const std::string& what) {
    return "234\n!del:\n    - fault:\n          errno: -2\n          descr: \"" + what + "\"\n";
  };
  EXPECT_EQ(ctl("fault drop del -a"), error("there is no drop rule; 'fault drop show' lists the rules"));
  EXPECT_EQ(ctl("fault drop add -s *@tcp -d * -r 1 -m reply"), "0\n");
  EXPECT_EQ(ctl("fault delay del -a"), error("there is no delay rule; 'fault delay show' lists the rules"));
  EXPECT_EQ(ctl("fault drop del -s 10.1.0.1@tcp"),
            error("there is no drop rule from 10.1.0.1@tcp; 'fault drop show' lists the rules"))
      << "the rule's source contains this NID, but is another one";
  EXPECT_EQ(ctl("fault drop del -s *@tcp -d 10.1.0.1@tcp"),
            error("there is no drop rule from *@tcp to 10.1.0.1@tcp; 'fault drop show' lists the rules"));
  EXPECT_EQ(rules_in_view(), 1u);
}

TEST_F(FaultCommands, rules_have_a_bound_and_leave_their_place) {
  const FaultSpec spec{.types = 1 << 3, .rate = 1000};
  for (uint32_t i = 0; i < kFaultRulesMax; ++i) EXPECT_TRUE(rules().add(spec));
  EXPECT_EQ(ctl("fault drop add -s * -d * -r 1"),
            "234\n!add:\n    - fault:\n          errno: -28\n          descr: \"there are 64 fault rules, which is the "
            "maximum: delete some with 'fault drop del' or 'fault delay del'\"\n");
  EXPECT_EQ(rules_in_view(), 64u);
  EXPECT_EQ(ctl("fault drop del -a"), "0\n");
  EXPECT_EQ(ctl("fault drop add -s * -d * -r 1000000"), "0\n");
  EXPECT_EQ(rules_in_view(), 1u);
}

TEST_F(FaultCommands, a_contradiction_is_refused_by_the_node_too) {
  const auto refused = [&](const FaultSpec& spec) {
    const auto added = rules().add(spec);
    return added ? std::string("added") : fmt::format("{} {}", added.error().code, added.error().what);
  };
  EXPECT_EQ(refused({.rate = 1, .all = true}), "-22 exactly one of 'rate', 'interval' and 'drop_all' is needed");
  EXPECT_EQ(refused({.kind = FaultKind::kDelay, .rate = 1}),
            "-22 'latency' is needed: the seconds that a message is delayed");
  EXPECT_EQ(refused({.types = 0, .rate = 1}), "-22 'message' has no type that there is");
  EXPECT_EQ(refused({.rate = 1, .failures = 1}), "-22 'health_error' has a failure that there is not");
  EXPECT_EQ(refused({.interval = -1s}), "-22 'interval' and 'latency' are 1 second or more");
  EXPECT_EQ(rules_in_view(), 0u);
}

TEST_F(FaultCommands, rules_end_when_lnet_is_unconfigured) {
  EXPECT_EQ(ctl("fault delay add -s * -d * -r 1 -l 100"), "0\n");
  EXPECT_EQ(ctl("lnet unconfigure"), "0\n");
  EXPECT_EQ(ctl("fault delay show"), "0\n");
  EXPECT_EQ(rules_in_view(), 0u);
}

// Goal: rules are no part of the configuration, and end with the node.
TEST_F(FaultCommands, no_export_contains_rules) {
  const std::string before = ctl("export"), backup = ctl("export --backup");
  EXPECT_EQ(ctl("fault drop add -s 10.9.9.9@tcp -d * -r 7"), "0\n");
  EXPECT_EQ(ctl("export"), before);
  EXPECT_EQ(ctl("export --backup"), backup);
  EXPECT_EQ(rig.stop(a), "");
  EXPECT_EQ(rules().list(FaultKind::kDrop).size(), 0u);
}

}  // namespace
}  // namespace ulnet::test
