// Nodes over a simulated network, in one thread and under a virtual clock, for the tests of control. A NID decides its
// net; every net type is the simulated LND.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "control/node.h"
#include "dataplane/base/nid_text.h"
#include "lnd/lo/lo.h"
#include "lnd/sim/fabric_ctl.h"
#include "lnd/sim/sim_ctl.h"
#include "lnd/sim/sim_lnd.h"
#include "tests/cluster/wakeups.h"
#include "tests/nid_of.h"

namespace ulnet::test {

inline Net net(const std::string& text) {
  return net_parse(text).value();
}

/// A table of interfaces.
class TableDevices final : public Devices {
 public:
  Interface& add(const std::string& name, const std::vector<std::string>& addresses) {
    changed_ = true;
    Interface& one = table_.emplace_back();
    one.name = name;
    for (const auto& text : addresses) one.addresses.push_back(nid(text));
    return one;
  }
  /// Requires: the table has an interface of this name.
  Interface& find_in_table(const std::string& name) {
    return *std::find_if(table_.begin(), table_.end(), [&](const Interface& one) { return one.name == name; });
  }
  bool changed() override { return std::exchange(changed_, false); }
  std::vector<Interface> list() override { return table_; }
  Result<Interface> find(const std::string& name, NetType) override {
    for (const Interface& one : table_)
      if (one.name == name) return one;
    return fail(ENODEV, "no such interface");
  }
  Result<Interface> find_address(const Nid& wanted) override {
    for (const Interface& one : table_)
      for (const Nid& address : one.addresses)
        if (address.addr == wanted.addr && address.size == wanted.size) return one;
    return fail(ENODEV, "no interface has this address");
  }

 private:
  std::vector<Interface> table_;
  bool changed_ = false;
};

struct RigNode {
  std::unique_ptr<Node> node;
  std::unique_ptr<TableDevices> devices = std::make_unique<TableDevices>();
  std::vector<std::string> journal;
  uint32_t fabric_number = 0;
};

class NodeRig {
 public:
  explicit NodeRig(uint64_t seed = 1) : fabric({.seed = seed}), seed_(seed) {}

  sim::Fabric fabric;
  Instant now{1h};
  MemorySource* memory = nullptr;         ///< of nodes that are added from now on; null: ordinary pages
  MemorySource* worker_memory = nullptr;  ///< the same for NodeDeps::worker_memory
  std::vector<std::unique_ptr<RigNode>> nodes;

  /// A node with these NIs, configured.
  RigNode& add(const std::vector<std::string>& nids, unsigned workers = 1, NodeConfig config = {}) {
    RigNode& made = *nodes.emplace_back(std::make_unique<RigNode>());
    made.fabric_number = fabric.add_node();
    config.workers = workers;
    config.worker_size.operations = 256;
    config.worker_size.incoming = 256;
    NodeDeps deps;
    deps.seed = seed_ * 1000 + nodes.size();
    deps.incarnation = 0x1000 + nodes.size();
    deps.devices = made.devices.get();
    deps.memory = memory;
    deps.worker_memory = worker_memory;
    deps.log = [&made](const std::string& line) { made.journal.push_back(line); };
    deps.lnds.push_back(lnd_loopback());
    for (NetType type : {NetType::kTcp, NetType::kO2ib}) {
      deps.lnds.push_back(
          {&sim::sim_driver(type),
           [this, &made](LndCore& core) { return std::make_unique<sim::SimLnd>(fabric, core, made.fabric_number); },
           [this, &made, type](LndControlHost& host) {
             return std::make_unique<sim::SimControl>(fabric, host, made.fabric_number, type);
           }});
    }
    made.node = Node::create(config, std::move(deps), now).value();
    config::ChangeList changes{{config::LnetConfigure{}, {}}};
    for (const auto& text : nids) changes.push_back({net_add(text), {}});
    EXPECT_EQ(apply(made, std::move(changes)), "");
    return made;
  }

