// Captures the packets of a port as pcapng: received and sent ones, and dropped ones with the reason. A capture is
// bounded in size and rate. While none runs, the data path only checks that there is no tap. A worker copies the first
// bytes of each packet that passes the filter into one of its slots. The worker passes the slot's number to control
// through a ring, and control writes the packet out. If no slot is free, the worker counts the packet and does not
// wait.
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

/// Destination of a capture: a file, or a client that watches. Thread: control.
class CaptureSink {
 public:
  virtual ~CaptureSink() = default;
  /// False: no write now. The workers' slots then fill up, and packets without a slot are counted.
  [[nodiscard]] virtual bool ready() { return true; }
  /// Takes all of `bytes`: whole pcapng blocks, at most kCapturePartBytes. Errors end the capture.
  [[nodiscard]] virtual Result<void> write(std::span<const std::byte> bytes) = 0;
};

struct CaptureOptions {
  std::string filter;                     ///< of libpcap ("udp port 4791"); empty = everything
  uint32_t snap_bytes = 256;              ///< of each packet, and what the filter sees of it
  uint64_t file_bytes_max = 64ull << 20;  ///< of the whole file; the owner stops a full() capture
  uint32_t rate_max = 100'000;            ///< packets per second and queue
  uint32_t slots = 4096;                  ///< packets under way to control, per queue
  bool received = true;
  bool sent = true;
  bool dropped = true;
};

class Capture {
 public:
  /// Begins to capture on all queues into `sink`, which outlives the capture. An Instant plus `wall_clock` is the time
  /// since 1970. Errors: EINVAL (filter, with libpcap's sentence), ENOTSUP (a filter, but built without libpcap),
  /// EBUSY (the port is being captured).
  [[nodiscard]] static Checked<std::unique_ptr<Capture>> start(Port& port, CaptureSink& sink,
                                                               const CaptureOptions& options, Duration wall_clock);
  /// Requires stopped().
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// Writes out what the workers have passed on, a bounded part of it, as long as the sink is ready. Returns packets
  /// taken. Errors: those of the sink.
  [[nodiscard]] Result<unsigned> turn();
  /// True when the file has its full size: stop it.
  [[nodiscard]] bool full() const { return full_; }
  /// Signals the workers to release their taps. Each does so at its next turn, so wake the sleeping ones.
  void stop_begin();
  [[nodiscard]] bool stopped() const;
  /// True when nothing waits to be written. After stopped(), call turn() until then, or until a time limit.
  [[nodiscard]] bool drained() const;
  /// Writes the statistics, even if the sink is not ready. Packets that still wait count as skipped. Requires
  /// stopped().
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
  uint64_t left_out_ = 0;  // packets after the file was full, and those that waited at finish()
  uint64_t written_bytes_ = 0;
  bool full_ = false;
};

}  // namespace ulnet::dpdk
