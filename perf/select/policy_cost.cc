// Question: what does control pay after a change of policies, and how long is one turn of it? One node with 256 rules
// and 10,000 configured peers of 4 NIDs, without threads of its own. The simulated driver makes no connection. CPU time
// of control from the change until it is published; the turns of the worker are not in it. Started by perf/policy-cost.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "control/node.h"
#include "dataplane/base/nid_text.h"
#include "lnd/lo/lo.h"
#include "lnd/sim/fabric_ctl.h"
#include "lnd/sim/sim_ctl.h"
#include "lnd/sim/sim_lnd.h"
#include "perf/bench_pin.h"

namespace {

using namespace ulnet;
using config::ChangeList;
using config::UdspAdd;
using config::UdspRule;

constexpr int kPeers = 10'000;
constexpr int kPeersOfBlock = 250;  ///< peer p has the addresses 10.(1 + p / 250).(p % 250).1 to .4
constexpr int kRules = 256;
constexpr int kRuleGroups = 125;  ///< group g is the peers with 2 * g or 2 * g + 1 in the third part

double cpu_ms() {
  timespec at{};
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
  return double(at.tv_sec) * 1e3 + double(at.tv_nsec) / 1e6;
}

Nid nid(const std::string& text) {
  return nid_parse(text).value();
}
Nid nid_of(int peer, int number) {
  return nid(fmt::format("10.{}.{}.{}@tcp", 1 + peer / kPeersOfBlock, peer % kPeersOfBlock, 1 + number));
}

// A rule that is there already, with another priority, is changed in place.
UdspAdd rule_of_no_peer(int64_t priority) {
  return {UdspRule{.dst = "10.200.0.1@tcp", .priority = priority}};
}
UdspAdd rule_of_one_peer(int64_t priority) {
  return {UdspRule{.dst = nid_text(nid_of(kPeers / 2, 3)), .priority = priority}};
}
UdspAdd rule_of_all_peers(int64_t priority) {
  return {UdspRule{.dst = "tcp", .priority = priority}};
}

/// 256 rules: one in two gives priorities, the others are pairs of NIDs.
ChangeList all_rules() {
  ChangeList changes{{rule_of_no_peer(0), {}}, {rule_of_one_peer(0), {}}, {rule_of_all_peers(0), {}}};
  for (int i = 0; changes.size() < kRules; ++i) {
    const int group = i / 2 % kRuleGroups;
    const auto of_group = [&](int number) {
      return fmt::format("10.*.[{}-{}].{}@tcp", 2 * group, 2 * group + 1, number + i / 2 / kRuleGroups);
    };
    if (i % 2 == 0)
      changes.push_back({UdspAdd{{.dst = of_group(1), .priority = group}}, {}});
    else
      changes.push_back({UdspAdd{{.src = fmt::format("10.0.0.{}@tcp", 1 + group % 2), .dst = of_group(3)}}, {}});
  }
  return changes;
}

/// Of one change.
struct Cost {
  double total_ms = 0;
  double accept_ms = 0;   ///< the longest turn before the rules are in force; it evaluates the first peers, too
  double longest_ms = 0;  ///< the longest turn that only evaluates
  unsigned slices = 0;    ///< turns that only evaluate
  int published = 0;      ///< peers with a new view
};

class Bench {
 public:
  Bench() {
    NodeDeps deps;
    deps.lnds.push_back(lnd_loopback());
    const uint32_t number = fabric_.add_node();
    deps.lnds.push_back({&sim::sim_driver(NetType::kTcp),
                         [this, number](LndCore& core) { return std::make_unique<sim::SimLnd>(fabric_, core, number); },
                         [this, number](LndControlHost& host) {
                           return std::make_unique<sim::SimControl>(fabric_, host, number, NetType::kTcp);
                         }});
    node_ = Node::create({}, std::move(deps), now_).value();
    ChangeList changes{{config::LnetConfigure{}, {}}};
    for (const char* text : {"10.0.0.1@tcp", "10.0.0.2@tcp"}) {
      config::NetAdd add;
      add.net = nid(text).net();
      add.ni.nid = nid(text);
      changes.push_back({add, {}});
    }
    for (int peer = 0; peer < kPeers; ++peer) {
      config::PeerAdd add;
      add.peer.primary = nid_of(peer, 0);
      for (int i = 1; i < 4; ++i) add.peer.nids.push_back(nid_of(peer, i));
      changes.push_back({add, {}});
    }
    (void)change(std::move(changes));
    if (node_->control().peers->allocated() != 4 * kPeers) std::abort();
  }
  /// Applies, and turns the node until it is published.
  Cost change(ChangeList changes) {
    const Control& c = node_->control();
    const std::shared_ptr<const PeerTable> before = c.parts.peers;
    bool done = false;
    Cost cost;
    double began = cpu_ms();
    node_->apply(std::move(changes), [&](const config::Problems& errors) {
      if (!errors.empty()) std::abort();
      done = true;
    });
    while (!done || !c.policies->settled() || c.peers->changed() || c.unpublished) {
      const bool accepted = !c.policies->settled();
      (void)node_->turn_control(now_);
      const double took = cpu_ms() - began;
      double& longest = accepted ? cost.longest_ms : cost.accept_ms;
      longest = std::max(longest, took);
      cost.total_ms += took;
      cost.slices += accepted ? 1 : 0;
      (void)node_->turn(WorkerId{0}, now_);  // releases the view
      now_ += 1us;
      began = cpu_ms();
    }
    for (int peer = 0; before != nullptr && peer < kPeers; ++peer) {
      const Nid primary = nid_of(peer, 0);
      cost.published += before->find(primary).peer != c.parts.peers->find(primary).peer ? 1 : 0;
    }
    return cost;
  }

