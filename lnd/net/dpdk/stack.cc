// Set-up, timers and the sending side. Receiving: stack_rx.cc.
#include "lnd/net/dpdk/stack.h"

#include <algorithm>

#include "dataplane/wire/bytes.h"

namespace ulnet::dpdk {
namespace {

constexpr unsigned kFrameBytesMin = 60;  ///< without FCS; shorter frames are padded
constexpr Duration kRefusedMax = 100ms;  ///< how long packets wait for a port that takes none
constexpr unsigned kHeaderRoom = kEthBytesMax + kIpv6Bytes + kUdpBytes;
static_assert(kHeaderRoom <= RTE_PKTMBUF_HEADROOM);

}  // namespace

Stack::Config stack_config(const PortConfig& config, const Mac& mac) {
  Stack::Config out;
  out.addresses = config.addresses;
  out.neighbours = config.neighbours;
  out.mac = mac;
  out.mtu = config.mtu;
  out.vlan = config.vlan;
  out.pcp = config.pcp;
  out.cache.parked_max = kParkedPacketsMax;
  return out;
}

Stack::Stack(const Config& config, PortQueue& queue, StackMesh* mesh)
    : config_(config),
      queue_(queue),
      mesh_(mesh),
      neighbours_(config.cache, *this),
      eth_bytes_(config.tags() ? kEthBytes + kVlanBytes : kEthBytes) {
  for (const StaticNeighbour& neighbour : config.neighbours)
    (void)neighbours_.set_static(neighbour.address, neighbour.mac);  // they fit: kStaticNeighboursMax
}

Stack::~Stack() {
  ULNET_CHECK(gathered_count_ == 0 && neighbours_.parked() == 0);
}

Result<void> Stack::udp_bind(uint16_t port, UdpSink& sink) {
  Bound* free = nullptr;
  for (Bound& bound : bound_) {
    if (bound.sink == nullptr) {
      free = &bound;
    } else if (bound.port == port) {
      return fail(EADDRINUSE, "this UDP port is already bound", port);
    }
  }
  if (free == nullptr) return fail(ENOSPC, "all UDP port slots are in use", kUdpPortsMax);
  *free = {port, &sink};
  return {};
}

void Stack::udp_unbind(uint16_t port) {
  for (Bound& bound : bound_)
    if (bound.port == port) bound = {};
}

unsigned Stack::timers(Instant now) {
  now_ = now;
  return neighbours_.timers(now, kNeighbourTimerBudget);
}

void Stack::flush(Instant now) {
  if (gathered_count_ == 0) return;
  const unsigned sent = queue_.send({gathered_.data(), gathered_count_}, now);
  if (sent == 0) {
    if (refused_since_ == kNever) refused_since_ = now;
    if (now - refused_since_ < kRefusedMax) return;
    for (unsigned i = 0; i < gathered_count_; ++i) queue_.drop(gathered_[i], FrameDrop::kTxRefused, now);
    gathered_count_ = 0;
    refused_since_ = kNever;
    return;
  }
  refused_since_ = kNever;
  std::copy(gathered_.begin() + sent, gathered_.begin() + gathered_count_, gathered_.begin());
  gathered_count_ -= sent;
}

bool Stack::pending() {
  if (gathered_count_ > 0) return true;
  for (unsigned from = 0; mesh_ != nullptr && from < mesh_->workers_; ++from)
    if (!mesh_->ring(from, queue_.index()).empty()) return true;
  return false;
}

void Stack::shut(Instant now) {
  now_ = now;
  neighbours_.clear();
  flush(now);
  for (unsigned i = 0; i < gathered_count_; ++i) queue_.drop(gathered_[i], FrameDrop::kStopped, now);
  gathered_count_ = 0;
}

unsigned Stack::eth_header(const Mac& to, uint16_t type, std::byte* out) const {
  EthHeader header{to, config_.mac, type, 0, {}};
  if (config_.tags()) {
    header.vlan_count = 1;
    header.vlan_tci[0] = uint16_t(config_.pcp << kVlanPcpShift | config_.vlan);
  }
  return eth_encode(header, out);
}

rte_mbuf* Stack::small_packet(Bytes bytes) {
  rte_mbuf* packet = queue_.pool().take();
  if (packet == nullptr) {
    queue_.count_drop(FrameDrop::kNoBuffer);
    return nullptr;
  }
  auto* at = rte_pktmbuf_mtod(packet, std::byte*);
  if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
  packet->data_len = uint16_t(bytes.size());
  packet->pkt_len = packet->data_len;
  return packet;
}

void Stack::send_arp(bool reply, const Mac& to, const ArpPacket& packet, Instant now) {
  std::array<std::byte, kFrameBytesMin + kVlanBytes> bytes{};
  const unsigned at = eth_header(to, kEthArp, bytes.data());
  arp_encode(packet, bytes.data() + at);
  rte_mbuf* frame = small_packet({bytes.data(), kFrameBytesMin});
  if (frame == nullptr) return;
  (reply ? counters_.arp_answers : counters_.questions).add();
  enqueue(frame, now);
}

void Stack::send_nd(const NdMessage& message, const IpAddress& from, const IpAddress& to, const Mac& to_mac,
                    Instant now) {
  std::array<std::byte, kEthBytesMax + kIpv6Bytes + kNdBytesMax> bytes{};
  unsigned at = eth_header(to_mac, kEthIpv6, bytes.data());
  std::byte* body = bytes.data() + at + kIpv6Bytes;
  const unsigned body_bytes = nd_encode(message, body);
  IpHeader ip;
  ip.source = from;
  ip.destination = to;
  ip.protocol = kProtocolIcmpv6;
  ip.ttl = kNdHopLimit;
  ip.payload_bytes = uint16_t(body_bytes);
  at += ip_encode(ip, bytes.data() + at);
  Checksum sum = pseudo_header(ip, body_bytes);
  sum.add({body, body_bytes});
  wire::store<uint16_t>(body + 2, sum.value(), true);
  rte_mbuf* frame = small_packet({bytes.data(), at + body_bytes});
  if (frame == nullptr) return;
  (message.advertisement ? counters_.nd_answers : counters_.questions).add();
  enqueue(frame, now);
}

void Stack::announce(Instant now) {
  for (const IpPrefix& own : config_.addresses.own) {
    const IpAddress& address = own.address;
    if (address.is_v4()) {
      send_arp(false, kMacBroadcast, {false, config_.mac, address, {}, address}, now);
    } else {
      send_nd({true, address, false, true, true, config_.mac}, address, kAllNodes, group_mac(kAllNodes), now);
    }
  }
}

void Stack::neighbour_ask(const IpAddress& address, const Mac* mac) {
  const IpAddress* own = config_.addresses.source_for(address);
  if (own == nullptr) return;
  if (address.is_v4()) {
    send_arp(false, mac != nullptr ? *mac : kMacBroadcast, {false, config_.mac, *own, {}, address}, now_);
    return;
  }
  const IpAddress to = mac != nullptr ? address : solicited_node(address);
  send_nd({false, address, false, false, true, config_.mac}, *own, to, mac != nullptr ? *mac : group_mac(to), now_);
}

void Stack::neighbour_ready(void* packet, const Mac& mac) {
  auto* frame = static_cast<rte_mbuf*>(packet);
  std::memcpy(rte_pktmbuf_mtod(frame, void*), mac.bytes.data(), 6);
  enqueue(frame, now_);
}

void Stack::neighbour_failed(void* packet, FrameDrop reason) {
  queue_.drop(static_cast<rte_mbuf*>(packet), reason, now_);
}

bool Stack::enqueue(rte_mbuf* frame, Instant now) {
  if (frame->nb_segs > 1 && !queue_.offloads().multi_segment) {
    rte_mbuf* linear = packet_linear(queue_.pool(), frame);
    if (linear == nullptr) {
      queue_.drop(frame, FrameDrop::kNoBuffer, now);
      return false;
    }
    frame = linear;
    queue_.counters().copied.add();
  }
  if (gathered_count_ == gathered_.size()) flush(now);
  if (gathered_count_ == gathered_.size()) {
    queue_.drop(frame, FrameDrop::kTxQueueFull, now);
    return false;
  }
  gathered_[gathered_count_++] = frame;
  return true;
}

/// `frame` is complete but for the destination's MAC address.
bool Stack::transmit(const IpAddress& destination, rte_mbuf* frame, Instant now) {
  if (frame->pkt_len > config_.mtu + eth_bytes_) {
    queue_.drop(frame, FrameDrop::kTxTooLong, now);
    return false;
  }
  Mac group;
  const Mac* mac = &group;
  if (destination.is_group() || config_.addresses.is_broadcast(destination)) {
    group = destination.is_group() ? group_mac(destination) : kMacBroadcast;
  } else {
    const IpAddress* hop = config_.addresses.next_hop(destination);
    if (hop == nullptr) {
      queue_.drop(frame, FrameDrop::kNoRoute, now);
      return false;
    }
    now_ = now;
    const Neighbours::Answer answer = neighbours_.resolve(*hop, frame, now);
    if (answer.kind == Neighbours::Answer::kParked) return true;
    if (answer.kind == Neighbours::Answer::kRefused) {
      queue_.drop(frame, answer.reason, now);
      return false;
    }
    mac = answer.mac;
  }
  std::memcpy(rte_pktmbuf_mtod(frame, void*), mac->bytes.data(), 6);
  return enqueue(frame, now);
}

bool Stack::ip_send(const IpAddress& destination, rte_mbuf* packet, Instant now) {
  auto* at = reinterpret_cast<std::byte*>(rte_pktmbuf_prepend(packet, uint16_t(eth_bytes_)));
  if (at == nullptr) {
    queue_.drop_bare(packet, FrameDrop::kNoBuffer, now);
    return false;
  }
  eth_header({}, destination.is_v4() ? kEthIpv4 : kEthIpv6, at);
  return transmit(destination, packet, now);
}

/// Checksums of the IP and UDP headers at the front of `packet`: by the port, or here.
void Stack::set_checksums(rte_mbuf* packet, const IpHeader& ip, bool udp_sum) {
  const unsigned ip_bytes = ip.is_v4() ? kIpv4Bytes : kIpv6Bytes;
  auto* at = rte_pktmbuf_mtod(packet, std::byte*);
  const PortOffloads& offloads = queue_.offloads();
  packet->l2_len = eth_bytes_;
  packet->l3_len = ip_bytes;
  packet->l4_len = kUdpBytes;
  if (ip.is_v4()) packet->ol_flags |= RTE_MBUF_F_TX_IPV4;
  if (!ip.is_v4()) packet->ol_flags |= RTE_MBUF_F_TX_IPV6;
  if (ip.is_v4() && offloads.tx_ip_checksum) {
    packet->ol_flags |= RTE_MBUF_F_TX_IP_CKSUM;
    wire::store<uint16_t>(at + 10, 0);
  }
  if (!udp_sum) return;
  const uint32_t udp_bytes = ip.payload_bytes;
  if (offloads.tx_udp_checksum) {  // the port needs the pseudo header's sum in the field
    packet->ol_flags |= RTE_MBUF_F_TX_UDP_CKSUM;
    wire::store<uint16_t>(at + ip_bytes + 6, uint16_t(~pseudo_header(ip, udp_bytes).value()), true);
    return;
  }
  Checksum sum = pseudo_header(ip, udp_bytes);
  packet_sum(packet, ip_bytes, udp_bytes, sum);
  wire::store<uint16_t>(at + ip_bytes + 6, udp_checksum_field(sum), true);
}

/// `payload` itself if it has headroom of its own for the headers, else a new packet chained in front of it. Null: no
/// buffer, and the payload is dropped.
rte_mbuf* Stack::with_header_room(rte_mbuf* payload, Instant now) {
  if (RTE_MBUF_DIRECT(payload) && rte_mbuf_refcnt_read(payload) == 1 && rte_pktmbuf_headroom(payload) >= kHeaderRoom)
    return payload;
  rte_mbuf* packet = small_packet({});
  if (packet != nullptr && rte_pktmbuf_chain(packet, payload) == 0) return packet;
  if (packet != nullptr) packet_free(packet);
  queue_.drop_bare(payload, FrameDrop::kNoBuffer, now);
  return nullptr;
}

/// A datagram that cannot be sent gets its headers nevertheless, so that a capture shows its destination.
bool Stack::udp_send(const UdpFlow& flow, rte_mbuf* payload, Instant now) {
  IpHeader ip;
  ip.destination = flow.destination;
  ip.source = flow.source;
  if (ip.source.is_unspecified()) {
    const IpAddress* hop = config_.addresses.next_hop(flow.destination);
    const IpAddress* own = config_.addresses.source_for(hop != nullptr ? *hop : flow.destination);
    ip.source = own != nullptr ? *own : flow.destination.is_v4() ? IpAddress::of_v4(0) : IpAddress{};
  }
  const uint32_t bytes = payload->pkt_len;
  const unsigned ip_bytes = ip.is_v4() ? kIpv4Bytes : kIpv6Bytes;
  const bool too_long = bytes + kUdpBytes + ip_bytes > config_.mtu;
  rte_mbuf* packet = with_header_room(payload, now);
  if (packet == nullptr) return false;
  ip.protocol = kProtocolUdp;
  ip.traffic_class = flow.traffic_class;
  ip.payload_bytes = uint16_t(std::min<uint32_t>(kUdpBytes + bytes, UINT16_MAX - kIpv6Bytes));
  ip.identification = ip_identification_++;
  auto* at = reinterpret_cast<std::byte*>(rte_pktmbuf_prepend(packet, uint16_t(ip_bytes + kUdpBytes)));
  ip_encode(ip, at);
  udp_encode({flow.source_port, flow.destination_port, uint16_t(ip.payload_bytes - kUdpBytes), 0}, at + ip_bytes);
  if (!too_long && !ip.source.is_unspecified()) {
    set_checksums(packet, ip, flow.checksum);
    counters_.udp_sent.add();
    return ip_send(flow.destination, packet, now);
  }
  auto* front = reinterpret_cast<std::byte*>(rte_pktmbuf_prepend(packet, uint16_t(eth_bytes_)));
  eth_header({}, ip.is_v4() ? kEthIpv4 : kEthIpv6, front);
  queue_.drop(packet, too_long ? FrameDrop::kTxTooLong : FrameDrop::kNoRoute, now);
  return false;
}

bool Stack::echo_send(const IpAddress& destination, uint16_t identifier, uint16_t sequence, uint32_t bytes,
                      Instant now) {
  const IpAddress* hop = config_.addresses.next_hop(destination);
  const IpAddress* own = hop != nullptr ? config_.addresses.source_for(*hop) : nullptr;
  if (own == nullptr) {
    queue_.count_drop(FrameDrop::kNoRoute);
    return false;
  }
  const bool v6 = !destination.is_v4();
  IpHeader ip;
  ip.source = *own;
  ip.destination = destination;
  ip.protocol = v6 ? kProtocolIcmpv6 : kProtocolIcmp;
  ip.payload_bytes = uint16_t(kIcmpEchoBytes + bytes);
  ip.identification = ip_identification_++;
  const unsigned ip_bytes = v6 ? kIpv6Bytes : kIpv4Bytes;
  if (bytes + kIcmpEchoBytes + ip_bytes > config_.mtu) {
    queue_.count_drop(FrameDrop::kTxTooLong);
    return false;
  }
  std::array<std::byte, kIpv6Bytes + kIcmpEchoBytes> head;
  ip_encode(ip, head.data());
  icmp_echo_encode({IcmpKind::kEchoRequest, 0, 0, 0, identifier, sequence}, v6, head.data() + ip_bytes);
  std::array<std::byte, kMtuMax> pattern;
  for (uint32_t i = 0; i < bytes; ++i) pattern[i] = echo_byte(sequence, i);
  const Segment segment{pattern.data(), bytes};
  PayloadCursor cursor(Payload{&segment, 1, 0, bytes});
  rte_mbuf* packet =
      frame_make(queue_.pool(), Bytes(head).first(ip_bytes + kIcmpEchoBytes), cursor, bytes, nullptr, true);
  if (packet == nullptr) {
    queue_.count_drop(FrameDrop::kNoBuffer);
    return false;
  }
  Checksum sum = v6 ? pseudo_header(ip, ip.payload_bytes) : Checksum{};
  packet_sum(packet, ip_bytes, ip.payload_bytes, sum);
  wire::store<uint16_t>(rte_pktmbuf_mtod(packet, std::byte*) + ip_bytes + 2, sum.value(), true);
  counters_.echo_requests.add();
  return ip_send(destination, packet, now);
}

}  // namespace ulnet::dpdk
