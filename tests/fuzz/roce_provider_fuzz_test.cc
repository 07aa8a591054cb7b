// Feeds a node with our RoCE with damaged packets. Most of them have a right ICRC, and are for its live queue pair or
// for the connection manager. At most, a connection ends. Each packet is given back, and later connections work. The
// inputs are the same every time.
#include <array>

#include "dataplane/wire/bytes.h"
#include "lnd/rc/roce/proto/frame.h"
#include "lnd/rc/roce/qp.h"
#include "tests/cluster/roce_net.h"
#include "tests/wire/roce.h"

namespace ulnet::test {
namespace {

using rc::roce::Bth;

#ifdef ULNET_SANITIZED
constexpr unsigned kPackets = 40'000;
#else
constexpr unsigned kPackets = 200'000;
#endif
constexpr uint16_t kPort = 987;

rc::IpAddress address(unsigned node) {
  return rc::IpAddress::of_v4(0x0A000001 + node);
}

/// One end of the connection: posts its buffers again, and offers a window.
struct Echo final : rc::QpUser {
  void received(rc::Qp& which, uint32_t buffer, uint32_t, Instant) override { worker->receive(which, buffer); }
  void sent(rc::Qp&, uint64_t, Instant) override {}
  void key_closed(rc::Qp&, rc::RemoteKey&, Instant) override {}
  void broken(rc::Qp&, rc::Cause, Instant) override { is_broken = true; }
  void drained(rc::Qp& which, Instant) override {
    worker->release(which);
    qp = nullptr;
  }
  rc::Worker* worker = nullptr;
  rc::roce::RoceQp* qp = nullptr;
  rc::ConnId conn = 0;
  rc::RemoteKey key;
  bool is_broken = false;
};

class RoceProviderFuzz : public ::testing::Test {
 protected:
  RoceProviderFuzz() {
    net.now = now;
    for (unsigned i = 0; i < 2; ++i) {
      nodes.push_back(net.make_node({address(i)}, 1));
      ends[i].worker = &nodes[i]->worker(WorkerId{0});
      EXPECT_TRUE(nodes[i]->control().region_add({1}, window));
    }
    listener = *nodes[1]->control().listen({address(1), kPort});
  }
  void step() {
    now += 50us;
    net.run(now);
    for (unsigned node = 0; node < 2; ++node) {
      std::array<rc::Event, 8> events;
      rc::Control& control = nodes[node]->control();
      for (const rc::Event& event : std::span(events).first(control.poll(events, now))) on(node, event);
      ends[node].worker->poll(64, now);
      ends[node].worker->timers(now);
      ends[node].worker->flush(now);
    }
  }
  /// One connection at a time; requests of strangers are refused.
  void on(unsigned node, const rc::Event& event) {
    rc::Control& control = nodes[node]->control();
    Echo& end = ends[node];
    switch (event.kind) {
      case rc::EventKind::kRequest:
        if (end.conn != 0) return control.reject(event.conn, {}, now);
        end.conn = event.conn;
        return control.prepare(event.conn, needs(), now);
      case rc::EventKind::kReady:
        end.qp = static_cast<rc::roce::RoceQp*>(event.qp);
        end.worker->adopt(*event.qp, end);
        for (uint32_t i = 0; i < event.qp->receives; ++i) end.worker->receive(*event.qp, i);
        return control.proceed(event.conn, {}, now);
      case rc::EventKind::kEstablished: ++up; return;
      case rc::EventKind::kFailed:
      case rc::EventKind::kClosed: end.is_broken = true; return;
      case rc::EventKind::kDevice: return;
    }
  }
  [[nodiscard]] static rc::QpNeeds needs() {
    return {.receives = 8, .sends = 2, .buffer_bytes = 4096, .work = 8, .keys = 4};
  }
  /// Makes the connection, again if need be. False: it does not come about.
  bool connect() {
    for (unsigned tries = 0; tries < 3; ++tries) {
      leave();
      up = 0;
      ends[0].conn =
          *nodes[0]->control().dial({.local = address(0), .remote = {address(1), kPort}, .needs = needs()}, now);
      for (int i = 0; i < 20'000 && up < 2 && !ends[0].is_broken && !ends[1].is_broken; ++i) step();
      if (up < 2) continue;
      const Segment all{window.data(), uint32_t(window.size()), RegionId{1}};
      ends[1].key = {};
      return ends[1].worker->key_open(*ends[1].qp, ends[1].key, {&all, 1, 0, all.bytes}) == rc::Posted::kYes;
    }
    return false;
  }
  void leave() {
    for (unsigned node = 0; node < 2; ++node)
      if (ends[node].conn != 0) nodes[node]->control().disconnect(ends[node].conn, now);
    for (int i = 0; i < 100'000 && (ends[0].qp != nullptr || ends[1].qp != nullptr); ++i) step();
    for (unsigned node = 0; node < 2; ++node) {
      ASSERT_EQ(ends[node].qp, nullptr);
      if (ends[node].conn != 0) nodes[node]->control().destroy(std::exchange(ends[node].conn, 0), now);
      ends[node].is_broken = false;
    }
  }
  /// A packet of a capture, damaged, from the peer of the connection or from a stranger.
  void send_damaged() {
    std::vector<std::byte> body = seeds[rng.below(seeds.size())];
    body.resize(body.size() - rc::roce::kIcrcBytes);
    const bool live = !rng.one_in(4) && body.size() >= rc::roce::kBthBytes;
    const bool datagram = !body.empty() && body[0] == std::byte(0x64);
    for (uint64_t left = rng.below(4); left > 0 && !body.empty(); --left)
      body[rng.below(body.size())] = std::byte(rng.next());
    if (rng.one_in(8)) body.resize(rng.below(body.size() + 1));
    if (rng.one_in(16)) body.resize(body.size() + 4 * rng.below(16), std::byte(rng.next()));
    if (live && !datagram && body.size() >= rc::roce::kBthBytes) {
      const uint32_t psn = expected + uint32_t(rng.below(8)) - 3;
      wire::store<uint32_t>(&body[4], ends[1].qp->number, true);
      wire::store<uint32_t>(&body[8], (uint32_t(rng.one_in(2)) << 31) | (psn & 0xFF'FFFF), true);
      const bool reth = body[0] == std::byte(0x06) || body[0] == std::byte(0x0A);
      if (reth && body.size() >= 28 && !rng.one_in(4)) {
        wire::store<uint64_t>(&body[12], uint64_t(reinterpret_cast<uintptr_t>(window.data())) + rng.below(8192), true);
        wire::store<uint32_t>(&body[20], ends[1].key.value, true);
      }
    }
    send_framed(body);
  }
  void send_framed(const std::vector<std::byte>& body) {
    const rc::IpAddress from = address(rng.one_in(16) ? 9 : 0);
    std::array<std::byte, rc::roce::kFrameHeadMax> lead;
    const rc::roce::FrameHead head({from, address(1), 0xC001, 0});
    const unsigned bytes = head.write(Bth{}, 0, lead.data()) - rc::roce::kBthBytes;
    std::vector<std::byte> packet(lead.begin(), lead.begin() + bytes);
    packet.insert(packet.end(), body.begin(), body.end());
    packet.resize(packet.size() + rc::roce::kIcrcBytes);
    if (body.size() >= rc::roce::kBthBytes && !rng.one_in(8)) {
      const size_t behind = body.size() - rc::roce::kBthBytes;
      rc::roce::Icrc crc(dpdk::Bytes(packet).first(rc::roce::kIcrcHeadV4), behind);
      crc.add(dpdk::Bytes(packet).subspan(rc::roce::kIcrcHeadV4, behind));
      wire::store<uint32_t>(&packet[packet.size() - rc::roce::kIcrcBytes], crc.value());
    }
    net.send(from, address(1), std::move(packet));
  }
  Instant now = kNever + 1s;
  Rng rng{99};
  RoceNet net{7};
  std::vector<std::byte> window = std::vector<std::byte>(8192);
  std::vector<std::unique_ptr<RoceNode>> nodes;
  Echo ends[2];
  rc::ListenerId listener = 0;
  unsigned up = 0;
  uint32_t expected = 0;
  std::vector<std::vector<std::byte>> seeds;
};

TEST_F(RoceProviderFuzz, damaged_packets) {
  for (const char* name :
       {"e1-o2ib-ping-discover", "e3-o2ib-lst-brw-write-4k", "g9-o2ib-connection-race", "g10-o2ib-reject-wrong-net"})
    ASSERT_EQ(
        roce_frames(capture_path(name),
                    [&](const RoceFrame& frame) { seeds.emplace_back(frame.packet.begin(), frame.packet.end()); }),
        "");
  ASSERT_TRUE(connect());
  unsigned connections = 1;
  for (unsigned i = 0; i < kPackets; ++i) {
    if (ends[0].is_broken || ends[1].is_broken) {
      ASSERT_TRUE(connect()) << i;
      ++connections;
    }
    expected = ends[1].qp->responder.expected().value();
    send_damaged();
    if (i % 4 == 3) step();
  }
  EXPECT_GT(connections, 100u) << "the packets have done little";
  EXPECT_GT(nodes[1]->count(rc::roce::Count::kNaksAccessSent), 10u);
  EXPECT_GT(nodes[1]->count(rc::roce::Count::kNaksInvalidSent), 100u);
  leave();
  for (int i = 0; i < 100; ++i) step();
  EXPECT_LT(net.conns(), 200u);
}

}  // namespace
}  // namespace ulnet::test
