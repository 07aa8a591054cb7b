// Feeds a stack with damaged frames, each in one buffer and cut into several. Both end the same way, each in exactly
// one place, and no buffer is lost. The inputs are the same every time.
#include "dataplane/wire/bytes.h"
#include "lnd/net/dpdk/stack.h"
#include "lnd/net/packet/icmp.h"
#include "lnd/net/packet/net_address_text.h"
#include "lnd/net/packet/udp.h"
#include "tests/fuzz/dpdk_seeds.h"
#include "tests/unit/dpdk/loop_port.h"

namespace ulnet::dpdk {
namespace {

constexpr unsigned kFrames = 60000;
constexpr uint16_t kBound = 4791;

/// Takes datagrams and looks at all that they promise.
class Taker final : public UdpSink {
 public:
  void udp_received(std::span<Datagram> datagrams, Instant) override {
    for (Datagram& its : datagrams) {
      Checksum all;
      packet_sum(its.packet, its.offset, its.bytes, all);
      ULNET_CHECK(its.offset + its.bytes <= its.packet->pkt_len);
      ++taken;
      last = all.value();
      packet_free(its.packet);
    }
  }
  unsigned taken = 0;
  uint16_t last = 0;
};

/// Where a frame ended.
struct End {
  std::string place;
  uint64_t answers = 0;  ///< frames that went out
  uint16_t content = 0;  ///< of a datagram
  bool operator==(const End&) const = default;
};

class DpdkStackFuzz : public LoopPort {
 protected:
  void SetUp() override {
    LoopPort::SetUp();
    PortConfig config = port->config();
    config.addresses.own = {prefix_parse("10.0.0.2/24").value(), prefix_parse("fd00::2/64").value()};
    config.neighbours.clear();
    stack = std::make_unique<Stack>(stack_config(config, mac_parse("02:00:00:00:00:01").value()), queue(), nullptr);
    ASSERT_TRUE(stack->udp_bind(kBound, taker).has_value());
  }
  void TearDown() override {
    stack->shut(now);
    drain();
    stack.reset();
    LoopPort::TearDown();
  }
  /// Frees the frames that the stack has sent, which come back on the ring; their number.
  uint64_t drain() {
    uint64_t count = 0;
    std::array<rte_mbuf*, kBurst> packets;
    while (const unsigned got = queue().receive(packets, now)) {
      rte_pktmbuf_free_bulk(packets.data(), got);
      count += got;
    }
    return count;
  }
  /// In pieces of these sizes, the last one of what is left.
  rte_mbuf* cut(const fuzz::Input& frame, std::span<const size_t> sizes) {
    rte_mbuf* head = nullptr;
    size_t at = 0;
    for (size_t i = 0; i <= sizes.size(); ++i) {
      const size_t bytes = i < sizes.size() ? std::min(sizes[i], frame.size() - at) : frame.size() - at;
      if (bytes == 0 && head != nullptr) continue;
      rte_mbuf* piece = pool().take();
      std::memcpy(rte_pktmbuf_append(piece, uint16_t(bytes)), frame.data() + at, bytes);
      at += bytes;
      if (head == nullptr) {
        head = piece;
      } else {
        EXPECT_EQ(0, rte_pktmbuf_chain(head, piece));
      }
    }
    return head;
  }
  std::array<uint64_t, 6> places() const {
    const StackCounters& its = stack->counters();
    return {its.arp_answers.get(),  its.nd_answers.get(),    its.echo_answers.get(),
            its.echo_replies.get(), its.udp_delivered.get(), 0};
  }
  End feed(rte_mbuf* frame) {
    std::array<uint64_t, size_t(FrameDrop::kCount)> drops;
    for (size_t i = 0; i < drops.size(); ++i) drops[i] = queue().counters().drops.counts[i].get();
    const auto before = places();
    rte_mbuf* frames[1] = {frame};
    EXPECT_EQ(1u, queue().send(frames, now));
    EXPECT_EQ(1u, stack->poll(1, now));
    stack->flush(now);
    End end;
    end.answers = drain();
    for (size_t i = 0; i < drops.size(); ++i)
      if (queue().counters().drops.counts[i].get() != drops[i]) end.place += text_of(FrameDrop(i)).name;
    const auto after = places();
    constexpr std::array<const char*, 6> kNames{"arp answer", "nd answer", "echo answer", "echo reply", "udp", ""};
    for (size_t i = 0; i < after.size(); ++i)
      if (after[i] != before[i]) end.place += kNames[i];
    if (end.place == "udp") end.content = taker.last;
    return end;
  }

