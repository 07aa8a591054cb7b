// The small network stack of one port on one worker. A stack answers ARP, neighbour discovery and echo, resolves
// neighbours, hands UDP to the sinks of bound ports, and sends UDP and echo requests. No TCP, no fragments, no routing.
// Thread: its worker. Each worker of a port has a stack. The stacks exchange news of neighbours through StackMesh,
// because answers arrive on any queue of the port.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "dataplane/base/ring.h"
#include "lnd/net/dpdk/port_addresses.h"
#include "lnd/net/dpdk/port_config.h"
#include "lnd/net/dpdk/port_queue.h"
#include "lnd/net/packet/arp.h"
#include "lnd/net/packet/eth.h"
#include "lnd/net/packet/icmp.h"
#include "lnd/net/packet/nd.h"
#include "lnd/net/packet/neighbours.h"
#include "lnd/net/packet/udp.h"

namespace ulnet::dpdk {

inline constexpr unsigned kUdpPortsMax = 8;            ///< UDP ports bound on one stack
inline constexpr unsigned kNewsRing = 256;             ///< neighbour news under way between two workers
inline constexpr unsigned kNeighbourTimerBudget = 16;  ///< neighbours looked after in one turn

/// A received UDP datagram. The packet is the receiver's.
struct Datagram {
  rte_mbuf* packet = nullptr;
  uint32_t offset = 0;  ///< of the payload
  uint32_t bytes = 0;   ///< of the payload
  IpAddress source;
  IpAddress destination;
  uint16_t source_port = 0;
  uint16_t destination_port = 0;
  uint8_t traffic_class = 0;  ///< ECN in its low bits
  uint8_t ip_bytes = 0;       ///< of the IP header with its options
};

/// Receiver of the datagrams of a bound UDP port.
class UdpSink {
 public:
  /// At most kBurst at once, in order of arrival. Takes all packets.
  virtual void udp_received(std::span<Datagram> datagrams, Instant now) = 0;

 protected:
  ~UdpSink() = default;
};

/// One byte of an echo request's data. The pattern reveals blocks in another order, or of another request.
[[nodiscard]] constexpr std::byte echo_byte(uint16_t sequence, uint32_t offset) {
  return std::byte(uint8_t(sequence * 31 + offset + (offset >> 8) * 7));
}

/// An answer to echo_send(). The packet stays the stack's.
struct EchoReply {
  const rte_mbuf* packet = nullptr;
  uint32_t offset = 0;  ///< of the data
  uint32_t bytes = 0;
  IpAddress from;
  uint16_t identifier = 0;
  uint16_t sequence = 0;
};
class EchoSink {
 public:
  virtual void echo_replied(const EchoReply& reply, Instant now) = 0;

 protected:
  ~EchoSink() = default;
};

/// Where a datagram goes and how.
struct UdpFlow {
  IpAddress destination;
  IpAddress source;  ///< unspecified = chosen by the link
  uint16_t source_port = 0;
  uint16_t destination_port = 0;
  uint8_t traffic_class = 0;
  bool checksum = true;  ///< RoCE sends none
};

/// News of neighbours between the stacks of one port. Made and destroyed by control, around the stacks.
class StackMesh {
 public:
  struct News {
    IpAddress address;
    Mac mac;
    Neighbours::News news = Neighbours::News::kClaim;
  };
  explicit StackMesh(unsigned workers) : workers_(workers), rings_(size_t(workers) * workers), wake_(workers) {
    for (auto& ring : rings_) ring = std::make_unique<SpscRing<News>>(kNewsRing);
  }
  /// Control, before the workers start: how to wake a worker that sleeps, once the push is fenced
  /// (IdleGate::notify_stored).
  void set_waker(unsigned worker, void (*wake)(void*), void* context) { wake_[worker] = {wake, context}; }

 private:
  friend class Stack;
  struct Waker {
    void (*wake)(void*) = nullptr;
    void* context = nullptr;
  };
  SpscRing<News>& ring(unsigned from, unsigned to) { return *rings_[size_t(from) * workers_ + to]; }
  const unsigned workers_;
  std::vector<std::unique_ptr<SpscRing<News>>> rings_;
  std::vector<Waker> wake_;
};

/// One writer: the worker.
struct StackCounters {
  Counter arp_answers, nd_answers, echo_answers, echo_requests, echo_replies, udp_delivered, udp_sent;
  Counter questions;  ///< ARP requests and neighbour solicitations sent
  Counter news_lost;  ///< the ring to another worker was full; that worker resolves by itself
};

class Stack final : NeighbourActions {
 public:
  struct Config {
    PortAddresses addresses;
    std::vector<StaticNeighbour> neighbours;
    Mac mac;
    uint16_t mtu = 1500;
    uint16_t vlan = 0;
    uint8_t pcp = 0;
    [[nodiscard]] bool tags() const { return vlan != 0 || pcp != 0; }
    NeighbourConfig cache;
  };
  /// `mesh` may be null when there is one worker. Queue and mesh outlive the stack. `worker` is the queue's index.
  Stack(const Config& config, PortQueue& queue, StackMesh* mesh);
  ~Stack();
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  // --- the worker's turn ---
  /// Receives at most `budget` packets and runs each to its end. Returns work done.
  unsigned poll(unsigned budget, Instant now);
  /// Handles neighbours that are due. Returns work done.
  unsigned timers(Instant now);
  /// Hands the gathered packets to the port. Packets that the port does not take stay for the next turn.
  void flush(Instant now);
  /// Packets that can be gathered before the next flush(). Hands over what was gathered if there is no room.
  [[nodiscard]] unsigned tx_room(Instant now) {
    if (gathered_count_ == gathered_.size()) flush(now);
    return unsigned(gathered_.size()) - gathered_count_;
  }
  [[nodiscard]] Instant next_deadline() { return neighbours_.next_deadline(); }
  /// Something to do without a packet: news, or packets that the port has not taken. Packets: PortQueue::has_packets().
  [[nodiscard]] bool pending();
  /// Gives back everything that waits here. After shut() the stack must not be polled.
  void shut(Instant now);

