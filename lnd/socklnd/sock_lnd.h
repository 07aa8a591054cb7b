// Worker half of socklnd: the Lnd interface upon a StreamEngine. Moves messages over connections that the control half
// has set up; knows nothing of listening, dialling and HELLO. Thread: one worker. Ownership: lnd/lnd.h.
#pragma once
#include <array>

#include "lnd/lnd.h"
#include "lnd/socklnd/worker.h"

namespace ulnet::socklnd {

class SockLnd final : public Lnd {
 public:
  SockLnd(LndCore& core, StreamEngine& engine, const SockConfig& config) : worker_(core, engine, config) {}
  void submit(Tx& tx, Instant now) override;
  void resume(RxSlot& slot, Instant now) override;
  [[nodiscard]] Instant moved(NiId ni, PeerNiId peer_ni, Instant now) override;
  void release(RxSlot& slot, Instant now) override;
  void divert(RxSlot& slot, Instant now) override;
  void cancel(Tx& tx, bool force, Instant now) override;
  unsigned poll(unsigned budget, Instant now) override;
  unsigned timers(Instant now) override;
  void flush(Instant now) override;
  void from_control(const LndMsg& msg, Instant now) override;
  [[nodiscard]] Instant next_deadline() override;
  [[nodiscard]] bool pending() override;
  [[nodiscard]] bool patient() const override { return worker_.piped_receives > 0; }
  unsigned wait_fds(std::span<int> out) override;
  [[nodiscard]] uint32_t copied_bytes() const override;
  [[nodiscard]] bool idle() const override { return worker_.tx_count == 0 && worker_.conn_count == 0; }

 private:
  void event(const StreamEvent& event);
  void set_open(ConnSet& set);
  void set_retire(ConnSet& set);
  void tune(const TuneMsg& msg);
  void ni_flush(const NiFlushMsg& msg);
  SockWorker worker_;
  std::array<StreamEvent, kEventBurst> events_;  ///< of one poll
  Instant looked_at_ = kNever;                   ///< the last poll that looked at the sockets
  bool looked_away_ = false;                     ///< the last poll did not look at the sockets
};

}  // namespace ulnet::socklnd
