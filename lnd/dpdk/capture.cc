#include "lnd/dpdk/capture.h"

#ifdef ULNET_LIBPCAP
#include <pcap/pcap.h>
#endif

#include <algorithm>

namespace ulnet::dpdk {
namespace {

constexpr unsigned kTakeBudget = 1024;  ///< packets of one queue and turn of control

/// A packet that was to be sent.
bool is_ours(FrameDrop reason) {
  switch (reason) {
    case FrameDrop::kNeighbourTableFull:
    case FrameDrop::kNeighbourQueueFull:
    case FrameDrop::kNeighbourSilent:
    case FrameDrop::kNoRoute:
    case FrameDrop::kTxQueueFull:
    case FrameDrop::kTxTooLong:
    case FrameDrop::kTxRefused: return true;
    default: return false;
  }
}

}  // namespace

/// A compiled filter. Read by workers, constant while they do.
struct Capture::Filter {
#ifdef ULNET_LIBPCAP
  bpf_program program{};
  bool compiled = false;
  Filter() = default;
  ~Filter() {
    if (compiled) pcap_freecode(&program);
  }
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;
  [[nodiscard]] bool passes(Bytes bytes, uint32_t wire_bytes) const {
    if (!compiled) return true;
    const auto* data = reinterpret_cast<const u_char*>(bytes.data());
    return bpf_filter(program.bf_insns, data, wire_bytes, u_int(bytes.size())) != 0;
  }
  tl::expected<void, PortProblem> compile(const std::string& text, uint32_t snap_bytes) {
    if (text.empty()) return {};
    pcap_t* dead = pcap_open_dead(DLT_EN10MB, int(snap_bytes));
    compiled = dead != nullptr && pcap_compile(dead, &program, text.c_str(), 1, PCAP_NETMASK_UNKNOWN) == 0;
    const std::string said = dead != nullptr ? pcap_geterr(dead) : "";
    if (dead != nullptr) pcap_close(dead);
    if (!compiled) return tl::unexpected<PortProblem>({{-EINVAL, "the filter is not understood", 0}, said});
    return {};
  }
#else
  [[nodiscard]] bool passes(Bytes, uint32_t) const {
    return true;
  }
  tl::expected<void, PortProblem> compile(const std::string& text, uint32_t) {
    if (text.empty()) return {};
    return tl::unexpected<PortProblem>({{-ENOTSUP, "built without libpcap: no filters", 0}, {}});
  }
#endif
};

/// The worker's half: slots, and rings of their numbers to control and back.
class Capture::Tap final : public PacketTap {
 public:
  struct Slot {
    Instant when = kNever;
    uint32_t wire_bytes = 0;
    uint32_t bytes = 0;
    TapEvent event = TapEvent::kReceived;
    FrameDrop reason = FrameDrop::kCount;
  };
  Tap(const CaptureOptions& options, const Filter& filter, uint16_t queue)
      : full(options.slots),
        free(options.slots),
        queue_index(queue),
        options_(options),
        filter_(filter),
        slots_(options.slots),
        memory_(size_t(options.slots) * options.snap_bytes) {
    for (uint32_t i = 0; i < options.slots; ++i) (void)free.push(i);
  }

  void see(TapEvent event, FrameDrop reason, std::span<rte_mbuf* const> packets, Instant now) override {
    const bool wanted = event == TapEvent::kReceived ? options_.received
                        : event == TapEvent::kSent   ? options_.sent
                                                     : options_.dropped;
    if (!wanted) return;
    if (now - window_ >= 1s) {
      window_ = now;
      in_window_ = 0;
    }
    for (const rte_mbuf* packet : packets) see_one(event, reason, packet, now);
  }

  [[nodiscard]] Slot& slot(uint32_t index) { return slots_[index]; }
  [[nodiscard]] std::byte* bytes(uint32_t index) { return memory_.data() + size_t(index) * options_.snap_bytes; }

  SpscRing<uint32_t> full;  ///< worker to control
  SpscRing<uint32_t> free;  ///< control to worker
  const uint16_t queue_index;
  Counter skipped;  // worker: w, control: r

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  void see_one(TapEvent event, FrameDrop reason, const rte_mbuf* packet, Instant now) {
    if (spare_ == kNone && !free.pop(spare_)) {
      spare_ = kNone;
      skipped.add();
      return;
    }
    const uint32_t length = std::min(packet->pkt_len, options_.snap_bytes);
    const std::span<std::byte> to{bytes(spare_), length};
    const Bytes got = packet_read(packet, 0, length, to);
    if (got.data() != to.data() && !got.empty()) std::memcpy(to.data(), got.data(), length);
    if (!filter_.passes(to, packet->pkt_len)) return;
    if (++in_window_ > options_.rate_max) {
      skipped.add();
      return;
    }
    slots_[spare_] = {now, packet->pkt_len, length, event, reason};
    ULNET_CHECK(full.push(spare_));  // it has room for every slot
    spare_ = kNone;
  }

