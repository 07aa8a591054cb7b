#include "perf/wire/apps.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "dataplane/wire/bytes.h"

namespace ulnet::perf {
namespace {

using namespace dpdk;

constexpr Duration kAnswerMax = 1s;       ///< a packet that comes back later counts as lost
constexpr Duration kLastAnswersMax = 5s;  ///< the same, behind the last packet of a run
constexpr Duration kStoodStill = 1s;      ///< a turn that comes so late: the other side may have stood still, too
constexpr unsigned kFloodAsks = 10;       ///< most pings after a flood, one per kAnswerMax
constexpr uint16_t kPingIdentifier = 0x756C;

/// The head of a payload. Each byte after it is a function of sequence and offset.
struct Stamp {
  uint64_t sequence = 0;
  int64_t sent_ns = 0;
};

std::byte pattern(uint64_t sequence, uint32_t offset) {
  return std::byte(uint8_t(sequence * 7 + offset * 13 + (offset >> 8)));
}

/// Does the payload equal the one that was sent? Walks the chain.
bool verify(const rte_mbuf* packet, uint32_t offset, uint32_t bytes, uint64_t sequence) {
  uint32_t at = 0;
  for (const rte_mbuf* segment = packet; segment != nullptr && at < bytes; segment = segment->next) {
    if (offset >= segment->data_len) {
      offset -= segment->data_len;
      continue;
    }
    const auto* data = rte_pktmbuf_mtod_offset(segment, const std::byte*, offset);
    const uint32_t here = std::min<uint32_t>(segment->data_len - offset, bytes - at);
    for (uint32_t i = 0; i < here; ++i, ++at)
      if (at >= sizeof(Stamp) && data[i] != pattern(sequence, at)) return false;
    offset = 0;
  }
  return at == bytes;
}

/// Sends every datagram back where it came from, in the packet that it came in.
class EchoServer final : public App, public UdpSink {
 public:
  explicit EchoServer(Stack& stack) : stack_(stack) { ULNET_CHECK(stack_.udp_bind(kEchoPort, *this).has_value()); }
  unsigned turn(Instant) override { return 0; }
  void udp_received(std::span<Datagram> datagrams, Instant now) override {
    for (Datagram& its : datagrams) {
      ++figures.received;
      figures.bytes += its.bytes;
      rte_mbuf* packet = its.packet;
      const uint32_t behind = packet->pkt_len - its.offset - its.bytes;
      if ((behind > 0 && rte_pktmbuf_trim(packet, uint16_t(behind)) != 0) ||
          rte_pktmbuf_adj(packet, uint16_t(its.offset)) == nullptr) {
        stack_.queue().drop(packet, FrameDrop::kTruncated, now);
        continue;
      }
      packet->ol_flags = 0;
      const UdpFlow back{its.source, its.destination, its.destination_port, its.source_port, its.traffic_class};
      figures.sent += stack_.udp_send(back, packet, now) ? 1 : 0;
    }
  }

 private:
  Stack& stack_;
};

/// Holds received packets as chains, as a message under way would, up to a number of packets. Then the oldest is freed.
class Holder final : public App, public UdpSink {
 public:
  Holder(Stack& stack, uint32_t hold) : stack_(stack) {
    ULNET_CHECK(stack_.udp_bind(kDiscardPort, *this).has_value());
    for (uint32_t i = 0; i < std::max(1u, hold / kPacketsEach); ++i)
      chains_.push_back(std::make_unique<PacketChain>(stack.queue().pool()));
  }
  unsigned turn(Instant) override { return 0; }
  void udp_received(std::span<Datagram> datagrams, Instant) override {
    figures.free_min = std::min<uint64_t>(figures.free_min, stack_.queue().pool().free_count());
    for (Datagram& its : datagrams) {
      ++figures.received;
      figures.bytes += its.bytes;
      if (in_chain_ == kPacketsEach) next_chain();
      bool held = chains_[current_]->append(its.packet, its.offset, its.bytes);
      if (!held && in_chain_ > 0 && chains_[current_]->full()) {
        next_chain();
        held = chains_[current_]->append(its.packet, its.offset, its.bytes);
      }
      if (held) {
        ++in_chain_;
        figures.held_max = std::max<uint64_t>(figures.held_max, stack_.queue().pool().held());
      } else {
        ++figures.copied;
        stack_.queue().counters().copied.add();
        packet_free(its.packet);
      }
    }
  }
  void finish(Instant) override {
    for (auto& chain : chains_) chain->clear();
  }

