// The world of the RoCE provider. ULNET_ROCE_WIRE names the kind of wire: clean, lossy (1 packet in 100), bad (1 in
// 10). The last two repeat, reorder, mark and damage packets, too. With "scatter", packets come to any of two workers,
// and the nodes have IPv6 addresses.
#include <cstdlib>
#include <functional>

#include "tests/cluster/roce_net.h"
#include "tests/unit/rc/world.h"

namespace ulnet::test {
namespace {

RoceNetRules rules_of_wire() {
  const char* name = std::getenv("ULNET_ROCE_WIRE");
  const std::string wire = name == nullptr ? "clean" : name;
  RoceNetRules rules;
  rules.scatter = wire == "scatter";
  if (rules.scatter) rules.mark_one_in = 20;
  if (wire == "clean" || rules.scatter) return rules;
  rules.lose_one_in = wire == "bad" ? 10 : 100;
  rules.repeat_one_in = rules.reorder_one_in = rules.mark_one_in = rules.damage_one_in = 5 * rules.lose_one_in;
  return rules;
}

/// Each test has another one. ULNET_ROCE_SEED adds to it.
uint64_t seed() {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const char* more = std::getenv("ULNET_ROCE_SEED");
  return std::hash<std::string>{}(test == nullptr ? "" : test->name()) + (more == nullptr ? 0 : std::stoull(more));
}

class RoceWorld final : public World {
 public:
  RoceWorld() : net_(seed()) {
    net_.rules = rules_of_wire();
    net_.now = now;
    for (unsigned i = 0; i < 2; ++i) nodes_.push_back(net_.make_node({address(i)}, net_.rules.scatter ? 2 : 1));
  }
  ~RoceWorld() override {
    if (silent_conn_ != 0) {
      silent_->control().disconnect(silent_conn_, now);
      silent_->control().destroy(silent_conn_, now);
    }
    EXPECT_EQ(net_.conns(), 0u) << "a connection was not destroyed";
    nodes_.clear();
    silent_.reset();
  }
  rc::Provider& node(unsigned index) override { return *nodes_[index]; }
  rc::IpAddress address(unsigned index) const override {
    if (!net_.rules.scatter) return rc::IpAddress::of_v4(0x0A000001 + index);
    return {{0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, uint8_t(1 + index)}};
  }
  rc::IpAddress nobody() const override { return address(0xFD); }
  void cut() override { net_.cut(address(0), address(1)); }
  void silent_request() override {
    silent_ = net_.make_node({address(2)}, 1);
    silent_conn_ =
        *silent_->control().dial({.local = address(2), .remote = {address(1), kPort}, .needs = usual_needs()}, now);
    rc::Event event;
    while (silent_->control().poll({&event, 1}, now) == 0) pass();
    ASSERT_EQ(event.kind, rc::EventKind::kReady);
    silent_->control().proceed(silent_conn_, data_of("hello"), now);
    const RoceNetRules usual = std::exchange(net_.rules, {});  // so that the REQ comes
    const uint64_t before = net_.packets;
    while (net_.packets == before) silent_->worker(kWorker).flush(now);
    pass();
    net_.rules = usual;
    net_.cut(address(1), address(2));
  }
  Instant pass() override {
    now += 1ms;
    net_.run(now);
    for (const auto& node : nodes_) {
      if (!net_.rules.scatter) continue;
      rc::Worker& other = node->worker(WorkerId{1});  // has no queue pair
      other.poll(64, now);
      other.timers(now);
      other.flush(now);
    }
    return now;
  }

 private:
  RoceNet net_;
  std::vector<std::unique_ptr<RoceNode>> nodes_;
  std::unique_ptr<RoceNode> silent_;
  rc::ConnId silent_conn_ = 0;
};

}  // namespace

std::unique_ptr<World> make_world() {
  return std::make_unique<RoceWorld>();
}

}  // namespace ulnet::test
