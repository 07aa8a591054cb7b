// The RoCE provider where it is more than the contract: ports, workers, strangers' packets, congestion, a queue that is
// full.
#include "dataplane/wire/bytes.h"
#include "lnd/rc/roce/messages.h"
#include "lnd/rc/roce/proto/cm_message.h"
#include "lnd/rc/roce/proto/cma_header.h"
#include "lnd/rc/roce/proto/frame.h"
#include "lnd/rc/roce/qp.h"
#include "tests/cluster/roce_net.h"
#include "tests/unit/rc/world.h"

namespace ulnet::test {
namespace {

using dpdk::FrameDrop;
using rc::Posted;
using rc::roce::Bth;
using rc::roce::Count;
using rc::roce::Opcode;

constexpr uint8_t kCodeOf1024 = 3;
constexpr uint16_t kUdpPort = 0xC001;

/// Two nodes with four workers each, and one connection.
class RoceProviderTest : public ::testing::Test {
 protected:
  static constexpr unsigned kWorkers = 4;
  RoceProviderTest() {
    net.now = now;
    for (unsigned i = 0; i < 2; ++i) nodes.push_back(net.make_node({address(i)}, kWorkers));
  }
  [[nodiscard]] static rc::IpAddress address(unsigned index) { return rc::IpAddress::of_v4(0x0A000001 + index); }
  void turn(unsigned node, uint16_t worker) {
    rc::Worker& one = nodes[node]->worker(WorkerId{worker});
    one.poll(64, now);
    one.timers(now);
    one.flush(now);
  }
  void step() {
    now += pace;
    net.run(now);
    for (unsigned node = 0; node < 2; ++node) {
      rc::Event event;
      while (nodes[node]->control().poll({&event, 1}, now) == 1) on(node, event);
      for (uint16_t worker = 0; worker < kWorkers; ++worker) turn(node, worker);
    }
  }
  void on(unsigned node, const rc::Event& event) {
    kinds.push_back(event.kind);
    if (event.kind == rc::EventKind::kRequest) {
      conns[1] = event.conn;
      if (passive_worker == kNoWorker)
        passive_worker = WorkerId{uint16_t((event.arrives_at.value + passive_offset) % kWorkers)};
      nodes[1]->control().prepare(event.conn, needs(passive_worker), now);
    }
    if (event.kind != rc::EventKind::kReady) return;
    sides[node] = std::make_unique<Side>(nodes[node]->worker(event.qp->worker));
    sides[node]->adopt(*event.qp);
    nodes[node]->control().proceed(event.conn, {}, now);
  }
  [[nodiscard]] static rc::QpNeeds needs(WorkerId worker) {
    rc::QpNeeds all = usual_needs();
    all.worker = worker;
    return all;
  }
  [[nodiscard]] bool up() const { return std::count(kinds.begin(), kinds.end(), rc::EventKind::kEstablished) == 2; }
  template <class F>
  bool until(const F& there, int steps = 20'000) {
    for (; steps > 0 && !there(); --steps) step();
    return there();
  }
  void connect(WorkerId active, WorkerId passive) {
    passive_worker = passive;
    listener = *nodes[1]->control().listen({address(1), kPort});
    conns[0] =
        *nodes[0]->control().dial({.local = address(0), .remote = {address(1), kPort}, .needs = needs(active)}, now);
    ASSERT_TRUE(until([&] { return up(); }));
  }
  void TearDown() override {
    for (unsigned node = 0; node < 2; ++node) {
      if (conns[node] == 0) continue;
      nodes[node]->control().disconnect(conns[node], now);
      EXPECT_TRUE(until([&] { return sides[node] == nullptr || sides[node]->qp == nullptr; }));
      nodes[node]->control().destroy(conns[node], now);
    }
    EXPECT_EQ(net.conns(), 0u);
    nodes.clear();
  }
  /// A packet for node 1, from a stranger or one that pretends to be a peer.
  [[nodiscard]] static std::vector<std::byte> packet_of(const Bth& bth, const std::vector<std::byte>& behind,
                                                        const rc::IpAddress& from) {
    const rc::roce::FrameHead head({from, address(1), kUdpPort, 0});
    std::array<std::byte, rc::roce::kFrameHeadMax> lead;
    const unsigned bytes = head.write(bth, uint32_t(behind.size()), lead.data());
    std::vector<std::byte> all(lead.begin(), lead.begin() + bytes);
    rc::roce::Icrc crc(all, behind.size());
    crc.add(behind);
    all.insert(all.end(), behind.begin(), behind.end());
    all.resize(all.size() + 4);
    wire::store<uint32_t>(&all[all.size() - 4], crc.value());
    return all;
  }
  /// A datagram for QP1.
  [[nodiscard]] static std::vector<std::byte> datagram_of(const std::array<std::byte, rc::roce::kMadBytes>& mad,
                                                          const rc::IpAddress& from,
                                                          uint32_t qkey = rc::roce::kGsiQkey) {
    std::vector<std::byte> behind(rc::roce::kDethBytes);
    rc::roce::deth_encode({qkey, 1}, behind.data());
    behind.insert(behind.end(), mad.begin(), mad.end());
    return packet_of({.opcode = uint8_t(Opcode::kUdSendOnly), .qpn = 1}, behind, from);
  }
  /// A REQ for node 1. `named`: the source in its private data. `id`: of the connection, and of the transaction.
  [[nodiscard]] static std::array<std::byte, rc::roce::kMadBytes> req_of(const rc::IpAddress& from,
                                                                         const rc::IpAddress& named, uint32_t id) {
    std::array<std::byte, rc::roce::kReqDataMax> data{};
    rc::roce::cma_encode({named, address(1), 1023}, std::span(data).first<rc::roce::kCmaHeaderBytes>());
    rc::roce::CmReq req;
    req.local_id = id;
    req.service_id = rc::roce::service_id_of(kPort);
    req.qpn = 1000 + id;
    req.mtu = kCodeOf1024;
    req.local_gid = from;
    req.remote_gid = address(1);
    req.private_data = data;
    std::array<std::byte, rc::roce::kMadBytes> mad{};
    rc::roce::cm_encode({id, req}, mad);
    return mad;
  }
  void inject(const rc::IpAddress& from, std::vector<std::byte> packet) {
    net.send(from, address(1), std::move(packet));
    step();
    step();
  }
  [[nodiscard]] uint32_t number_of(unsigned node) { return static_cast<rc::roce::RoceQp*>(sides[node]->qp)->number; }
  [[nodiscard]] uint64_t dropped(FrameDrop reason) { return net.drops[reason]; }

