// Packet ports as ports of the RoCE provider: facts and errors for control, and nodes that speak RoCE over several
// ports. Wires between ports are carried by hand, on one thread and on one time line.
#include <gtest/gtest.h>

#include "lnd/rc/roce/ports_ctl.h"
#include "lnd/rc/roce/proto/headers.h"
#include "tests/unit/rc/roce_port.h"
#include "tests/unit/rc/world.h"

namespace ulnet::test {
namespace {

using dpdk::FrameDrop;

/// A node with one worker and ports.
class PortNode {
 public:
  explicit PortNode(const Instant& clock) : now(clock) {}
  ~PortNode() {
    for (auto& worker : workers) worker->finish(now);
    EXPECT_TRUE(provider.queues.empty());
    for (auto& port : all) {
      (void)ring_take(port->queue(0), now);
      ring_stop(*port, now);
      EXPECT_TRUE(port->packets_conserved());
    }
  }
  void add(const dpdk::PortConfig& config) {
    const PortAppMaker maker = ports.opening(config);
    auto port = ring_open(config, now);
    ASSERT_NE(port, nullptr);
    all.push_back(std::move(port));
    auto worker = PortWorker::make(maker, *all.back(), 0, nullptr);
    ASSERT_TRUE(worker) << worker.error().what;
    workers.push_back(std::move(*worker));
    workers.back()->turn(now);
    ASSERT_TRUE(ports.opened(*all.back(), {true, 10'000}));
  }
  [[nodiscard]] rc::Worker& worker() { return provider.worker(kWorker); }
  void turn() {
    for (auto& one : workers) one->turn(now);
    worker().poll(64, now);
    worker().timers(now);
    worker().flush(now);
  }
  [[nodiscard]] uint64_t dropped(unsigned port, FrameDrop reason) {
    return all[port]->queue(0).counters().drops[reason].get();
  }

  const Instant& now;
  NotedProvider provider;
  rc::roce::RocePorts ports{provider};
  std::vector<std::unique_ptr<dpdk::Port>> all;
  std::vector<std::unique_ptr<PortWorker>> workers;
};

/// A packet for a queue pair that nobody has.
FrameBytes stray_frame(unsigned from, unsigned to) {
  FrameBytes packet(rc::roce::kBthBytes + rc::roce::kIcrcBytes);
  rc::roce::bth_encode({.opcode = uint8_t(rc::roce::Opcode::kSendOnly), .qpn = 77}, packet.data());
  return frame_of(from, to, packet);
}

// --- Control ---------------------------------------------------------------------------------------------------------

class RocePortsTest : public ::testing::Test {
 protected:
  Instant now = kNever + 1s;
  PortNode node{now};
};

// Goal: control has the facts of a port when it is open, and the state of its link from then on.
TEST_F(RocePortsTest, facts_of_a_port) {
  dpdk::PortConfig config = ring_config("rail0");
  config.mtu = 4200;
  config.addresses.own.push_back({dpdk::IpAddress{{0xFD, 9}}, 64});
  node.ports.link_changed("rail0", {true, 1});  // of no port yet
  EXPECT_TRUE(node.ports.counts("rail0").empty());
  EXPECT_TRUE(node.provider.links.empty());
  node.add(config);
  ASSERT_EQ(node.provider.ports.size(), 1u);
  const rc::roce::PortFacts& facts = node.provider.ports[0];
  EXPECT_EQ(facts.name, "rail0");
  EXPECT_EQ(facts.addresses, (std::vector{ring_address(1), dpdk::IpAddress{{0xFD, 9}}}));
  EXPECT_EQ(facts.mac, ring_mac(1));
  EXPECT_EQ(facts.mtu, 4200);
  EXPECT_EQ(facts.workers, 1u);
  const auto& rss = node.all[0]->rss();
  EXPECT_EQ(facts.worker_of(ring_address(2), ring_address(1), 0xC001).has_value(), rss.known);
  const auto listener = node.provider.control().listen({ring_address(1), kPort});
  ASSERT_TRUE(listener);
  EXPECT_TRUE(node.provider.control().device(*listener).usable);
  EXPECT_EQ(node.provider.control().device(*listener).speed.mbps, 10'000u);
  node.ports.link_changed("rail0", {false, 0});
  EXPECT_FALSE(node.provider.control().device(*listener).usable);
  node.ports.link_changed("rail1", {true, 0});  // of another name
  EXPECT_FALSE(node.provider.control().device(*listener).usable);
}

// Goal: the worker gets the queue of a port in its next turn after control has the port. `port show` has its counts.
TEST_F(RocePortsTest, a_queue_is_attached_when_the_port_is_known) {
  node.add(ring_config("rail0"));
  EXPECT_TRUE(node.provider.queues.empty());
  node.turn();
  EXPECT_EQ(node.provider.queues.size(), 1u);
  const auto counts = node.ports.counts("rail0");
  ASSERT_EQ(counts.size(), size_t(rc::roce::Count::kCount));
  for (const auto& one : counts) EXPECT_EQ(one.value, 0u) << one.text->name;
  EXPECT_TRUE(node.ports.counts("rail1").empty());
}

// Goal: a port that the provider refuses is never attached, and its workers run without RoCE.
TEST_F(RocePortsTest, an_address_that_another_port_has) {
  node.add(ring_config("rail0"));
  dpdk::PortConfig config = ring_config("rail1");
  const PortAppMaker maker = node.ports.opening(config);
  node.all.push_back(ring_open(config, now));
  node.workers.push_back(std::move(*PortWorker::make(maker, *node.all.back(), 0, nullptr)));
  const auto opened = node.ports.opened(*node.all.back(), {true, 10'000});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, -EADDRINUSE);
  EXPECT_STREQ(opened.error().what, "another port has the same IP address");
  for (int i = 0; i < 3; ++i) node.turn();
  EXPECT_EQ(node.provider.queues.size(), 1u);
  EXPECT_TRUE(node.ports.counts("rail1").empty());
}

// Goal: a port whose UDP port 4791 is bound to something else is refused, and the error says why.
TEST_F(RocePortsTest, the_udp_port_is_taken) {
  struct Other final : dpdk::UdpSink {
    void udp_received(std::span<dpdk::Datagram>, Instant) override {}
  } other;
  const dpdk::PortConfig config = ring_config("rail0");
  const PortAppMaker maker = node.ports.opening(config);
  node.all.push_back(ring_open(config, now));
  const auto made = PortWorker::make(
      [&](unsigned queue, dpdk::PortQueue& port_queue, dpdk::Stack& stack, const dpdk::Mac& mac) {
        EXPECT_TRUE(stack.udp_bind(rc::roce::kUdpPort, other));
        return maker(queue, port_queue, stack, mac);
      },
      *node.all.back(), 0, nullptr);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, -EADDRINUSE);
  EXPECT_STREQ(made.error().what, "RoCE needs UDP port 4791 of the packet port, which is bound to something else");
}

// --- Several ports of one worker -------------------------------------------------------------------------------------

// Goal: ports of one worker get its turns in turn, whichever is first.
TEST_F(RocePortsTest, ports_that_are_busy_share_the_worker) {
  for (const unsigned own : {1u, 2u, 3u}) node.add(ring_config("rail" + std::to_string(own), own));
  node.turn();
  for (int i = 0; i < 400; ++i) {
    for (const unsigned port : {0u, 1u}) ring_put(node.all[port]->queue(0), stray_frame(5, port + 1), now);
    for (auto& one : node.workers) one->turn(now);
  }
  ring_put(node.all[2]->queue(0), stray_frame(5, 3), now);
  node.workers[2]->turn(now);
  for (int i = 0; i < 9; ++i) {
    const uint64_t first = node.dropped(0, FrameDrop::kRoceQp), second = node.dropped(1, FrameDrop::kRoceQp);
    EXPECT_LE(first, second + 128);
    EXPECT_LE(second, first + 128);
    EXPECT_EQ(node.worker().poll(64, now), 64u);
  }
  EXPECT_EQ(node.dropped(2, FrameDrop::kRoceQp), 1u) << "a port with little to do is not last";
  EXPECT_TRUE(node.worker().pending());
}

/// Two nodes with two wires between them, and a connection over each.
class RoceWiresTest : public ::testing::Test {
 protected:
  RoceWiresTest() {
    for (unsigned node = 0; node < 2; ++node)
      for (unsigned wire = 0; wire < 2; ++wire) {
        dpdk::PortConfig config = ring_config("rail" + std::to_string(2 * node + wire), end(node, wire));
        config.mtu = 4200;
        config.in_flight = 128;
        nodes[node].add(config);
      }
  }
  [[nodiscard]] static unsigned end(unsigned node, unsigned wire) { return 1 + 2 * wire + node; }
  /// Frames that a port has sent come to the port at the other end of its wire. They are lost if that one is stopped.
  void carry() {
    for (unsigned wire = 0; wire < 2; ++wire) {
      std::vector<FrameBytes> frames[2];
      for (unsigned node = 0; node < 2; ++node) frames[node] = ring_take(nodes[node].all[wire]->queue(0), now);
      for (unsigned node = 0; node < 2; ++node) {
        dpdk::PortQueue& to = nodes[1 - node].all[wire]->queue(0);
        for (const FrameBytes& frame : frames[node])
          if (to.running()) ring_put(to, frame, now);
      }
    }
  }
  void step() {
    now += 20us;
    for (unsigned node = 0; node < 2; ++node) {
      rc::Event event;
      while (nodes[node].provider.control().poll({&event, 1}, now) == 1) on(node, event);
      nodes[node].turn();
    }
    carry();
  }
  void on(unsigned node, const rc::Event& event) {
    rc::Control& control = nodes[node].provider.control();
    if (event.kind == rc::EventKind::kRequest) control.prepare(event.conn, usual_needs(), now);
    if (event.kind == rc::EventKind::kEstablished) ++established;
    if (event.kind != rc::EventKind::kReady) return;
    End& one = ends.emplace_back(End{node, event.conn, std::make_unique<Side>(nodes[node].worker())});
    one.side->adopt(*event.qp);
    control.proceed(event.conn, {}, now);
  }
  template <class F>
  [[nodiscard]] bool until(const F& there) {
    for (int i = 0; i < 100'000 && !there(); ++i) step();
    return there();
  }
  void connect() {
    for (unsigned wire = 0; wire < 2; ++wire) {
      ASSERT_TRUE(nodes[1].provider.control().listen({ring_address(end(1, wire)), kPort}));
      ASSERT_TRUE(nodes[0].provider.control().dial(
          {.local = ring_address(end(0, wire)), .remote = {ring_address(end(1, wire)), kPort}, .needs = usual_needs()},
          now));
      ASSERT_TRUE(until([&] { return established == 2 * (wire + 1); }));
    }
    ASSERT_EQ(ends.size(), 4u);
  }
  /// The end of a node on a wire.
  [[nodiscard]] Side& side(unsigned node, unsigned wire) {
    for (size_t i = 0; i < ends.size(); ++i)
      if (ends[i].node == node && i / 2 == wire) return *ends[i].side;
    ADD_FAILURE() << "no such connection";
    return *ends.at(0).side;
  }
  void TearDown() override {
    for (End& one : ends) nodes[one.node].provider.control().disconnect(one.conn, now);
    EXPECT_TRUE(until([&] { return std::ranges::all_of(ends, [](const End& one) { return one.side->is_drained; }); }));
    for (End& one : ends) nodes[one.node].provider.control().destroy(one.conn, now);
  }
  struct End {
    unsigned node;
    rc::ConnId conn;
    std::unique_ptr<Side> side;
  };
  Instant now = kNever + 1s;
  std::array<PortNode, 2> nodes{PortNode(now), PortNode(now)};
  std::vector<End> ends;
  unsigned established = 0;
};

// Goal: connections that always have something to send get as much of their ports as each other.
TEST_F(RoceWiresTest, connections_over_two_ports_share_the_worker) {
  connect();
  const std::string text(kBufferBytes, 'x');
  uint64_t tokens[2] = {};
  const auto came = [&](unsigned wire) { return side(1, wire).messages.size(); };
  for (int i = 0; i < 20'000 && came(0) < 500; ++i) {
    for (unsigned wire = 0; wire < 2; ++wire)  // few, so that there are some to send in each turn
      for (int more = 0; more < 4 && tokens[wire] - side(0, wire).tokens.size() < 16; ++more)
        side(0, wire).send(text, ++tokens[wire]);
    step();
  }
  EXPECT_GE(came(0), 500u);
  EXPECT_GT(came(1), 250u);
  EXPECT_LT(came(1), 1000u);
  for (unsigned wire = 0; wire < 2; ++wire)
    for (const std::string& one : side(1, wire).messages) ASSERT_EQ(one, text);
}

// Goal: a port is reset while connections use it. They go on afterwards, and no message is lost or comes twice.
TEST_F(RoceWiresTest, a_port_is_reset) {
  connect();
  for (unsigned i = 1; i <= 8; ++i) side(0, 0).send(std::to_string(i), i);
  nodes[0].turn();
  carry();
  dpdk::Port& port = *nodes[0].all[0];
  port.stop_begin();
  nodes[0].turn();
  ASSERT_TRUE(port.stopped());
  ASSERT_TRUE(port.reopen());
  for (unsigned i = 9; i <= 16; ++i) side(0, 0).send(std::to_string(i), i);
  for (int i = 0; i < 10; ++i) step();
  EXPECT_GT(nodes[0].dropped(0, FrameDrop::kStopped), 0u);
  port.start();
  ASSERT_TRUE(until([&] { return side(0, 0).tokens.size() == 16; }));
  ASSERT_EQ(side(1, 0).messages.size(), 16u);
  for (unsigned i = 1; i <= 16; ++i) EXPECT_EQ(side(1, 0).messages[i - 1], std::to_string(i));
}

}  // namespace
}  // namespace ulnet::test