  const CaptureOptions& options_;
  const Filter& filter_;
  std::vector<Slot> slots_;
  std::vector<std::byte> memory_;
  uint32_t spare_ = kNone;
  uint32_t in_window_ = 0;
  Instant window_ = kNever;
};

Capture::Capture(Port& port, CaptureSink& sink, const CaptureOptions& options, Duration wall_clock)
    : port_(port), sink_(sink), options_(options), wall_clock_(wall_clock), filter_(std::make_unique<Filter>()) {}

tl::expected<std::unique_ptr<Capture>, PortProblem> Capture::start(Port& port, CaptureSink& sink,
                                                                   const CaptureOptions& options, Duration wall_clock) {
  std::unique_ptr<Capture> capture(new Capture(port, sink, options, wall_clock));
  if (options.snap_bytes < kEthBytesMax || options.snap_bytes > 65536 || options.slots < 2)
    return tl::unexpected<PortProblem>({{-EINVAL, "a capture takes 22 to 65536 bytes of a packet", 0}, {}});
  for (unsigned i = 0; i < port.queue_count(); ++i)
    if (port.queue(i).tap_in_use() != nullptr)
      return tl::unexpected<PortProblem>({{-EBUSY, "the port is being captured", 0}, {}});
  if (auto compiled = capture->filter_->compile(options.filter, options.snap_bytes); !compiled)
    return tl::unexpected(compiled.error());
  capture->writer_.begin("ulnet", port.config().name, options.snap_bytes);
  for (unsigned i = 0; i < port.queue_count(); ++i) {
    capture->taps_.push_back(std::make_unique<Tap>(capture->options_, *capture->filter_, uint16_t(i)));
    port.queue(i).ask_tap(capture->taps_.back().get());
  }
  return capture;
}

Capture::~Capture() {
  ULNET_CHECK(taps_.empty() || stopped());
}

unsigned Capture::take(Tap& tap, unsigned budget) {
  unsigned count = 0;
  for (uint32_t index; count < budget && tap.full.pop(index); ++count) {
    const Tap::Slot& slot = tap.slot(index);
    PcapngWriter::Packet packet;
    packet.since_1970 = slot.when.time_since_epoch() + wall_clock_;
    packet.bytes = {tap.bytes(index), slot.bytes};
    packet.wire_bytes = slot.wire_bytes;
    packet.queue = tap.queue_index;
    const bool out = slot.event == TapEvent::kSent || (slot.event == TapEvent::kDropped && is_ours(slot.reason));
    packet.direction = out ? PcapngWriter::Direction::kOut : PcapngWriter::Direction::kIn;
    std::string comment;
    if (slot.event == TapEvent::kDropped) {
      comment = std::string("dropped: ") + text_of(slot.reason).name;
      packet.comment = comment;
    }
    if (full()) {
      ++left_out_;
    } else {
      writer_.packet(packet);
      ++written_;
    }
    ULNET_CHECK(tap.free.push(index));
  }
  return count;
}

Result<void> Capture::write_out() {
  const auto& bytes = writer_.bytes();
  if (bytes.empty()) return {};
  if (auto wrote = sink_.write(bytes); !wrote) return wrote;
  written_bytes_ += bytes.size();
  writer_.clear();
  return {};
}

Result<unsigned> Capture::drain() {
  unsigned count = 0;
  for (auto& tap : taps_) {
    count += take(*tap, kTakeBudget);
    if (auto wrote = write_out(); !wrote) return tl::unexpected(wrote.error());
  }
  return count;
}

Result<unsigned> Capture::turn() {
  return sink_.ready() ? drain() : Result<unsigned>(0);
}

void Capture::stop_begin() {
  for (unsigned i = 0; i < port_.queue_count(); ++i) port_.queue(i).ask_tap(nullptr);
}

bool Capture::stopped() const {
  for (unsigned i = 0; i < port_.queue_count(); ++i)
    if (port_.queue(i).tap_in_use() != nullptr) return false;
  return true;
}

uint64_t Capture::skipped() const {
  uint64_t sum = left_out_;
  for (const auto& tap : taps_) sum += tap->skipped.get();
  return sum;
}

Result<void> Capture::finish(Instant now) {
  ULNET_CHECK(stopped());
  for (;;) {
    auto taken = drain();
    if (!taken) return tl::unexpected(taken.error());
    if (*taken == 0) break;
  }
  writer_.end(now.time_since_epoch() + wall_clock_, written_ + skipped(), skipped());
  return write_out();
}

}  // namespace ulnet::dpdk
