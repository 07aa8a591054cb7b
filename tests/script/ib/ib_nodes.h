// Nodes of o2iblnd on a simulated net, and strangers that claim to be one.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "tests/script/ib/ib_node.h"

namespace ulnet::test {

/// Sends requests from its own address, and the source NID that a test writes. Has no connection: an accepted one stays
/// without RTU and without messages.
class IbStranger {
 public:
  IbStranger(IbNet& net, unsigned number)
      : address(ib_address(number)), net_(net), provider_(net.make_node({ib_address(number)}, 1)) {}
  /// A request to node `to` of another life of the peer for each other stamp.
  void request(unsigned to, const Nid& source, uint64_t stamp, Instant now);
  void turn(Instant now);
  const rc::IpAddress address;
  unsigned accepted = 0, closed = 0;
  std::vector<o2iblnd::RejectReason> rejects;

 private:
  IbNet& net_;
  std::unique_ptr<rc::Provider> provider_;
  std::map<rc::ConnId, o2iblnd::Ends> asking_;
};

class IbNodes : public ::testing::Test {
 protected:
  ~IbNodes() override {
    for (auto& [number, node] : nodes) stop(*node);
    nodes.clear();
    EXPECT_EQ(net.conns(), 0u);
    EXPECT_EQ(net.counts.no_buffer, 0u);
  }
  IbNode& add(unsigned number, const IbNodeOptions& options = {}) {
    nodes[number] = std::make_unique<IbNode>(net, number, options);
    nodes[number]->now = now;
    return *nodes[number];
  }
  void stop(IbNode& node) {
    node.now = now;
    node.stop();
    for (unsigned i = 0; i < 5000 && !node.stopped; ++i) pass(1ms);
    EXPECT_TRUE(node.stopped);
    EXPECT_TRUE(node.lnd->idle());
    EXPECT_EQ(node.unfinished, 0u);
    EXPECT_EQ(node.slots_open, 0u);
    EXPECT_EQ(node.arena.out(), 0u);
  }
  void pass(Duration time = 50ms) {
    const Duration step = time > 1s ? time / 500 : kStep;
    for (const Instant until = now + time; now < until; now += net.step(step))
      for (auto& [number, node] : nodes) node->turn(now);
  }
  void pass_with(IbStranger& stranger, Duration time = 50ms) {
    for (const Instant until = now + time; now < until; now += kStep) {
      stranger.turn(now);
      for (auto& [number, node] : nodes) node->turn(now);
    }
  }
  /// The request has come to node `to`, and nothing between the two passes from now on: its connection hangs there.
  void request_and_hang(IbStranger& stranger, unsigned to, const std::vector<Nid>& sources, uint64_t stamp) {
    for (const Nid& source : sources) {
      stranger.request(to, source, stamp, now);
      for (const Instant until = now + 5ms; now < until; now += kStep) stranger.turn(now);
    }
    net.rules.reply_max = 1000s;
    net.cut(ib_address(to), stranger.address);
    pass(5ms);
  }
  IbNet net{23};
  std::map<unsigned, std::unique_ptr<IbNode>> nodes;
  Instant now = kNever + 1s;
};

}  // namespace ulnet::test