 private:
  static constexpr uint32_t kPacketsEach = 64;
  void next_chain() {
    current_ = (current_ + 1) % chains_.size();
    chains_[current_]->clear();
    in_chain_ = 0;
  }
  Stack& stack_;
  std::vector<std::unique_ptr<PacketChain>> chains_;
  size_t current_ = 0;
  uint32_t in_chain_ = 0;
};

/// Sends datagrams from memory of its own, lent to the port, and checks the answers. With `flood_only` there are no
/// answers. The generator then sends a ping after the last datagram. An answer to it shows that the other side has read
/// all datagrams: a closed device discards the packets that it holds.
class Generator final : public App, public UdpSink, public EchoSink {
 public:
  Generator(const AppOptions& options, Stack& stack)
      : options_(options), stack_(stack), bytes_(std::max<uint32_t>(options.bytes, sizeof(Stamp))) {
    ULNET_CHECK(stack_.udp_bind(kGeneratorPort, *this).has_value());
    stack_.set_echo_sink(this);
    slots_.resize(options.window);
    for (Slot& slot : slots_) {
      slot.memory.resize(bytes_);
      slot.owner = this;
    }
  }
  unsigned turn(Instant now) override {
    unsigned work = 0;
    const Instant exact = clock_now();
    if (now - turned_ >= kStoodStill) last_sent_ = now;
    turned_ = now;
    for (unsigned i = 0; i < kBurst && wants_more(); ++i) {
      Slot& slot = slots_[next_ % slots_.size()];
      if (slot.lease.is_open()) break;  // the port still has it
      if (slot.waiting) {
        if (now - slot.sent < kAnswerMax) break;  // the turn's time: all answers up to then have been taken
        ++figures.lost;
        slot.waiting = false;
      }
      if (!send(slot, exact, now)) break;
      last_sent_ = now;
      ++work;
    }
    if (!options_.flood_only && !wants_more() && now - last_sent_ >= kLastAnswersMax) give_up();
    if (options_.flood_only && !wants_more() && !done() && now - asked_ >= kAnswerMax) {
      asked_ = now;
      ++asked_times_;
      (void)stack_.echo_send(options_.peer, kPingIdentifier, 0, 0, now);
      ++work;
    }
    return work;
  }
  /// Sequence numbers name slots, so an answer is matched by its number.
  void udp_received(std::span<Datagram> datagrams, Instant) override {
    const Instant exact = clock_now();
    for (Datagram& its : datagrams) {
      take(its, exact);
      packet_free(its.packet);
    }
  }
  void echo_replied(const EchoReply& reply, Instant) override {
    read_by_peer_ |= reply.identifier == kPingIdentifier && asked_times_ > 0;
  }
  /// A full window is no reason to stay awake.
  [[nodiscard]] Instant next_deadline() const override {
    const Slot& next = slots_[next_ % slots_.size()];
    if (wants_more()) return next.waiting ? next.sent + kAnswerMax : kNever;
    if (done()) return kForever;
    return options_.flood_only ? asked_ + kAnswerMax : last_sent_ + kLastAnswersMax;
  }
  [[nodiscard]] bool done() const override {
    if (options_.count == 0 || figures.sent < options_.count) return false;
    if (options_.flood_only) return read_by_peer_ || asked_times_ > kFloodAsks;
    return figures.received + figures.lost >= options_.count;
  }

 private:
  struct Slot {
    TxLease lease;
    std::vector<std::byte> memory;
    Generator* owner = nullptr;
    uint64_t sequence = 0;
    Instant sent = kNever;
    bool waiting = false;
  };
  [[nodiscard]] bool wants_more() const { return options_.count == 0 || figures.sent < options_.count; }

  /// Behind the last datagram, no slot is used again: its missing answers count as lost here.
  void give_up() {
    for (Slot& slot : slots_) figures.lost += std::exchange(slot.waiting, false) ? 1 : 0;
  }

  bool send(Slot& slot, Instant exact, Instant now) {
    slot.sequence = next_;
    const Stamp stamp{next_, exact.time_since_epoch().count()};
    std::memcpy(slot.memory.data(), &stamp, sizeof stamp);
    if (options_.verify)
      for (uint32_t i = sizeof stamp; i < bytes_; ++i) slot.memory[i] = pattern(next_, i);
    const Segment segments[2] = {{slot.memory.data(), bytes_ / 2},
                                 {slot.memory.data() + bytes_ / 2, bytes_ - bytes_ / 2}};
    const Payload payload{segments, 2, 0, bytes_};
    PayloadCursor cursor(payload);
    slot.lease.open(&Generator::returned, this);
    ++figures.leases;
    rte_mbuf* frame = frame_make(stack_.queue().pool(), {}, cursor, bytes_, &slot.lease, stack_.queue().lends());
    if (frame == nullptr) {
      slot.lease.close();
      return false;
    }
    UdpFlow flow;
    flow.destination = options_.peer;
    flow.source_port = kGeneratorPort;
    flow.destination_port = options_.flood_only ? kDiscardPort : kEchoPort;
    const bool sent = stack_.udp_send(flow, frame, now);
    slot.lease.close();
    if (!sent) return false;
    slot.sent = exact;
    slot.waiting = !options_.flood_only;
    ++figures.sent;
    ++next_;
    return true;
  }

