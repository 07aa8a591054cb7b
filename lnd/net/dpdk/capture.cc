#include "lnd/net/dpdk/capture.h"

#ifdef ULNET_LIBPCAP
#include <pcap/pcap.h>
#endif

#include <algorithm>

namespace ulnet::dpdk {
namespace {

constexpr unsigned kTakeBudget = 1024;  ///< packets of one queue and turn of control

using Direction = PcapngWriter::Direction;

/// Of a packet that was dropped for this reason.
Direction direction_of(FrameDrop reason) {
  switch (reason) {
    case FrameDrop::kNeighbourTableFull:
    case FrameDrop::kNeighbourQueueFull:
    case FrameDrop::kNeighbourSilent:
    case FrameDrop::kNoRoute:
    case FrameDrop::kTxQueueFull:
    case FrameDrop::kTxTooLong:
    case FrameDrop::kTxRefused:
    case FrameDrop::kNoBuffer: return Direction::kOut;
    case FrameDrop::kStopped: return Direction::kUnknown;
    default: return Direction::kIn;
  }
}

constexpr bool is_drop(TapEvent event) {
  return event == TapEvent::kDropped || event == TapEvent::kDroppedBare;
}

tl::unexpected<Problem> problem(int code, std::string what) {
  return tl::unexpected(Problem{.what = std::move(what), .code = -code});
}

static_assert(kCapturePartBytes >= kCaptureSnapBytesMax + PcapngWriter::kPacketExtraMax);

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
    if (bytes.empty()) return false;
    const auto* data = reinterpret_cast<const u_char*>(bytes.data());
    return bpf_filter(program.bf_insns, data, wire_bytes, u_int(bytes.size())) != 0;
  }
  Checked<void> compile(const std::string& text, uint32_t snap_bytes) {
    if (text.empty()) return {};
    pcap_t* dead = pcap_open_dead(DLT_EN10MB, int(snap_bytes));
    compiled = dead != nullptr && pcap_compile(dead, &program, text.c_str(), 1, PCAP_NETMASK_UNKNOWN) == 0;
    const std::string said = dead != nullptr ? pcap_geterr(dead) : "";
    if (dead != nullptr) pcap_close(dead);
    if (!compiled) return problem(EINVAL, "libpcap refuses the filter: " + said);
    return {};
  }
#else
  [[nodiscard]] bool passes(Bytes, uint32_t) const {
    return true;
  }
  Checked<void> compile(const std::string& text, uint32_t) {
    if (text.empty()) return {};
    return problem(ENOTSUP, "built without libpcap: no filters");
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
        memory_(size_t(options.slots) * options.snap_bytes),
        scratch_(options.snap_bytes) {
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
  /// Runs the filter first: a packet that does not pass takes no slot and does not count as skipped.
  void see_one(TapEvent event, FrameDrop reason, const rte_mbuf* packet, Instant now) {
    const uint32_t length = event == TapEvent::kDroppedBare ? 0 : std::min(packet->pkt_len, options_.snap_bytes);
    const Bytes got = packet_read(packet, 0, length, scratch_);
    if (!filter_.passes(got, packet->pkt_len)) return;
    uint32_t slot;
    if (in_window_ >= options_.rate_max || !free.pop(slot)) {
      skipped.add();
      return;
    }
    ++in_window_;
    if (length > 0) std::memcpy(bytes(slot), got.data(), length);
    slots_[slot] = {now, packet->pkt_len, length, event, reason};
    ULNET_CHECK(full.push(slot));  // the ring has room for every slot
  }

  const CaptureOptions& options_;
  const Filter& filter_;
  std::vector<Slot> slots_;
  std::vector<std::byte> memory_;
  std::vector<std::byte> scratch_;  // for packets in several segments
  uint32_t in_window_ = 0;
  Instant window_ = kNever;
};

Capture::Capture(Port& port, CaptureSink& sink, const CaptureOptions& options, Duration wall_clock)
    : port_(port), sink_(sink), options_(options), wall_clock_(wall_clock), filter_(std::make_unique<Filter>()) {}

Checked<std::unique_ptr<Capture>> Capture::start(Port& port, CaptureSink& sink, const CaptureOptions& options,
                                                 Duration wall_clock) {
  std::unique_ptr<Capture> capture(new Capture(port, sink, options, wall_clock));
  if (options.snap_bytes < kEthBytesMax || options.snap_bytes > kCaptureSnapBytesMax || options.slots < 2)
    return problem(EINVAL, "a capture keeps 22 to 65536 bytes of each packet");
  if (options.file_bytes_max < kCaptureFileBytesMin) return problem(EINVAL, "a capture file needs at least 4096 bytes");
  for (unsigned i = 0; i < port.queue_count(); ++i)
    if (port.queue(i).tap_in_use() != nullptr) return problem(EBUSY, "a capture of the port is already running");
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

/// Takes at most as many packets as one write may carry.
unsigned Capture::take(Tap& tap, unsigned budget) {
  const size_t room = kCapturePartBytes - options_.snap_bytes - PcapngWriter::kPacketExtraMax;
  unsigned count = 0;
  for (uint32_t index; count < budget && writer_.bytes().size() <= room && tap.full.pop(index); ++count) {
    const Tap::Slot& slot = tap.slot(index);
    PcapngWriter::Packet packet;
    packet.since_1970 = slot.when.time_since_epoch() + wall_clock_;
    packet.bytes = {tap.bytes(index), slot.bytes};
    packet.wire_bytes = slot.wire_bytes;
    packet.queue = tap.queue_index;
    packet.direction = slot.event == TapEvent::kReceived ? Direction::kIn
                       : slot.event == TapEvent::kSent   ? Direction::kOut
                                                         : direction_of(slot.reason);
    std::string comment;
    if (is_drop(slot.event)) comment = std::string("dropped: ") + text_of(slot.reason).name;
    if (slot.event == TapEvent::kDroppedBare) comment += ", before it had its headers";
    packet.comment = comment;
    put(packet);
    ULNET_CHECK(tap.free.push(index));
  }
  return count;
}

/// If one packet does not fit, the file is complete: later packets are left out, even shorter ones.
void Capture::put(const PcapngWriter::Packet& packet) {
  const uint64_t after = written_bytes_ + writer_.bytes().size() + PcapngWriter::packet_bytes(packet);
  full_ = full_ || after + PcapngWriter::kEndBytes > options_.file_bytes_max;
  if (full_) {
    ++left_out_;
    return;
  }
  writer_.packet(packet);
  ++written_;
}

Result<void> Capture::write_out() {
  const auto& bytes = writer_.bytes();
  if (bytes.empty()) return {};
  if (auto wrote = sink_.write(bytes); !wrote) return wrote;
  written_bytes_ += bytes.size();
  writer_.clear();
  return {};
}

Result<unsigned> Capture::turn() {
  unsigned count = 0;
  for (auto& tap : taps_) {
    for (unsigned left = kTakeBudget; left > 0;) {
      if (!sink_.ready()) return count;
      const unsigned taken = take(*tap, left);
      if (auto wrote = write_out(); !wrote) return tl::unexpected(wrote.error());
      if (taken == 0) break;
      count += taken;
      left -= taken;
    }
  }
  return count;
}

void Capture::stop_begin() {
  for (unsigned i = 0; i < port_.queue_count(); ++i) port_.queue(i).ask_tap(nullptr);
}

bool Capture::stopped() const {
  for (unsigned i = 0; i < port_.queue_count(); ++i)
    if (port_.queue(i).tap_in_use() != nullptr) return false;
  return true;
}

bool Capture::drained() const {
  for (const auto& tap : taps_)
    if (!tap->full.empty()) return false;
  return true;
}

uint64_t Capture::skipped() const {
  uint64_t sum = left_out_;
  for (const auto& tap : taps_) sum += tap->skipped.get();
  return sum;
}

Result<void> Capture::finish(Instant now) {
  ULNET_CHECK(stopped());
  for (auto& tap : taps_)
    for (uint32_t index; tap->full.pop(index);) ++left_out_;
  writer_.end(now.time_since_epoch() + wall_clock_, written_ + skipped(), skipped());
  return write_out();
}

}  // namespace ulnet::dpdk
