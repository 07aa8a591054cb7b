// Captures what passes a port, and what it drops with the reason, as pcapng: bounded in size and rate, and not on the
// data path when nobody captures. A worker copies the first bytes of packets that pass the filter into slots of its own
// and passes them through a ring; control writes them out. What finds no slot is counted, never waited for.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dataplane/base/ring.h"
#include "lnd/net/dpdk/port.h"
#include "lnd/net/packet/eth.h"
#include "lnd/net/packet/pcapng.h"

namespace ulnet::dpdk {

inline constexpr size_t kCapturePartBytes = 256 << 10;      ///< of one write to a sink
inline constexpr uint64_t kCaptureFileBytesMin = 4096;      ///< a capture's least size
inline constexpr uint32_t kCaptureSnapBytesMax = 64 << 10;  ///< of each packet

/// Where a capture goes: a file, or somebody who watches. Thread: control.
class CaptureSink {
 public:
  virtual ~CaptureSink() = default;
  /// False: not now. The workers' slots then fill, and what finds none is counted.
  [[nodiscard]] virtual bool ready() { return true; }
  /// Takes all of it: whole pcapng blocks, at most kCapturePartBytes. Errors end the capture.
  [[nodiscard]] virtual Result<void> write(std::span<const std::byte> bytes) = 0;
};

struct CaptureOptions {
  std::string filter;                     ///< of libpcap ("udp port 4791"); empty = everything
  uint32_t snap_bytes = 256;              ///< of each packet, and what the filter sees of it
  uint64_t file_bytes_max = 64ull << 20;  ///< of all that is written; then it ends by itself
  uint32_t rate_max = 100'000;            ///< packets per second and queue
  uint32_t slots = 4096;                  ///< packets under way to control, per queue
  bool received = true;
  bool sent = true;
  bool dropped = true;
};

class Capture {
 public:
  /// Begins to capture on all queues into `sink`, which outlives it. `wall_clock`: what to add to an Instant to get the
  /// time since 1970. Errors: EINVAL (filter; detail is libpcap's sentence), ENOTSUP (a filter, but built
  /// without libpcap), EBUSY (the port is being captured).
  [[nodiscard]] static tl::expected<std::unique_ptr<Capture>, PortProblem> start(Port& port, CaptureSink& sink,
                                                                                 const CaptureOptions& options,
                                                                                 Duration wall_clock);
  /// Requires stopped().
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// Writes out what the workers have passed on, a bounded part of it, as long as the sink is ready. Returns packets
  /// taken. Errors: those of the sink.
  [[nodiscard]] Result<unsigned> turn();
  /// True when the file has its full size: stop it.
  [[nodiscard]] bool full() const { return full_; }
  /// Asks the workers to let go; each does at its next turn, so wake the sleeping ones.
  void stop_begin();
  [[nodiscard]] bool stopped() const;
  /// Nothing waits to be written. After stopped(): turn() until it is so, or until it takes too long.
  [[nodiscard]] bool drained() const;
  /// Writes the statistics, ready or not; packets that still wait are counted as skipped. Requires stopped().
  [[nodiscard]] Result<void> finish(Instant now);

  [[nodiscard]] uint64_t written() const { return written_; }
  /// Packets that passed the filter but had no slot, came above the rate, or did not fit into the file any more.
  [[nodiscard]] uint64_t skipped() const;

 private:
  class Tap;
  struct Filter;
  Capture(Port& port, CaptureSink& sink, const CaptureOptions& options, Duration wall_clock);
  [[nodiscard]] unsigned take(Tap& tap, unsigned budget);
  void put(const PcapngWriter::Packet& packet);
  [[nodiscard]] Result<void> write_out();
  Port& port_;
  CaptureSink& sink_;
  const CaptureOptions options_;
  const Duration wall_clock_;
  std::unique_ptr<Filter> filter_;
  std::vector<std::unique_ptr<Tap>> taps_;
  PcapngWriter writer_;
  uint64_t written_ = 0;
  uint64_t left_out_ = 0;  // came when the file was full, or when it was over
  uint64_t written_bytes_ = 0;
  bool full_ = false;
};

}  // namespace ulnet::dpdk