  void take(const Datagram& its, Instant exact) {
    std::array<std::byte, sizeof(Stamp)> scratch;
    const Bytes head = packet_read(its.packet, its.offset, sizeof(Stamp), scratch);
    Stamp stamp;
    if (head.size() == sizeof stamp) std::memcpy(&stamp, head.data(), sizeof stamp);
    Slot& slot = slots_[stamp.sequence % slots_.size()];
    const bool known = slot.waiting && slot.sequence == stamp.sequence;
    if (its.bytes != bytes_ || head.size() != sizeof stamp ||
        (options_.verify && !verify(its.packet, its.offset, its.bytes, stamp.sequence))) {
      ++figures.corrupted;
      return;
    }
    if (!known) return;  // came after it was given up
    slot.waiting = false;
    ++figures.received;
    figures.bytes += its.bytes;
    figures.latency.record(exact - slot.sent);
  }

  static void returned(TxLease&, void* self) { ++static_cast<Generator*>(self)->figures.leases_back; }

  const AppOptions options_;
  Stack& stack_;
  const uint32_t bytes_;
  std::vector<Slot> slots_;
  uint64_t next_ = 0;
  Instant turned_ = kNever;
  Instant last_sent_ = kNever;  ///< or later, if this worker has stood still
  Instant asked_ = kNever;      ///< when the last ping behind a flood was sent
  unsigned asked_times_ = 0;
  bool read_by_peer_ = false;
};

/// Our own ping.
class Ping final : public App, public EchoSink {
 public:
  Ping(const AppOptions& options, Stack& stack) : options_(options), stack_(stack) { stack_.set_echo_sink(this); }
  unsigned turn(Instant now) override {
    if (options_.count != 0 && figures.sent == options_.count && !waiting_) return 0;
    if (waiting_ && now - sent_ > patience()) {
      ++figures.lost;
      waiting_ = false;
    }
    if (waiting_ || (figures.sent > 0 && now - sent_ < options_.interval)) return 0;
    if (options_.count != 0 && figures.sent == options_.count) return 0;
    sent_ = clock_now();
    if (!stack_.echo_send(options_.peer, kPingIdentifier, uint16_t(figures.sent), options_.bytes, now)) return 0;
    ++figures.sent;
    waiting_ = true;
    return 1;
  }
  void echo_replied(const EchoReply& reply, Instant) override {
    if (reply.identifier != kPingIdentifier || reply.sequence != uint16_t(figures.sent - 1) || !waiting_) return;
    waiting_ = false;
    bool right = reply.bytes == options_.bytes;
    for (uint32_t i = 0; right && i < reply.bytes; ++i) {
      std::byte scratch;
      const Bytes one = packet_read(reply.packet, reply.offset + i, 1, {&scratch, 1});
      right = one.size() == 1 && one[0] == echo_byte(reply.sequence, i);
    }
    if (!right) {
      ++figures.corrupted;
      return;
    }
    ++figures.received;
    figures.bytes += reply.bytes;
    figures.latency.record(clock_now() - sent_);
  }
  [[nodiscard]] Instant next_deadline() const override {
    return waiting_ ? sent_ + patience() : sent_ + options_.interval;
  }
  [[nodiscard]] bool done() const override {
    return options_.count != 0 && figures.received + figures.lost + figures.corrupted >= options_.count;
  }

 private:
  /// The first ping waits for ARP or ND, which tries three times, a second apart. Later pings may wait for one retry.
  [[nodiscard]] Duration patience() const { return kAnswerMax + (figures.sent == 1 ? 4s : 1s); }

  const AppOptions options_;
  Stack& stack_;
  Instant sent_ = kNever;
  bool waiting_ = false;
};

/// The wire path at its shortest: receive, touch the header, send. As many bursts a turn as a stack takes.
class MacSwap final : public App {
 public:
  explicit MacSwap(PortQueue& queue) : queue_(queue) {}
  [[nodiscard]] bool raw() const override { return true; }
  unsigned turn(Instant now) override {
    unsigned work = 0;
    for (unsigned i = 0; i < kBursts; ++i) {
      const unsigned count = burst(now);
      work += count;
      if (count < kBurst) break;
    }
    return work;
  }