  Taker taker;
  std::unique_ptr<Stack> stack;
};

/// Makes sums right again where there are any, so that damage gets past them.
void mend_sums(fuzz::Input& frame) {
  const auto eth = eth_decode(frame);
  if (!eth || (eth->type != kEthIpv4 && eth->type != kEthIpv6)) return;
  const std::span<std::byte> packet = std::span(frame).subspan(eth->bytes());
  const bool v4 = eth->type == kEthIpv4;
  if (v4 && !packet.empty()) {
    const size_t header = (size_t(packet[0]) & 15) * 4;
    if (header < kIpv4Bytes || header > packet.size()) return;
    wire::store<uint16_t>(packet.data() + 10, 0);
    Checksum sum;
    sum.add(packet.first(header));
    wire::store<uint16_t>(packet.data() + 10, sum.value(), true);
  }
  const auto ip = v4 ? ipv4_decode(packet, packet.size(), ChecksumCheck::kSkip) : ipv6_decode(packet, packet.size());
  if (!ip) return;
  const std::span<std::byte> body = packet.subspan(ip->header_bytes, ip->payload_bytes);
  const bool icmp = ip->protocol == (v4 ? kProtocolIcmp : kProtocolIcmpv6);
  const size_t at = icmp ? 2 : 6;
  if ((!icmp && ip->protocol != kProtocolUdp) || body.size() < at + 2) return;
  wire::store<uint16_t>(body.data() + at, 0);
  Checksum sum = icmp && v4 ? Checksum{} : pseudo_header(*ip, uint32_t(body.size()));
  sum.add(body);
  wire::store<uint16_t>(body.data() + at, icmp ? sum.value() : udp_checksum_field(sum), true);
}

// Goal: the result does not depend on where a frame is cut. The exception: an echo request whose ICMP header is not in
// the first buffer is not answered, but counted as truncated. No device cuts there.
TEST_F(DpdkStackFuzz, ends_the_same_way_in_one_buffer_and_in_many) {
  const std::vector<fuzz::Input> seeds = fuzz::dpdk_seeds("frame");
  Rng rng(0x737461636B);
  std::map<std::string, unsigned> seen;
  for (unsigned i = 0; i < kFrames; ++i) {
    fuzz::Input frame = seeds[size_t(rng.below(seeds.size()))];
    const auto damage = i < seeds.size() ? uint64_t{0} : rng.below(4);
    for (uint64_t count = damage; count != 0; --count) fuzz::dpdk_mutate(frame, rng);
    if (rng.below(2) == 0) mend_sums(frame);
    if (frame.empty()) continue;
    std::array<size_t, 5> sizes;
    for (size_t& size : sizes) size = 1 + size_t(rng.below(rng.below(2) == 0 ? 8 : 40));
    const End whole = feed(cut(frame, {}));
    const End pieces = feed(cut(frame, sizes));
    const bool cut_header = whole.place == "echo answer" && pieces.place == "truncated";
    if (!cut_header) {
      ASSERT_EQ(whole.place, pieces.place) << i;
      ASSERT_EQ(whole.answers, pieces.answers) << i << ' ' << whole.place;
      ASSERT_EQ(whole.content, pieces.content) << i;
    }
    ++seen[whole.place];
  }
  for (const char* place : {"arp answer",   "nd answer",  "echo answer",  "udp",        "truncated",     "vlan_other",
                            "vlan_stacked", "mac_other",  "ip_header",    "ip_length",  "ip_checksum",   "ip_fragment",
                            "ip_other",     "udp_length", "udp_checksum", "udp_port",   "icmp_checksum", "icmp_type",
                            "nd_format",    "arp_format", "eth_type",     "ip_protocol"})
    EXPECT_GT(seen[place], 0u) << place;
  EXPECT_GT(stack->neighbours().size(), 0u);
}

}  // namespace
}  // namespace ulnet::dpdk
