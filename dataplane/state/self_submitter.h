// Control as a user of its own node: a submitter on worker 0, whose events come back to the control thread by way of
// one ring. Threads: control, but for on_event, which runs on worker 0. A user of an MD here derives from
// SelfSubmitterUser. The hard part: a callback queue cannot refuse an event, so the ring has room for all that can be
// owed (each MD's end, each operation's end), and what can come in any number - GETs served - is left out when half of
// it is full.
#pragma once
#include <atomic>
#include <bit>
#include <memory>

#include "dataplane/state/inbox.h"
#include "dataplane/state/submitter.h"

namespace ulnet {

/// Gets the events of the MDs whose user_ptr it is. It must stay until the last one's kUnlink.
class SelfSubmitterUser {
 public:
  virtual void on_event(const Event& event, Instant now) = 0;

 protected:
  ~SelfSubmitterUser() = default;
};

class SelfSubmitter {
 public:
  static constexpr uint32_t kMds = 448;      ///< control/node.cc has the sum
  static constexpr uint32_t kOps = 512;      ///< calls in the ring: without room, the caller tries again
  static constexpr uint32_t kEvents = 4096;  ///< half of them for GETs served, of which any number may come
  /// Events that an MD can owe. One line per event.
  static constexpr uint32_t kEventsPerMd = 1     // a match of a PUT, or
                                           + 1   // the end of an operation
                                           + 1;  // its own end
  static_assert(std::has_single_bit(kEvents) && kEventsPerMd * kMds <= kEvents / 2);

  /// `submitter` is homed on worker 0 and used by nobody else.
  SelfSubmitter(Submitter& submitter, Mesh& mesh) : submitter_(submitter), mesh_(mesh), events_(kEvents) {}

  /// As Submitter's, with the event queue of this. `user` stands in the MD's user_ptr.
  [[nodiscard]] Result<MdHandle> bind(MdSpec spec, SelfSubmitterUser& user);
  [[nodiscard]] Submitter& submitter() { return submitter_; }
  /// Hands out at most `budget` events; returns how many.
  unsigned poll(unsigned budget, Instant now);
  /// Would poll() hand out something? seq_cst, so that it can stand in a sleep re-check.
  [[nodiscard]] bool pending() const { return !events_.empty(); }

 private:
  static void on_event(void* context, const Event& event);

  Submitter& submitter_;
  Mesh& mesh_;
  EqHandle eq_;
  SpscRing<Event> events_;           // worker 0: w, control: r
  std::atomic<uint32_t> queued_{0};  // both: events in the ring
};

}  // namespace ulnet
