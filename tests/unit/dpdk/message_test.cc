// Packets under LNet messages, as a driver on a packet port moves them. The core gets arrived packets without a copy,
// and a send leaves from the caller's memory. Memory that the core gives back goes to the pool (lnd/lnd.h).
#include <cstring>

#include "tests/unit/core/bench.h"
#include "tests/unit/dpdk/loop_port.h"

namespace ulnet::dpdk {
namespace {

using test::Bench;
using test::put_header;
using test::tcp;

constexpr WorkerId kHome{0}, kOther{1};
constexpr uint32_t kHeaders = 58;  // Ethernet, IPv4, UDP and a transport's
constexpr uint32_t kPart = 3500;

/// A node whose portal 9 and application are at home on worker 0; the port and its peer are worker 1's.
class DpdkMessages : public LoopPort {
 protected:
  void SetUp() override {
    LoopPort::SetUp();
    bench.add_peer(tcp(2), kOther);
    bench.open_portal(9, kHome);
    bench.publish();
    submitter = &bench.submitter(kHome);
    eq = *submitter->eq_open(16);
    bench.settle();
  }
  /// Sends frames over the port. Returns the frames that the port receives.
  std::vector<rte_mbuf*> around(std::vector<rte_mbuf*> frames) {
    EXPECT_EQ(frames.size(), queue().send(frames, now));
    std::array<rte_mbuf*, kBurst> got{};
    return {got.begin(), got.begin() + queue().receive(got, now)};
  }
  std::vector<Event> events() {
    bench.settle();
    std::vector<Event> all(16);
    all.resize(submitter->eq_poll(eq, all));
    return all;
  }

  Bench bench{{.workers = 2}};
  Submitter* submitter = nullptr;
  EqHandle eq;
  std::array<std::byte, kHeaders> headers{};
};

// Goal: a PUT of several jumbo packets goes to another worker as the packets that it came in. The only copy goes into
// the MD, and then all buffers are back.
TEST_F(DpdkMessages, arrive_as_packets) {
  std::vector<std::byte> place(8192);
  const Segment segment{place.data(), uint32_t(place.size())};
  const MdHandle md = *submitter->md_bind({.segments = {&segment, 1}, .options = kMdPut, .eq = eq});
  ASSERT_TRUE(submitter->me_attach(PortalIndex{9}, {}, 77, 0, MePosition::kTail, md));
  bench.settle();
  PayloadCursor cursor(payload(2 * kPart));
  std::vector<rte_mbuf*> frames;
  for (int i = 0; i < 2; ++i) frames.push_back(frame_make(pool(), headers, cursor, kPart, nullptr, true));
  PacketChain chain(pool());
  for (rte_mbuf* packet : around(std::move(frames))) ASSERT_TRUE(chain.append(packet, kHeaders, kPart));
  RxSlot& slot = bench.inject(put_header(tcp(1), tcp(2), 9, 77, 2 * kPart, 0, false), tcp(2));
  slot.movable = true;
  slot.arrived = chain.payload();
  ASSERT_GE(slot.arrived.segment_count, 4u);
  int released = 0;
  bench.lnd(kOther).on_release = [&](RxSlot& back) {
    EXPECT_EQ(&slot, &back);
    ++released;
    chain.clear();
  };
  bench.turn(kOther);
  EXPECT_EQ(1u, bench.lnd(kOther).taken.size());
  EXPECT_GT(pool().held(), 0u);
  const auto got = events();
  ASSERT_EQ(1u, got.size());
  EXPECT_EQ(EventKind::kPut, got[0].kind);
  EXPECT_EQ(2 * kPart, got[0].mlength);
  EXPECT_EQ(0, std::memcmp(place.data(), memory.data(), 2 * kPart));
  EXPECT_EQ(1, released);
  EXPECT_EQ(0u, pool().held());
  EXPECT_EQ("", bench.not_at_rest());
}

// Goal: a PUT of two segments leaves in two frames that carry the caller's memory. The send is done when the last frame
// is freed, not before.
TEST_F(DpdkMessages, leave_from_where_they_lie) {
  ASSERT_TRUE(queue().lends());
  auto* from = reinterpret_cast<std::byte*>(memory.data());
  const std::array<Segment, 2> two{{{from, 5000}, {from + 5000, 2 * kPart - 5000}}};
  const MdHandle md = *submitter->md_bind({.segments = two, .eq = eq});
  ASSERT_TRUE(submitter->put({.md = md, .target = {tcp(2), kLnetPid}, .portal = 1, .ack = false}));
  bench.settle();
  ASSERT_EQ(1u, bench.lnd(kOther).sent.size());
  Tx& tx = *bench.lnd(kOther).sent[0];
  ASSERT_EQ(2 * kPart, tx.payload.length);
  struct Sending {
    Bench& bench;
    Tx& tx;
  } sending{bench, tx};
  TxLease lease;
  lease.open(
      [](TxLease&, void* to) {
        auto& its = *static_cast<Sending*>(to);
        its.bench.lnd(kOther).complete_tx(its.tx, {});
      },
      &sending);
  PayloadCursor cursor(tx.payload);
  std::vector<rte_mbuf*> frames;
  for (int i = 0; i < 2; ++i) frames.push_back(frame_make(pool(), headers, cursor, kPart, &lease, queue().lends()));
  lease.close();
  EXPECT_EQ(memory.data(), rte_pktmbuf_mtod(frames[0]->next, uint8_t*));
  std::vector<std::byte> seen(2 * kPart);
  const std::vector<rte_mbuf*> back = around(std::move(frames));
  ASSERT_EQ(2u, back.size());
  for (uint32_t i = 0; i < 2; ++i) {
    const Bytes part = packet_read(back[i], kHeaders, kPart, std::span(seen).subspan(i * kPart, kPart));
    EXPECT_EQ(0, std::memcmp(part.data(), memory.data() + i * kPart, kPart));
  }
  EXPECT_TRUE(events().empty()) << "the network still reads the memory";
  packet_free(back[0]);
  EXPECT_TRUE(events().empty());
  packet_free(back[1]);
  const auto got = events();
  ASSERT_EQ(1u, got.size());
  EXPECT_EQ(EventKind::kSend, got[0].kind);
  EXPECT_EQ(0, got[0].status);
  EXPECT_FALSE(lease.is_open());
  EXPECT_EQ("", bench.not_at_rest());
}

}  // namespace
}  // namespace ulnet::dpdk