  static config::NetAdd net_add(const std::string& text) {
    config::NetAdd add;
    add.net = nid(text).net();
    add.ni.nid = nid(text);
    return add;
  }
  static config::RouteAdd route_add(const std::string& to, const std::string& gateway) {
    config::RouteAdd add;
    add.route.net = net(to);
    add.route.gateway = nid(gateway);
    return add;
  }

  /// One turn of everything, then the clock goes to the next event (at most `step_max` away).
  void step(Duration step_max = 10ms) {
    unsigned done = 0;
    for (auto& one : nodes) {
      if (one->node == nullptr) continue;
      for (uint16_t w = 0; w < one->node->worker_count(); ++w) done += turn_watched(*one->node, WorkerId{w}, now);
      done += turn_control_watched(*one->node, now);
    }
    if (done > 0) {
      now += 1us;
      return;
    }
    Instant next = now + step_max;
    for (auto& one : nodes) {
      if (one->node == nullptr) continue;
      for (uint16_t w = 0; w < one->node->worker_count(); ++w)
        next = std::min(next, one->node->worker(WorkerId{w}).next_deadline());
      next = std::min(next, one->node->next_deadline());
    }
    now = std::max(now + 1us, next);
  }
  bool run_until(const std::function<bool()>& done, Duration limit = 30s) {
    const Instant end = now + limit;
    while (!done()) {
      if (now >= end) return false;
      step();
    }
    return true;
  }
  void run_for(Duration time) {
    const Instant end = now + time;
    while (now < end) step();
  }

  /// Applies; "" or the errors, as "errno words".
  std::string apply(RigNode& to, config::ChangeList changes) {
    std::string wrong = "never answered";
    to.node->apply(std::move(changes), [&](const config::Problems& errors) {
      wrong.clear();
      for (const auto& error : errors) wrong += std::to_string(error.code) + " " + error.what + "\n";
    });
    EXPECT_TRUE(run_until([&] { return wrong != "never answered"; }));
    return wrong;
  }
  std::string apply(RigNode& to, config::Change change) {
    return apply(to, config::ChangeList{{std::move(change), {}}});
  }

  /// Switches routing on, and pushes that at once.
  void start_routing(RigNode& router) {
    router.node->applier().set_start_up(true);
    EXPECT_EQ(apply(router, {{config::SetBuffers{64, 64, 4}, {}}, {config::SetRouting{true}, {}}}), "");
    router.node->applier().set_start_up(false);
  }

  PingAnswer ping(RigNode& from, const std::string& to, const std::string& source = "", Duration timeout = 1s) {
    PingRequest request;
    request.nids = {nid(to)};
    if (!source.empty()) request.source = nid(source);
    request.timeout = timeout;
    std::vector<PingAnswer> answers;
    from.node->ping(request, [&](std::vector<PingAnswer> got) { answers = std::move(got); });
    EXPECT_TRUE(run_until([&] { return !answers.empty(); }));
    return answers.empty() ? PingAnswer{.nid = {}, .error = -EINTR, .info = {}} : answers.front();
  }

  /// Stops a node cleanly. Returns "", or a list of what is left.
  std::string stop(RigNode& one) {
    one.node->stop(now);
    EXPECT_TRUE(run_until([&] { return one.node->stopped(); }));
    return one.node->stop_leftovers();
  }
  /// Call this at the end of a test: all nodes stop, and nothing may be left anywhere.
  void stop_all() {
    for (auto& one : nodes)
      if (one->node != nullptr && !one->node->stopped()) {
        EXPECT_EQ(stop(*one), "");
      }
    EXPECT_EQ(fabric.check_quiescent(), "");
  }

  static std::string text(const PingAnswer& answer) {
    if (answer.error != 0) return "error " + std::to_string(answer.error);
    std::string all;
    for (const auto& ni : answer.info.nis) all += (all.empty() ? "" : " ") + nid_text(ni.nid);
    return all;
  }

 private:
  const uint64_t seed_;
};

}  // namespace ulnet::test