 private:
  static constexpr unsigned kBursts = 2;
  unsigned burst(Instant now) {
    std::array<rte_mbuf*, kBurst> packets;
    const unsigned count = queue_.receive(packets, now);
    if (count == 0) return 0;
    uint64_t bytes = 0;
    for (unsigned i = 0; i < count; ++i) {
      if (i + 1 < count) __builtin_prefetch(rte_pktmbuf_mtod(packets[i + 1], void*));
      auto* at = rte_pktmbuf_mtod(packets[i], std::byte*);
      std::array<std::byte, 6> mac;
      std::memcpy(mac.data(), at, 6);
      std::memmove(at, at + 6, 6);
      std::memcpy(at + 6, mac.data(), 6);
      packets[i]->ol_flags = 0;
      bytes += packets[i]->pkt_len;
    }
    const unsigned sent = queue_.send({packets.data(), count}, now);
    figures.bytes += bytes;
    figures.received += count;
    figures.sent += sent;
    for (unsigned i = sent; i < count; ++i) queue_.drop(packets[i], FrameDrop::kTxQueueFull, now);
    return count;
  }

  PortQueue& queue_;
};

/// Frames of the local experimental EtherType, and their return.
class RawGenerator final : public App {
 public:
  RawGenerator(const AppOptions& options, PortQueue& queue, Mac own) : options_(options), queue_(queue), own_(own) {}
  [[nodiscard]] bool raw() const override { return true; }
  unsigned turn(Instant now) override {
    unsigned work = take(now);
    if (under_way() >= options_.window) {
      if (now - last_ > kAnswerMax) figures.lost += under_way();
      return work;
    }
    const unsigned wanted = unsigned(std::min<uint64_t>(kBurst, options_.window - under_way()));
    std::array<rte_mbuf*, kBurst> burst;
    unsigned made = 0;
    for (; made < wanted; ++made) {
      burst[made] = make(now);
      if (burst[made] == nullptr) break;
    }
    const unsigned sent = queue_.send({burst.data(), made}, now);
    for (unsigned i = sent; i < made; ++i) packet_free(burst[i]);
    figures.sent += sent;
    if (sent > 0) last_ = now;
    return work + sent;
  }
  [[nodiscard]] Instant next_deadline() const override {
    return under_way() >= options_.window ? last_ + kAnswerMax : kNever;
  }

 private:
  static constexpr uint16_t kType = 0x88B5;
  /// Frames that were counted as lost may still come back. Then `ended` is larger than figures.sent.
  [[nodiscard]] uint64_t under_way() const {
    const uint64_t ended = figures.received + figures.lost;
    return figures.sent - std::min(figures.sent, ended);
  }
  rte_mbuf* make(Instant now) {
    rte_mbuf* packet = queue_.pool().take();
    if (packet == nullptr) return nullptr;
    const auto bytes = uint16_t(std::max(options_.bytes, uint32_t{kEthBytes + sizeof(Stamp)}));
    auto* at = reinterpret_cast<std::byte*>(rte_pktmbuf_append(packet, bytes));
    if (at == nullptr) {
      packet_free(packet);
      return nullptr;
    }
    eth_encode({options_.peer_mac, own_, kType, 0, {}}, at);
    const Stamp stamp{figures.sent, now.time_since_epoch().count()};
    std::memcpy(at + kEthBytes, &stamp, sizeof stamp);
    return packet;
  }
  unsigned take(Instant now) {
    std::array<rte_mbuf*, kBurst> burst;
    const unsigned count = queue_.receive(burst, now);
    for (unsigned i = 0; i < count; ++i) {
      const auto* at = rte_pktmbuf_mtod(burst[i], const std::byte*);
      Stamp stamp;
      std::memcpy(&stamp, at + kEthBytes, sizeof stamp);
      const bool ours = wire::load<uint16_t>(at + 12, true) == kType && std::memcmp(at, own_.bytes.data(), 6) == 0;
      if (ours) {
        ++figures.received;
        figures.bytes += burst[i]->pkt_len;
        figures.latency.record(now.time_since_epoch() - Duration(stamp.sent_ns));
      }
      packet_free(burst[i]);
    }
    return count;
  }
  const AppOptions options_;
  PortQueue& queue_;
  const Mac own_;
  Instant last_ = kNever;
};

}  // namespace

Result<std::unique_ptr<App>> app_make(const AppOptions& options, PortQueue& queue, Stack* stack, Mac own) {
  std::unique_ptr<App> app;
  if (options.mode == "serve") app = std::make_unique<EchoServer>(*stack);
  if (options.mode == "hold") app = std::make_unique<Holder>(*stack, options.hold);
  if (options.mode == "generate") app = std::make_unique<Generator>(options, *stack);
  if (options.mode == "ping") app = std::make_unique<Ping>(options, *stack);
  if (options.mode == "macswap") app = std::make_unique<MacSwap>(queue);
  if (options.mode == "rawgen") app = std::make_unique<RawGenerator>(options, queue, own);
  if (app == nullptr) return fail(EINVAL, "modes are serve, hold, generate, ping, macswap and rawgen");
  return app;
}

}  // namespace ulnet::perf