 private:
  sim::Fabric fabric_{{.seed = 1}};
  Instant now_{1h};
  std::unique_ptr<Node> node_;
};

/// One change that is made in each round.
struct Row {
  const char* name;
  UdspAdd (*rule)(int64_t priority);
  int published;  ///< peers that must be published
  std::vector<Cost> costs{};
};

/// Quartile 0 to 4.
double quartile(const std::vector<Cost>& costs, double Cost::*field, unsigned which) {
  std::vector<double> all;
  for (const Cost& one : costs) all.push_back(one.*field);
  std::sort(all.begin(), all.end());
  return all[(all.size() - 1) * which / 4];
}

/// Medians of times; the highest of each count.
Cost middle(const std::vector<Cost>& costs) {
  Cost all = costs.front();
  all.total_ms = quartile(costs, &Cost::total_ms, 2);
  all.accept_ms = quartile(costs, &Cost::accept_ms, 2);
  all.longest_ms = quartile(costs, &Cost::longest_ms, 2);
  for (const Cost& one : costs) {
    all.slices = std::max(all.slices, one.slices);
    all.published = std::max(all.published, one.published);
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(std::atoi(argv[1]), 1) : 9;
  perf::pin(1);
  Bench bench;
  const Cost first = bench.change(all_rules());
  std::vector<Row> rows = {{"of no peer", rule_of_no_peer, 0},
                           {"of one peer", rule_of_one_peer, 1},
                           {"of all peers", rule_of_all_peers, kPeers}};
  for (int round = 0; round < rounds; ++round)
    for (Row& row : rows) row.costs.push_back(bench.change({{row.rule(1 + round % 2), {}}}));
  std::printf("%d rules, %d peers of 4 NIDs; CPU time of control, medians [quartiles] of %d rounds\n", kRules, kPeers,
              rounds);
  std::printf("%-16s %-22s %10s %7s %17s %10s\n", "change", "total ms", "accept ms", "slices", "longest slice ms",
              "published");
  const auto line = [](const char* name, const std::string& total, const Cost& cost) {
    std::printf("%-16s %-22s %10.2f %7u %17.2f %10d\n", name, total.c_str(), cost.accept_ms, cost.slices,
                cost.longest_ms, cost.published);
  };
  line("all rules added", fmt::format("{:.1f}", first.total_ms), first);
  bool good = true;
  for (const Row& row : rows) {
    const auto total = [&](unsigned which) { return quartile(row.costs, &Cost::total_ms, which); };
    line(row.name, fmt::format("{:.1f} [{:.1f}..{:.1f}]", total(2), total(1), total(3)), middle(row.costs));
    for (const Cost& cost : row.costs) good = good && cost.published == row.published;
  }
  const Cost none = middle(rows[0].costs), one = middle(rows[1].costs);
  std::printf("policy_cost s=%.3f accept_ms=%.2f slices=%u longest_ms=%.2f republished=%d/%d\n", one.total_ms / 1e3,
              one.accept_ms, one.slices, one.longest_ms, none.published, one.published);
  return good ? 0 : 1;
}