  Instant now = kNever + 1s;
  Duration pace = 20us;
  RoceNet net{7};
  std::vector<std::unique_ptr<RoceNode>> nodes;
  std::unique_ptr<Side> sides[2];
  rc::ConnId conns[2] = {};
  WorkerId passive_worker{};  ///< kNoWorker: as the request says, plus passive_offset
  uint16_t passive_offset = 0;
  rc::ListenerId listener = 0;
  std::vector<rc::EventKind> kinds;
};

// Goal: the active side chooses its UDP port, so that the peer's packets come to the worker of the queue pair.
TEST_F(RoceProviderTest, packets_come_to_the_worker_of_the_queue_pair) {
  connect(WorkerId{2}, WorkerId{1});
  for (unsigned i = 0; i < 8; ++i) sides[0]->send("x", i + 1);
  for (unsigned i = 0; i < 100 && sides[0]->tokens.size() < 8; ++i) {
    now += 20us;
    net.run(now);
    turn(0, 2);  // no other worker of this node
    for (uint16_t worker = 0; worker < kWorkers; ++worker) turn(1, worker);
  }
  EXPECT_EQ(sides[0]->tokens.size(), 8u);
}

// Goal: the passive side hears with the request where the peer's packets will arrive, and none has to be handed over.
TEST_F(RoceProviderTest, a_request_says_where_packets_will_arrive) {
  connect(WorkerId{2}, kNoWorker);
  for (unsigned i = 0; i < 8; ++i) sides[0]->send("x", i + 1);
  ASSERT_TRUE(until([&] { return sides[0]->tokens.size() == 8; }));
  EXPECT_EQ(net.count(Count::kHandedOver), 0u);
}

// Goal: packets that come to a queue of another worker are handed over, and counted.
TEST_F(RoceProviderTest, a_queue_pair_that_is_elsewhere) {
  passive_offset = 1;
  connect(WorkerId{2}, kNoWorker);
  sides[0]->send("x", 1);
  ASSERT_TRUE(until([&] { return sides[0]->tokens.size() == 1; }));
  EXPECT_GT(net.count(Count::kHandedOver), 0u);
}

// Goal: a device keeps a packet that was acknowledged. Its memory is not free before the device is done with it, and
// the worker may sleep for a short time meanwhile.
TEST_F(RoceProviderTest, memory_that_a_device_still_uses) {
  net.rules.lend_one_in = 1;
  net.rules.keep_lent = true;
  connect(WorkerId{2}, WorkerId{1});
  sides[0]->send("lent", 1);
  const uint64_t acknowledged = net.count(Count::kAcksReceived);
  EXPECT_TRUE(until([&] { return net.count(Count::kAcksReceived) > acknowledged; }));
  for (int i = 0; i < 100; ++i) step();
  EXPECT_GT(net.loans, 0u);
  EXPECT_TRUE(sides[0]->tokens.empty());
  rc::Worker& worker = nodes[0]->worker(WorkerId{2});
  EXPECT_FALSE(worker.pending());
  EXPECT_LE(worker.next_deadline(), now + 100us);
  net.rules.keep_lent = false;
  EXPECT_TRUE(until([&] { return sides[0]->tokens.size() == 1; }));
  net.rules.keep_lent = true;
  sides[0]->send("lent", 2);
  for (int i = 0; i < 100; ++i) step();
  nodes[0]->control().disconnect(conns[0], now);
  for (int i = 0; i < 1000; ++i) step();
  EXPECT_NE(sides[0]->qp, nullptr) << "drained too early";
  net.rules.keep_lent = false;
  EXPECT_TRUE(until([&] { return sides[0]->qp == nullptr; }));
}

// Goal: if a worker does not take the packets that another has for it, they are lost, and what matters is sent again.
TEST_F(RoceProviderTest, a_worker_that_is_busy) {
  net.rules.scatter = true;
  connect(WorkerId{2}, WorkerId{1});
  sides[0]->send("x", 1);
  turn(0, 2);
  const Bth late{.opcode = uint8_t(Opcode::kSendOnly), .qpn = number_of(1), .psn = rc::roce::Psn(12'345)};
  for (unsigned i = 0; i < 1000; ++i) net.send(address(0), address(1), packet_of(late, {}, address(0)));
  now += 1ms;
  net.run(now);
  for (int i = 0; i < 20; ++i)
    for (const uint16_t worker : {0, 2, 3}) turn(1, worker);  // worker 1 stands still
  EXPECT_GT(dropped(FrameDrop::kRoceBusy), 100u);
  EXPECT_TRUE(until([&] { return sides[0]->tokens.size() == 1; }));
  EXPECT_EQ(sides[1]->messages.size(), 1u);
}

TEST_F(RoceProviderTest, packets_for_nobody) {
  connect(WorkerId{0}, WorkerId{0});
  const uint32_t qpn = number_of(1);
  const Bth send{.opcode = uint8_t(Opcode::kSendOnly), .qpn = qpn, .ack_request = true};
  const std::vector<std::byte> text(8);
  inject(address(0), packet_of({.opcode = uint8_t(Opcode::kSendOnly), .qpn = qpn + 1}, text, address(0)));
  EXPECT_EQ(dropped(FrameDrop::kRoceQp), 1u) << "another number";
  inject(address(5), packet_of(send, text, address(5)));
  EXPECT_EQ(dropped(FrameDrop::kRoceQp), 2u) << "another machine";
  inject(address(0), packet_of({.opcode = uint8_t(Opcode::kSendOnly), .qpn = 63u << 18 | 7}, text, address(0)));
  EXPECT_EQ(dropped(FrameDrop::kRoceQp), 3u) << "a worker that there is not";
  std::vector<std::byte> damaged = packet_of(send, text, address(0));
  damaged.back() ^= std::byte{1};
  inject(address(0), damaged);
  EXPECT_EQ(dropped(FrameDrop::kRoceIcrc), 1u);
  std::array<std::byte, rc::roce::kMadBytes> mad{};
  inject(address(0), datagram_of(mad, address(0)));
  EXPECT_EQ(dropped(FrameDrop::kRoceMad), 1u) << "of another class";
  rc::roce::cm_encode({1, rc::roce::CmDrep{1, 1}}, mad);
  inject(address(0), datagram_of(mad, address(0), 5));
  EXPECT_EQ(dropped(FrameDrop::kRoceMad), 2u) << "wrong Q_Key";
  inject(address(0), datagram_of(mad, address(0)));
  EXPECT_EQ(dropped(FrameDrop::kRoceMad), 2u);
  EXPECT_TRUE(sides[1]->messages.empty());
  sides[0]->send("well", 1);
  EXPECT_TRUE(until([&] { return sides[1]->messages.size() == 1; }));
}

// Goal: a worker without a queue of the port gets no packets of it, since it could not give them back.
TEST_F(RoceProviderTest, a_worker_without_a_queue) {
  nodes[1]->provider().detach(0, WorkerId{3});
  for (unsigned i = 0; i < 100; ++i)
    inject(address(0), packet_of({.opcode = uint8_t(Opcode::kSendOnly), .qpn = 3u << 18 | 7}, {}, address(0)));
  EXPECT_EQ(dropped(FrameDrop::kRoceQp), 100u);
  EXPECT_EQ(net.packets_out, 0u);
}

// Goal: messages of the CM that come faster than control takes them are lost, and counted.
TEST_F(RoceProviderTest, a_flood_of_mads) {
  const uint64_t many = 4 * rc::roce::WorkerRings::kMads;
  std::array<std::byte, rc::roce::kMadBytes> mad{};
  for (uint64_t i = 0; i < many; ++i) {
    rc::roce::cm_encode({i, rc::roce::CmDrep{uint32_t(i + 1), uint32_t(i + 1)}}, mad);
    const rc::IpAddress from = address(unsigned(9 + i % 16));  // each has a bound of its own
    net.send(from, address(1), datagram_of(mad, from));
  }
  now += 1ms;
  net.run(now);
  for (int i = 0; i < 20; ++i) turn(1, kUdpPort % kWorkers);
  EXPECT_EQ(dropped(FrameDrop::kRoceBusy), many - rc::roce::WorkerRings::kMads);
  connect(WorkerId{0}, WorkerId{0});
}

// Goal: the address in the private data of a REQ, which o2iblnd goes by, is the address that the REQ comes from.
TEST_F(RoceProviderTest, a_request_that_names_another_source) {
  listener = *nodes[1]->control().listen({address(1), kPort});
  for (const bool honest : {false, true}) {
    inject(address(0), datagram_of(req_of(address(0), honest ? address(0) : address(7), 77), address(0)));
    EXPECT_EQ(std::count(kinds.begin(), kinds.end(), rc::EventKind::kRequest), honest ? 1 : 0);
  }
  EXPECT_TRUE(until([&] { return sides[1] != nullptr; }));
}

// Goal: requests of the peer draw CNPs, answers and CNPs do not: two ends would send them to each other for ever.
TEST_F(RoceProviderTest, a_cnp_draws_no_cnp) {
  net.rules.mark_one_in = 1;
  net.rules.delay = 60us;
  connect(WorkerId{0}, WorkerId{0});
  for (Side* side : {sides[0].get(), sides[1].get()}) side->send("x", 1);
  ASSERT_TRUE(until([&] { return sides[0]->tokens.size() == 1 && sides[1]->tokens.size() == 1; }));
  for (int i = 0; i < 5'000; ++i) step();
  EXPECT_EQ(nodes[0]->count(Count::kCnpsSent), 1u);
  EXPECT_EQ(nodes[1]->count(Count::kCnpsSent), 1u);
}

TEST_F(RoceProviderTest, marked_packets_slow_their_sender_down) {
  net.rules.mark_one_in = 1;
  connect(WorkerId{0}, WorkerId{0});
  for (unsigned round = 0; round < 20; ++round) {
    for (unsigned i = 0; i < 8; ++i) sides[0]->send(std::string(4000, 'x'), 1);
    ASSERT_TRUE(until([&] { return sides[0]->tokens.size() == 8 * (round + 1); }));
  }
  EXPECT_GT(nodes[1]->count(Count::kCnpsSent), 5u);
  EXPECT_LT(nodes[1]->count(Count::kCnpsSent), 20u * 8) << "not one for each packet";
  EXPECT_EQ(nodes[0]->count(Count::kCnpsReceived), nodes[1]->count(Count::kCnpsSent));
}

// Goal: a port that has no buffer now and then. The packets go later, and none is lost.
TEST_F(RoceProviderTest, a_queue_without_buffers) {
  net.rules.no_buffer_one_in = 2;
  net.rules.mark_one_in = 2;
  connect(WorkerId{0}, WorkerId{0});
  for (unsigned round = 0; round < 10; ++round) {
    for (unsigned i = 0; i < 16; ++i) sides[0]->send(std::string(4000, char('a' + i)), i + 1);
    ASSERT_TRUE(until([&] { return sides[0]->tokens.size() == 16 * (round + 1); }));
  }
  EXPECT_EQ(nodes[0]->count(Count::kPacketsResent), 0u);
}

// Goal: when the peer's pause is over, one look at the timers finds it once.
TEST_F(RoceProviderTest, a_pause_of_the_peer_costs_one_look) {
  connect(WorkerId{0}, WorkerId{0});
  sides[1]->repost = false;
  for (unsigned i = 0; i < 18; ++i) {
    sides[0]->send("x", i + 1);
    ASSERT_TRUE(until([&] { return sides[0]->tokens.size() == i + 1; }));
  }
  sides[0]->send("no buffer", 19);
  ASSERT_TRUE(until([&] { return nodes[0]->count(Count::kNaksRnrReceived) == 1; }));
  now += 1ms;
  EXPECT_EQ(nodes[0]->worker(WorkerId{0}).timers(now), 1u);
  EXPECT_EQ(nodes[0]->worker(WorkerId{0}).timers(now), 0u);
}

// Goal: packets of no use that another worker hands over do not keep a worker from its own.
TEST_F(RoceProviderTest, handed_over_packets_do_not_starve_a_worker) {
  connect(WorkerId{2}, WorkerId{kUdpPort % kWorkers + 1});
  const Bth stale{.opcode = uint8_t(Opcode::kSendOnly), .qpn = number_of(1), .psn = rc::roce::Psn(12'345)};
  sides[0]->send("x", 1);
  for (int i = 0; i < 100 && sides[0]->tokens.empty(); ++i) {
    for (unsigned copy = 0; copy < 64; ++copy) net.send(address(0), address(1), packet_of(stale, {}, address(0)));
    step();
  }
  EXPECT_EQ(sides[0]->tokens.size(), 1u);
}

// Goal: the first message of a peer may come before the worker has looked at what control has made.
TEST_F(RoceProviderTest, the_first_message_is_not_lost) {
  passive_worker = WorkerId{1};
  listener = *nodes[1]->control().listen({address(1), kPort});
  conns[0] =
      *nodes[0]->control().dial({.local = address(0), .remote = {address(1), kPort}, .needs = needs(WorkerId{3})}, now);
  const auto has = [&](rc::EventKind kind) { return std::find(kinds.begin(), kinds.end(), kind) != kinds.end(); };
  const auto step_without_worker_3 = [&] {
    now += pace;
    net.run(now);
    for (unsigned node = 0; node < 2; ++node) {
      rc::Event event;
      while (nodes[node]->control().poll({&event, 1}, now) == 1) on(node, event);
      for (const uint16_t worker : {0, 1, 2}) turn(node, worker);
    }
  };
  ASSERT_TRUE(until([&] { return sides[1] != nullptr; }));
  for (int i = 0; i < 1000 && !has(rc::EventKind::kEstablished); ++i) step_without_worker_3();
  for (int i = 0; i < 1000 && !up(); ++i) step_without_worker_3();
  ASSERT_TRUE(up());
  sides[1]->send("early", 1);
  for (int i = 0; i < 10; ++i) step_without_worker_3();
  EXPECT_TRUE(until([&] { return sides[0]->messages.size() == 1; }));
  EXPECT_EQ(nodes[1]->count(Count::kPacketsResent), 0u);
  EXPECT_EQ(dropped(FrameDrop::kRoceQp), 0u);
}

// Goal: workers and control that have nothing to do may sleep, and say so.
TEST_F(RoceProviderTest, nothing_to_do) {
  connect(WorkerId{0}, WorkerId{1});
  sides[0]->send("x", 1);
  ASSERT_TRUE(until([&] { return sides[0]->tokens.size() == 1; }));
  for (int i = 0; i < 100; ++i) step();
  for (unsigned node = 0; node < 2; ++node) {
    EXPECT_GT(nodes[node]->control().next_deadline(), now);
    for (uint16_t worker = 0; worker < kWorkers; ++worker) {
      rc::Worker& one = nodes[node]->worker(WorkerId{worker});
      EXPECT_FALSE(one.pending()) << node << worker;
      now += 1s;
      EXPECT_EQ(one.poll(64, now), 0u);
      (void)one.timers(now);
      EXPECT_EQ(one.next_deadline(), kForever) << node << worker;
    }
  }
  sides[0]->send("y", 2);
  EXPECT_TRUE(nodes[0]->worker(WorkerId{0}).pending());
  EXPECT_EQ(nodes[0]->worker(WorkerId{0}).next_deadline(), kNever);
  nodes[0]->worker(WorkerId{0}).flush(now);
  EXPECT_FALSE(nodes[0]->worker(WorkerId{0}).pending());
  EXPECT_LT(nodes[0]->worker(WorkerId{0}).next_deadline(), now + 1s) << "for an acknowledgement";
}

// Goal: any number of requests of strangers, taken back at once or not, leaves a bounded number of connections.
TEST_F(RoceProviderTest, a_flood_of_requests) {
  listener = *nodes[1]->control().listen({address(1), kPort});
  std::array<std::byte, rc::roce::kMadBytes> mad{};
  for (uint32_t i = 1; i <= 20'000; ++i) {
    net.send(address(9), address(1), datagram_of(req_of(address(9), address(9), i), address(9)));
    rc::roce::cm_encode({i, rc::roce::CmRej{.local_id = i, .about = rc::roce::CmAbout::kOther, .reason = 4}}, mad);
    net.send(address(9), address(1), datagram_of(mad, address(9)));
    if (i % 100 != 0) continue;
    now += 1ms;
    net.run(now);
    for (int turns = 0; turns < 4; ++turns) turn(1, kUdpPort % kWorkers);
    std::array<rc::Event, 4> events;
    for (const rc::Event& event : std::span(events).first(nodes[1]->control().poll(events, now)))
      if (event.kind == rc::EventKind::kRequest) nodes[1]->control().reject(event.conn, {}, now);
    ASSERT_LT(net.conns(), 1000u) << i;
  }
  for (int i = 0; i < 1000; ++i) {
    std::array<rc::Event, 4> events;
    for (const rc::Event& event : std::span(events).first(nodes[1]->control().poll(events, now))) {
      ASSERT_EQ(event.kind, rc::EventKind::kRequest) << "no other event of a connection that is gone";
      nodes[1]->control().reject(event.conn, {}, now);
    }
  }
  EXPECT_EQ(net.conns(), 0u);
  nodes[1]->control().unlisten(listener);
  connect(WorkerId{0}, WorkerId{0});
}

// Goal: a request that the peer has taken back is rejected: no event of it follows.
TEST_F(RoceProviderTest, a_request_that_was_taken_back) {
  listener = *nodes[1]->control().listen({address(1), kPort});
  std::array<std::byte, rc::roce::kMadBytes> mad = req_of(address(0), address(0), 77);
  const auto come = [&](rc::Event* out) {
    net.send(address(0), address(1), datagram_of(mad, address(0)));
    now += 1ms;
    net.run(now);
    turn(1, kUdpPort % kWorkers);
    return nodes[1]->control().poll({out, out == nullptr ? 0u : 1u}, now);
  };
  rc::Event event;
  ASSERT_EQ(come(&event), 1u);
  rc::roce::cm_encode({77, rc::roce::CmRej{.local_id = 77, .about = rc::roce::CmAbout::kOther, .reason = 4}}, mad);
  (void)come(nullptr);
  nodes[1]->control().reject(event.conn, {}, now);
  EXPECT_EQ(nodes[1]->control().poll({&event, 1}, now), 0u);
}

// Goal: source ports come to an end, and are free again when connections end.
TEST_F(RoceProviderTest, source_ports) {
  rc::DialSpec spec{.local = address(0), .remote = {address(7), kPort}, .needs = needs(WorkerId{0})};
  spec.needs.receives = spec.needs.sends = 1;
  spec.needs.buffer_bytes = 64;
  std::vector<rc::ConnId> all;
  while (const auto conn = nodes[0]->control().dial(spec, now)) all.push_back(*conn);
  EXPECT_EQ(all.size(), 512u);
  EXPECT_EQ(nodes[0]->control().dial(spec, now).error().code, -EADDRINUSE);
  spec.remote.address = rc::IpAddress{{0xFD}};
  EXPECT_EQ(nodes[0]->control().dial(spec, now).error().code, -EINVAL) << "another version of IP";
  spec.remote.address = address(7);
  for (const rc::ConnId conn : all) {
    nodes[0]->control().disconnect(conn, now);
    nodes[0]->control().destroy(conn, now);
  }
  const auto again = nodes[0]->control().dial(spec, now);
  ASSERT_TRUE(again);
  nodes[0]->control().disconnect(*again, now);
  nodes[0]->control().destroy(*again, now);
}

// Goal: packets that wait for another worker when a port is closed go back to it.
TEST_F(RoceProviderTest, a_port_is_closed_with_packets_under_way) {
  net.rules.scatter = true;
  connect(WorkerId{2}, WorkerId{1});
  const Bth stale{.opcode = uint8_t(Opcode::kSendOnly), .qpn = number_of(1), .psn = rc::roce::Psn(12'345)};
  for (unsigned i = 0; i < 100; ++i) net.send(address(0), address(1), packet_of(stale, {}, address(0)));
  now += 1ms;
  net.run(now);
  for (const uint16_t worker : {0, 2, 3}) turn(1, worker);
  EXPECT_GT(net.packets_out, 10u);
  sides[1].reset();
  conns[1] = 0;
  nodes[1].reset();  // as a process that ends
  EXPECT_EQ(net.packets_out, 0u);
  nodes[0]->control().disconnect(conns[0], now);
  for (int i = 0; i < 100 && sides[0]->qp != nullptr; ++i) {
    rc::Event event;
    (void)nodes[0]->control().poll({&event, 1}, now);
    turn(0, 2);
  }
  nodes[0]->control().destroy(std::exchange(conns[0], 0), now);
}

// Goal: a port takes a few packets in a turn only. All go in later turns, and nothing is lost.
TEST_F(RoceProviderTest, a_queue_with_little_room) {
  net.rules.queue_room = 3;
  connect(WorkerId{0}, WorkerId{0});
  for (unsigned i = 0; i < 16; ++i) sides[0]->send(std::string(4000, char('a' + i)), i + 1);
  EXPECT_TRUE(until([&] { return sides[0]->tokens.size() == 16; }));
  EXPECT_EQ(sides[1]->messages.size(), 16u);
  EXPECT_EQ(nodes[0]->count(Count::kPacketsResent), 0u);
}

TEST_F(RoceProviderTest, the_state_of_a_port) {
  listener = *nodes[1]->control().listen({address(1), kPort});
  rc::Device device = nodes[1]->control().device(listener);
  EXPECT_EQ(device.name, "port0");
  EXPECT_TRUE(device.known && device.usable && device.keys_end);
  EXPECT_EQ(device.path_mtu, 1024) << "the link has 1500";
  net.set_link(address(1), false);
  step();
  EXPECT_EQ(kinds, std::vector{rc::EventKind::kDevice});
  EXPECT_FALSE(nodes[1]->control().device(listener).usable);
  net.set_link(address(1), true);
  step();
  EXPECT_TRUE(nodes[1]->control().device(listener).usable);
}

TEST_F(RoceProviderTest, ports_have_bounds) {
  auto provider = *rc::roce::open_provider({.workers = 1, .seed = 1, .threads = false});
  for (unsigned i = 0; i < rc::roce::kRocePortsMax; ++i) {
    EXPECT_EQ(provider->add_port({.name = "p", .addresses = {address(i)}}).value(), i);
    const auto again = provider->add_port({.name = "q", .addresses = {address(i)}});
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, i + 1 == rc::roce::kRocePortsMax ? -ENOSPC : -EADDRINUSE);
  }
  EXPECT_EQ(provider->add_port({.name = "r", .addresses = {address(99)}}).error().code, -ENOSPC);
  const auto tiny = rc::roce::open_provider({.workers = 1, .seed = 1, .threads = false});
  (void)(*tiny)->add_port({.name = "tiny", .addresses = {address(0)}, .mtu = 300});
  EXPECT_EQ((*tiny)->control().listen({address(0), kPort}).error().code, -EINVAL);
}

}  // namespace
}  // namespace ulnet::test
