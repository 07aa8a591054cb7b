// Loopback LND (net type lo): a message submitted on a worker comes in on that same worker at its next poll(). The
// payload is copied once, from the window of the Tx into the window that the core chose. Worker half only, but for
// LoControl below. The hard part: a held message keeps its Tx (the payload lies there), so slots bound how many can be
// held; what finds no slot waits in FIFO order. A held message does not stop those behind it, as the parts of a node
// must not wait for each other here.
#pragma once
#include <map>

#include "dataplane/base/limits.h"
#include "dataplane/base/slab.h"
#include "lnd/driver.h"
#include "lnd/lnd.h"

namespace ulnet {

enum class LoMsg : uint16_t { kStop = 1, kStopped };
/// To the worker: take nothing more for the NI, and answer with LoStoppedMsg.
struct LoStopMsg {
  static constexpr auto kKind = LoMsg::kStop;
  NiId ni;
};
/// To control: this worker has nothing left of the NI.
struct LoStoppedMsg {
  static constexpr auto kKind = LoMsg::kStopped;
  NiId ni;
};

inline constexpr uint32_t kLoSlots = 512;  ///< messages delivered and not yet received
static_assert(kLoSlots > kLazyMax, "one lazy portal does not park all of them");

/// Worker half. Thread: its worker. from_nid of every slot is 0@lo; `from` is the Tx's peer, which may be null.
class LoLnd final : public Lnd {
 public:
  explicit LoLnd(LndCore& core, uint32_t slots = kLoSlots) : core_(core), slots_(slots, core.worker_memory()) {}

  void submit(Tx& tx, Instant now) override;
  void resume(RxSlot& slot, Instant now) override;
  void release(RxSlot&, Instant) override {}  // no slot is movable: holding one stops nobody
  void divert(RxSlot& slot, Instant now) override;
  void cancel(Tx& tx, bool force, Instant now) override;
  unsigned poll(unsigned budget, Instant now) override;
  unsigned timers(Instant now) override;
  void flush(Instant) override {}
  void from_control(const LndMsg& msg, Instant now) override;
  [[nodiscard]] Instant next_deadline() override { return waiting_.empty() ? kForever : deadline_bound_; }
  [[nodiscard]] bool pending() override;
  unsigned wait_fds(std::span<int>) override { return 0; }  // work comes from this worker only: pending() tells all
  [[nodiscard]] bool idle() const override { return waiting_.empty() && slots_.out() == 0; }

 private:
  struct ReadyTag {};
  enum class State : uint8_t { kOpening, kHeld, kReady };
  struct Entry : RxSlot, Linked<ReadyTag> {
    State state = State::kOpening;
    Tx* tx = nullptr;  ///< null once cancelled by force
  };

  void deliver(Tx& tx, Instant now);
  void receive(Entry& entry, Instant now);
  void close(Entry& entry, Completion how, Instant now);
  void refuse(Entry& entry, Instant now);
  void finish(Tx& tx, Completion how, Instant now) { core_.tx_done(tx, how, now); }
  void stop_answer();

  LndCore& core_;
  Slab<Entry> slots_;
  List<Tx, TxTag> waiting_;            // submitted, no slot yet
  List<Entry, ReadyTag> ready_;        // resumed, received at the next poll
  Instant deadline_bound_ = kForever;  // no waiting Tx has an earlier deadline
  NiId stopped_{};                     // takes no more
  bool any_stopped_ = false;
  bool answer_due_ = false;
  Owed stop_answer_;  // LoStoppedMsg
};

/// The record (driver.cc).
extern const DriverType kLoDriver;
/// Loopback alone: for nodes whose other drivers a test brings along.
[[nodiscard]] LndEntry lnd_loopback();

/// Control half. Thread: control. Starting needs nothing; stopping waits until every worker has nothing left.
class LoControl final : public LndControl {
 public:
  explicit LoControl(LndControlHost& host) : host_(host) {}

  [[nodiscard]] Result<void> ni_start(const NiParams& params, Instant now) override;
  void ni_stop(NiId ni, Instant now) override;
  [[nodiscard]] bool names(const PeerSlice&) const override { return false; }
  void from_worker(WorkerId worker, const LndMsg& msg, Instant now) override;
  unsigned turn(Instant) override { return 0; }
  [[nodiscard]] Instant next_deadline() override { return kForever; }
  void wait_fds(std::vector<int>&) override {}

 private:
  LndControlHost& host_;
  std::map<NiId, unsigned> stopping_;  // workers that have not answered yet
};

}  // namespace ulnet
