// The service that puts and gets of a generator need: on portal 63 a 1 MiB sink for PUTs and a 1 MiB source for GETs,
// used for ever, the initiator giving the offset. The sink can be read back, so that a put can be verified. Nothing is
// answered by this code: the workers do it all. Threads: one application or control thread owns it and its submitter;
// counts are written by the worker.
#pragma once
#include <memory>

#include "dataplane/base/counters.h"
#include "dataplane/state/submitter.h"
#include "perf/generator/job.h"
#include "perf/generator/page_memory.h"

namespace ulnet::perf {

class Target {
 public:
  struct Counts {
    uint64_t puts = 0, put_bytes = 0, gets = 0, get_bytes = 0, failed = 0;
  };

  /// Size of the submitter that the target needs.
  static constexpr SubmitterSize kSubmitterSize{.ops = 1        // opens the queue
                                                       + 2 * 3  // binds, attaches and unlinks sink and source
                                                       + 9,     // spare
                                                .mds = 1        // sink
                                                       + 1,     // source
                                                .eqs = 1,
                                                .segment_blocks = 1};

  /// Allocates. The submitter stays borrowed until detached(), or until it has been closed and has let go; the Target
  /// must live as long.
  explicit Target(Submitter& submitter);
  /// Binds sink and source and attaches them to kTargetPortal, which the caller has opened with the submitter's worker
  /// as its home. Takes two MDs and one queue of the submitter. Once only. Errors: those of Submitter.
  [[nodiscard]] Result<void> attach();

  /// Asks for both MDs back. Errors: EAGAIN (again later).
  [[nodiscard]] Result<void> detach();
  /// No worker uses the memory any more.
  [[nodiscard]] bool detached() const { return unlinked_.get() == bound_; }
  /// False when the worker has ended an MD by itself, e.g. because the portal is not open: nobody is served then.
  [[nodiscard]] bool serving() const { return unlinked_.get() == 0; }
  [[nodiscard]] Counts counts() const;

 private:
  Result<void> attach_one(MdHandle& md, std::byte* memory, uint64_t match_bits, uint32_t options);
  static void on_event(void* context, const Event& event);

  Submitter& submitter_;
  PageMemory memory_;  // sink, then source
  EqHandle eq_;
  MdHandle sink_, source_;
  uint32_t bound_ = 0;
  Counter puts_, put_bytes_, gets_, get_bytes_, failed_, unlinked_;  // worker: w, owner: r
};

}  // namespace ulnet::perf
