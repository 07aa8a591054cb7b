// The receiving side of the stack: from a frame to its receiver, or to a counted drop.
#include "dataplane/wire/bytes.h"
#include "lnd/net/dpdk/stack.h"

namespace ulnet::dpdk {

struct Stack::Frame {
  rte_mbuf* packet = nullptr;
  Bytes head;  ///< the first bytes, contiguous: all headers that we know, or the whole frame if it is shorter
  const EthHeader* eth = nullptr;
  const IpHeader* ip = nullptr;
  uint32_t at = 0;  ///< offset of the next part to decode
  [[nodiscard]] Bytes rest() const { return head.subspan(std::min<size_t>(at, head.size())); }
};

unsigned Stack::poll(unsigned budget, Instant now) {
  now_ = now;
  unsigned work = take_news(now);
  std::array<rte_mbuf*, kBurst> burst;
  if (budget == 0) (void)queue_.receive({}, now);  // control may wait until the queue stops
  for (unsigned taken = 0; taken < budget;) {
    const unsigned wanted = std::min<unsigned>(kBurst, budget - taken);
    const unsigned count = queue_.receive({burst.data(), wanted}, now);
    for (unsigned i = 0; i < count; ++i) {
      if (i + 1 < count) __builtin_prefetch(rte_pktmbuf_mtod(burst[i + 1], void*));
      receive(burst[i], now);
    }
    deliver(now);
    taken += count;
    work += count;
    if (count < wanted) break;
  }
  return work;
}

void Stack::receive(rte_mbuf* packet, Instant now) {
  std::array<std::byte, kHeadersMax> scratch;
  Frame frame;
  frame.packet = packet;
  frame.head = packet_read(packet, 0, std::min<uint32_t>(packet->pkt_len, kHeadersMax), scratch);
  const auto eth = eth_decode(frame.head);
  if (!eth) return queue_.drop(packet, eth.error(), now);
  frame.eth = &*eth;
  if (auto passed = ethernet(frame); !passed) return queue_.drop(packet, passed.error(), now);
  if (eth->type == kEthArp) return arp(frame, now);
  const auto header = ip_header(frame);
  if (!header) return queue_.drop(packet, header.error(), now);
  frame.ip = &*header;
  if (auto passed = ip(frame); !passed) return queue_.drop(packet, passed.error(), now);
  if (header->protocol == kProtocolUdp) return udp(frame, now);
  if (header->protocol == (header->is_v4() ? kProtocolIcmp : kProtocolIcmpv6)) return icmp(frame, now);
  queue_.drop(packet, FrameDrop::kIpProtocol, now);
}

Decoded<void> Stack::ethernet(Frame& frame) {
  const EthHeader* eth = frame.eth;
  frame.at = eth->bytes();
  const bool stripped = (frame.packet->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED) != 0;
  if (eth->vlan_count + (stripped ? 1 : 0) > 1) return dpdk::drop(FrameDrop::kVlanStacked);
  uint16_t vlan = 0;  // an id of 0 is a priority tag: as untagged
  if (stripped) vlan = frame.packet->vlan_tci & kVlanIdMask;
  if (eth->vlan_count == 1) vlan = eth->vlan_tci[0] & kVlanIdMask;
  if (vlan != config_.vlan) return dpdk::drop(FrameDrop::kVlanOther);
  if (eth->source.is_group() || eth->source == config_.mac) return dpdk::drop(FrameDrop::kMacSource);
  if (eth->destination != config_.mac && !eth->destination.is_group()) return dpdk::drop(FrameDrop::kMacOther);
  if (eth->type != kEthArp && eth->type != kEthIpv4 && eth->type != kEthIpv6) return dpdk::drop(FrameDrop::kEthType);
  return {};
}

/// ARP: answers requests for our addresses. Learns from packets to us, and updates known neighbours from all (RFC 826).
void Stack::arp(Frame& frame, Instant now) {
  const auto packet = arp_decode(frame.rest());
  if (!packet) return queue_.drop(frame.packet, packet.error(), now);
  if (config_.addresses.is_ours(packet->sender)) return queue_.drop(frame.packet, FrameDrop::kIpSource, now);
  const bool for_us = config_.addresses.is_ours(packet->target);
  const bool answer = packet->reply && for_us;
  if (!packet->sender.is_unspecified())
    learn(packet->sender, packet->sender_mac, answer ? Neighbours::News::kAnswer : Neighbours::News::kClaim, for_us,
          now);
  if (!for_us) return queue_.drop(frame.packet, FrameDrop::kIpOther, now);
  if (!packet->reply)
    send_arp(true, packet->sender_mac, {true, config_.mac, packet->target, packet->sender_mac, packet->sender}, now);
  packet_free(frame.packet);
}

Decoded<IpHeader> Stack::ip_header(const Frame& frame) {
  const size_t packet_bytes = frame.packet->pkt_len - frame.at;
  if (frame.eth->type != kEthIpv4) return ipv6_decode(frame.rest(), packet_bytes);
  const uint64_t flags = frame.packet->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK;
  if (flags == RTE_MBUF_F_RX_IP_CKSUM_BAD) return dpdk::drop(FrameDrop::kIpChecksum);
  const auto check = flags == RTE_MBUF_F_RX_IP_CKSUM_GOOD ? ChecksumCheck::kSkip : ChecksumCheck::kVerify;
  return ipv4_decode(frame.rest(), packet_bytes, check);
}

Decoded<void> Stack::ip(Frame& frame) {
  frame.at += frame.ip->header_bytes;
  const PortAddresses& own = config_.addresses;
  const IpAddress& from = frame.ip->source;
  if (from.is_group() || own.is_broadcast(from) || own.is_ours(from)) return dpdk::drop(FrameDrop::kIpSource);
  const IpAddress& to = frame.ip->destination;
  const bool ours = own.is_ours(to) || (to.is_group() ? own.is_our_group(to) : own.is_broadcast(to));
  if (!ours) return dpdk::drop(FrameDrop::kIpOther);
  return {};
}

void Stack::udp(Frame& frame, Instant now) {
  const auto header = udp_decode(frame.rest(), frame.ip->payload_bytes);
  if (!header) return queue_.drop(frame.packet, header.error(), now);
  const Bound* bound = nullptr;
  for (const Bound& one : bound_)
    if (one.sink != nullptr && one.port == header->destination_port) bound = &one;
  if (bound == nullptr) return queue_.drop(frame.packet, FrameDrop::kUdpPort, now);
  const uint64_t flags = frame.packet->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;
  if (header->checksum != 0 && flags != RTE_MBUF_F_RX_L4_CKSUM_GOOD) {
    const uint32_t udp_bytes = kUdpBytes + header->payload_bytes;
    Checksum sum = pseudo_header(*frame.ip, udp_bytes);
    packet_sum(frame.packet, frame.at, udp_bytes, sum);
    if (flags == RTE_MBUF_F_RX_L4_CKSUM_BAD || sum.value() != 0)
      return queue_.drop(frame.packet, FrameDrop::kUdpChecksum, now);
  }
  if (datagram_sink_ != bound->sink) deliver(now);
  datagram_sink_ = bound->sink;
  Datagram& datagram = datagrams_[datagram_count_++];
  datagram.packet = frame.packet;
  datagram.offset = frame.at + kUdpBytes;
  datagram.bytes = header->payload_bytes;
  datagram.source = frame.ip->source;
  datagram.destination = frame.ip->destination;
  datagram.source_port = header->source_port;
  datagram.destination_port = header->destination_port;
  datagram.traffic_class = frame.ip->traffic_class;
  datagram.ip_bytes = uint8_t(frame.ip->header_bytes);
  if (datagram_count_ == datagrams_.size()) deliver(now);
}

void Stack::deliver(Instant now) {
  if (datagram_count_ == 0) return;
  const unsigned count = std::exchange(datagram_count_, 0);
  counters_.udp_delivered.add(count);
  datagram_sink_->udp_received({datagrams_.data(), count}, now);
}

void Stack::icmp(Frame& frame, Instant now) {
  const bool v6 = !frame.ip->is_v4();
  const uint32_t bytes = frame.ip->payload_bytes;
  Checksum sum = v6 ? pseudo_header(*frame.ip, bytes) : Checksum{};
  packet_sum(frame.packet, frame.at, bytes, sum);
  if (sum.value() != 0) return queue_.drop(frame.packet, FrameDrop::kIcmpChecksum, now);
  const Bytes body = frame.rest();
  const auto header = icmp_decode(body.first(std::min<size_t>(body.size(), bytes)), v6);
  if (!header) return queue_.drop(frame.packet, header.error(), now);
  if (v6 && (header->type == kNdSolicitation || header->type == kNdAdvertisement)) return discovery(frame, now);
  switch (header->kind) {
    case IcmpKind::kOther: return queue_.drop(frame.packet, FrameDrop::kIcmpType, now);
    case IcmpKind::kEchoRequest: return echo_request(frame, now);
    case IcmpKind::kEchoReply: break;
  }
  counters_.echo_replies.add();
  if (echo_sink_ != nullptr) {
    echo_sink_->echo_replied({frame.packet, frame.at + kIcmpEchoBytes, bytes - kIcmpEchoBytes, frame.ip->source,
                              header->identifier, header->sequence},
                             now);
  }
  packet_free(frame.packet);
}

/// Turns the request's packet into the answer: addresses change places, the data stay in place.
void Stack::echo_request(Frame& frame, Instant now) {
  rte_mbuf* packet = frame.packet;
  if (!config_.addresses.is_ours(frame.ip->destination)) return queue_.drop(packet, FrameDrop::kIcmpFormat, now);
  if (packet->data_len < frame.at + kIcmpEchoBytes || rte_mbuf_refcnt_read(packet) != 1)
    return queue_.drop(packet, FrameDrop::kTruncated, now);
  const uint32_t frame_bytes = frame.at + frame.ip->payload_bytes;
  if (packet->pkt_len > frame_bytes && packet->nb_segs == 1 && frame_bytes >= 60) {  // trailing bytes are cut off
    packet->data_len = uint16_t(frame_bytes);
    packet->pkt_len = frame_bytes;
  }
  auto* start = rte_pktmbuf_mtod(packet, std::byte*);
  const uint32_t ip_at = frame.at - frame.ip->header_bytes;
  icmp_echo_answer(start + frame.at, !frame.ip->is_v4());
  IpHeader answer = *frame.ip;
  std::swap(answer.source, answer.destination);
  answer.ttl = kIpTtl;
  if (frame.ip->header_bytes == kIpv4Bytes || !frame.ip->is_v4()) {
    ip_encode(answer, start + ip_at);
  } else {  // options stay as they are, and so does the sum: only addresses change places
    std::memcpy(start + ip_at + 12, answer.source.bytes.data() + 12, 4);
    std::memcpy(start + ip_at + 16, answer.destination.bytes.data() + 12, 4);
  }
  std::memcpy(start, frame.eth->source.bytes.data(), 6);
  std::memcpy(start + 6, config_.mac.bytes.data(), 6);
  const bool stripped = (packet->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED) != 0;
  packet->ol_flags = 0;
  if (stripped && config_.tags()) {  // the tag was taken off: put ours there
    if (rte_pktmbuf_prepend(packet, kVlanBytes) == nullptr) return queue_.drop(packet, FrameDrop::kNoBuffer, now);
    eth_header(frame.eth->source, frame.eth->type, rte_pktmbuf_mtod(packet, std::byte*));
  }
  counters_.echo_answers.add();
  enqueue(packet, now);
}

void Stack::discovery(Frame& frame, Instant now) {
  std::array<std::byte, kHeadersMax> scratch;
  const Bytes body = packet_read(frame.packet, frame.at,
                                 std::min<uint32_t>(frame.ip->payload_bytes, uint32_t(scratch.size())), scratch);
  const auto message = nd_decode(*frame.ip, body);
  if (!message) return queue_.drop(frame.packet, message.error(), now);
  if (message->advertisement) {
    auto news = Neighbours::News::kClaim;
    if (message->solicited) news = Neighbours::News::kAnswer;
    if (!message->overrides) news = Neighbours::News::kDoubtful;
    if (config_.addresses.is_ours(message->target)) return queue_.drop(frame.packet, FrameDrop::kIpSource, now);
    learn(message->target, message->has_mac ? message->mac : frame.eth->source, news, false, now);
    return packet_free(frame.packet);
  }
  if (!config_.addresses.is_ours(message->target)) return queue_.drop(frame.packet, FrameDrop::kIpOther, now);
  const bool probe = frame.ip->source.is_unspecified();
  const Mac asker = message->has_mac ? message->mac : frame.eth->source;
  if (!probe) learn(frame.ip->source, asker, Neighbours::News::kClaim, true, now);
  const IpAddress to = probe ? kAllNodes : frame.ip->source;
  send_nd({true, message->target, !probe, true, true, config_.mac}, message->target, to,
          probe ? group_mac(kAllNodes) : asker, now);
  packet_free(frame.packet);
}

void Stack::learn(const IpAddress& address, const Mac& mac, Neighbours::News news, bool create, Instant now) {
  neighbours_.learn(address, mac, news, create, now);
  if (mesh_ == nullptr) return;
  for (unsigned to = 0; to < mesh_->workers_; ++to) {
    if (to == queue_.index()) continue;
    auto& ring = mesh_->ring(queue_.index(), to);
    if (!ring.push({address, mac, news})) {
      counters_.news_lost.add();
    } else if (mesh_->wake_[to].wake != nullptr) {
      ring.fence_pushes();  // as IdleGate::notify() does
      mesh_->wake_[to].wake(mesh_->wake_[to].context);
    }
  }
}

unsigned Stack::take_news(Instant now) {
  unsigned count = 0;
  for (unsigned from = 0; mesh_ != nullptr && from < mesh_->workers_; ++from) {
    if (from == queue_.index()) continue;
    StackMesh::News news;
    for (unsigned i = 0; i < kBurst && mesh_->ring(from, queue_.index()).pop(news); ++i, ++count)
      neighbours_.learn(news.address, news.mac, news.news, false, now);
  }
  return count;
}

}  // namespace ulnet::dpdk
