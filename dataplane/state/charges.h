// Failures that a worker charges to an interface: the health value of the interface falls by each of them. Workers only
// count. Control decides what a failure means (control/health). Source: docs/wire/lnet.md §9.
#pragma once
#include <atomic>
#include <cstdint>

#include "dataplane/base/counters.h"
#include "dataplane/base/list.h"

namespace ulnet {

struct ChargeTag {};

/// Failures of one worker at one local NI or peer NI. Owner: the worker. However many failures come at one moment,
/// control gets one ChargedMsg until it has read the number.
class Charges : public Linked<ChargeTag> {
 public:
  /// `id`: of the NI or peer NI.
  Charges(bool of_peer, uint32_t id) : of_peer_(of_peer), id_(id) {}
  [[nodiscard]] bool of_peer() const { return of_peer_; }
  [[nodiscard]] uint32_t id() const { return id_; }
  /// Owner only. True if the caller has to send ChargedMsg.
  [[nodiscard]] bool add() {
    count_.add();
    return !told_.exchange(true, std::memory_order_acq_rel);
  }
  /// Control only, after ChargedMsg: all failures so far. A failure that is not in the number sends another ChargedMsg.
  [[nodiscard]] uint64_t read() {
    (void)told_.exchange(false, std::memory_order_acq_rel);  // before the read, as add() counts before it looks
    return count_.get();
  }

 private:
  const bool of_peer_;
  const uint32_t id_;
  Counter count_;                  // owner: w, control: r
  std::atomic<bool> told_{false};  // owner: sets, control: clears
};

}  // namespace ulnet