  // --- users ---
  /// Errors: EADDRINUSE, ENOSPC.
  [[nodiscard]] Result<void> udp_bind(uint16_t port, UdpSink& sink);
  void udp_unbind(uint16_t port);
  /// Sends `payload` (its headroom takes the headers if it has one of its own). Takes it in any case. False: dropped
  /// and counted at once.
  bool udp_send(const UdpFlow& flow, rte_mbuf* payload, Instant now);
  /// Takes a complete IP packet for `destination`, with `kEthBytesMax` bytes of headroom in its first segment.
  bool ip_send(const IpAddress& destination, rte_mbuf* packet, Instant now);
  void set_echo_sink(EchoSink* sink) { echo_sink_ = sink; }
  /// Sends an echo request with `bytes` of data, as echo_byte() says. False: dropped and counted.
  bool echo_send(const IpAddress& destination, uint16_t identifier, uint16_t sequence, uint32_t bytes, Instant now);
  /// Announces our addresses on the link (gratuitous ARP, unsolicited advertisement). Queue 0 does so at the start and
  /// when the link comes back.
  void announce(Instant now);

  [[nodiscard]] const StackCounters& counters() const { return counters_; }
  [[nodiscard]] Neighbours& neighbours() { return neighbours_; }
  [[nodiscard]] PortQueue& queue() { return queue_; }
  [[nodiscard]] const Config& config() const { return config_; }

 private:
  struct Frame;  // stack_rx.cc: a received frame with what is known of it so far
  struct Bound {
    uint16_t port = 0;
    UdpSink* sink = nullptr;
  };
  // receive side (stack_rx.cc)
  void receive(rte_mbuf* packet, Instant now);
  [[nodiscard]] Decoded<void> ethernet(Frame& frame);
  void arp(Frame& frame, Instant now);
  [[nodiscard]] static Decoded<IpHeader> ip_header(const Frame& frame);
  [[nodiscard]] Decoded<void> ip(Frame& frame);
  void udp(Frame& frame, Instant now);
  void icmp(Frame& frame, Instant now);
  void discovery(Frame& frame, Instant now);
  void echo_request(Frame& frame, Instant now);
  void deliver(Instant now);
  void learn(const IpAddress& address, const Mac& mac, Neighbours::News news, bool create, Instant now);
  unsigned take_news(Instant now);
  // send side (stack.cc)
  unsigned eth_header(const Mac& to, uint16_t type, std::byte* out) const;
  [[nodiscard]] rte_mbuf* small_packet(Bytes bytes);
  [[nodiscard]] rte_mbuf* with_header_room(rte_mbuf* payload, Instant now);
  void send_arp(bool reply, const Mac& to, const ArpPacket& packet, Instant now);
  void send_nd(const NdMessage& message, const IpAddress& from, const IpAddress& to, const Mac& to_mac, Instant now);
  bool transmit(const IpAddress& destination, rte_mbuf* frame, Instant now);
  bool enqueue(rte_mbuf* frame, Instant now);
  void set_checksums(rte_mbuf* packet, const IpHeader& ip, bool udp_sum);
  void neighbour_ask(const IpAddress& address, const Mac* mac) override;
  void neighbour_ready(void* packet, const Mac& mac) override;
  void neighbour_failed(void* packet, FrameDrop reason) override;

  const Config config_;
  PortQueue& queue_;
  StackMesh* mesh_;
  Neighbours neighbours_;
  StackCounters counters_;
  EchoSink* echo_sink_ = nullptr;
  Instant now_ = kNever;  ///< of the call under way, for NeighbourActions
  unsigned eth_bytes_;    ///< of our own Ethernet headers
  uint16_t ip_identification_ = 0;
  std::array<Bound, kUdpPortsMax> bound_{};
  std::array<Datagram, kBurst> datagrams_;
  unsigned datagram_count_ = 0;
  UdpSink* datagram_sink_ = nullptr;
  std::array<rte_mbuf*, kTxGather> gathered_;
  unsigned gathered_count_ = 0;
  Instant refused_since_ = kNever;  ///< the port has taken nothing since
};

/// The stack configuration of a port.
[[nodiscard]] Stack::Config stack_config(const PortConfig& config, const Mac& mac);

}  // namespace ulnet::dpdk
