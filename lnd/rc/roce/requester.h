// The requesting half of a queue pair: operations in order, their packets, answers, and repeats (go-back-N). The caller
// makes the frames. No I/O; time is handed in. Thread: the worker of the queue pair. Source: docs/wire/roce.md §4.
#pragma once
#include <memory>

#include "dataplane/state/payload.h"
#include "lnd/rc/rc.h"
#include "lnd/rc/roce/counts.h"
#include "lnd/rc/roce/proto/headers.h"
#include "lnd/rc/roce/retry_timer.h"
#include "lnd/rc/roce/window.h"

namespace ulnet::rc::roce {

struct RequesterConfig {
  uint32_t work = 0;    ///< operations under way at once
  uint32_t pieces = 1;  ///< segments of one operation
  uint32_t mtu = 1024;
  Psn first;
  uint8_t retry_count = 0;
  uint8_t rnr_retry_count = 0;  ///< 7: no end
  Duration timeout{};           ///< of an acknowledgement; 0: no end
};

/// An operation from its post until all its packets are acknowledged, and its owner has taken it. post() copies the
/// fields of its caller one by one.
struct Request {
  uint64_t token = 0;
  bool write = false;
  uint32_t bytes = 0;
  uint32_t packets = 0;
  Psn first;
  uint64_t address = 0;  ///< of a WRITE
  uint32_t key = 0;      ///< of a WRITE
  uint32_t segments = 0;
};

/// The next packet.
struct Step {
  const Request* request = nullptr;
  RequestShape shape;
  Psn psn;
  bool ack_request = false;
  uint32_t place = 0;                ///< of the operation: less than places(), its own until it is taken
  uint32_t offset = 0, bytes = 0;    ///< of the payload, in the operation
  PayloadCursor* payload = nullptr;  ///< the caller advances it by `bytes`
};

class Requester {
 public:
  /// Allocates: made on the control thread. `counts` outlives this.
  Requester(const RequesterConfig& config, Counts& counts);

  /// Places of operations: `work`, rounded up to a power of two.
  [[nodiscard]] uint32_t places() const { return uint32_t(place_mask_) + 1; }
  [[nodiscard]] uint32_t room() const { return config_.work - uint32_t(tail_ - head_); }
  /// Is there a place, and are there packet numbers, for an operation of this length?
  [[nodiscard]] bool fits(uint32_t bytes) const;
  /// Requires: fits(), and at most `pieces` segments. The segments are copied; their memory is in use until the
  /// operation is taken.
  void post(std::span<const Segment> from, const Request& what);

  /// True: `step` is the next packet. No effect until sent() says that it is on its way.
  [[nodiscard]] bool next(Step& step, Instant now);
  void sent(const Step& step, Instant now);
  /// True if next() would find a packet.
  [[nodiscard]] bool ready(Instant now) const;

  /// An answer has come. An answer to a request that was acknowledged before, or never sent, has no effect.
  void answered(const Aeth& aeth, Psn psn, Instant now);
  void congested() { window_.halve(next_); }
  /// The time of deadline() has come.
  void expire(Instant now);
  [[nodiscard]] Instant deadline() const;

  /// The oldest operation, if all of it is acknowledged.
  [[nodiscard]] const Request* done() const { return done_ > head_ ? &at(head_) : nullptr; }
  /// Its Step::place. Requires: done().
  [[nodiscard]] uint32_t done_place() const { return place_of(head_); }
  /// Requires: done().
  void take() { ++head_; }
  /// Operations that are neither acknowledged nor failed.
  [[nodiscard]] uint32_t pending() const { return uint32_t(tail_ - done_); }
  /// Not kNone: nothing is sent any more.
  [[nodiscard]] Cause failure() const { return failure_; }

 private:
  [[nodiscard]] uint32_t place_of(uint64_t count) const { return uint32_t(count & place_mask_); }
  [[nodiscard]] const Request& at(uint64_t count) const { return requests_[place_of(count)]; }
  [[nodiscard]] std::span<Segment> segments_of(uint64_t count) const {
    return {segments_.get() + size_t{place_of(count)} * config_.pieces, config_.pieces};
  }
  void seek(Psn psn);
  void enter(uint64_t count, uint32_t offset);
  void acknowledge(Psn before, Instant now);
  [[nodiscard]] bool obeyed(Psn psn);
  void go_back(Psn to);
  void refused(Count count, Cause cause);

  const RequesterConfig config_;
  Counts& counts_;
  const uint64_t place_mask_;
  std::unique_ptr<Request[]> requests_;
  std::unique_ptr<Segment[]> segments_;
  uint64_t head_ = 0, done_ = 0, tail_ = 0;  ///< counts of operations: taken, acknowledged, posted
  Psn oldest_;                               ///< not acknowledged
  Psn send_;                                 ///< the next packet: earlier than next_ after a loss
  Psn next_;                                 ///< the next packet that was never sent
  Psn end_;                                  ///< behind all posted operations
  uint64_t sending_ = 0;                     ///< the operation with send_
  PayloadCursor cursor_;                     ///< of its payload at send_
  uint32_t since_ack_request_ = 0;           ///< packets without AckReq
  Window window_;
  RetryTimer timer_;
  Psn timed_;                    ///< a packet whose round trip is measured
  Instant timed_at_ = kForever;  ///< when it was sent; kForever: none is measured
  bool obeyed_ = false;          ///< a NAK for the oldest packet
  Psn obeyed_until_;             ///< behind all that was sent before
  unsigned rnr_retries_ = 0;
  Instant resume_ = kNever;  ///< after an RNR NAK
  Cause failure_ = Cause::kNone;
};

}  // namespace ulnet::rc::roce
