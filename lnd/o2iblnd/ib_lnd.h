// Worker half of o2iblnd: the Lnd interface upon reliable connections (lnd/rc/rc.h). Moves messages over connections
// that the control half has set up. Thread: one worker. Ownership: lnd/lnd.h.
#pragma once
#include "lnd/lnd.h"
#include "lnd/o2iblnd/worker.h"

namespace ulnet::o2iblnd {

class IbLnd final : public Lnd {
 public:
  /// `staging`: of kStagingRegion, whole blocks; outlives this.
  IbLnd(LndCore& core, rc::Worker& provider, const IbConfig& config, std::span<std::byte> staging)
      : worker_(core, provider, config, staging) {}
  void submit(Tx& tx, Instant now) override;
  void resume(RxSlot& slot, Instant now) override;
  void release(RxSlot& slot, Instant now) override;
  void divert(RxSlot& slot, Instant now) override;
  void cancel(Tx& tx, bool force, Instant now) override;
  [[nodiscard]] Instant moved(NiId ni, PeerNiId peer_ni, Instant now) override;
  unsigned poll(unsigned budget, Instant now) override;
  unsigned timers(Instant now) override;
  void flush(Instant now) override;
  void from_control(const LndMsg& msg, Instant now) override;
  [[nodiscard]] Instant next_deadline() override;
  [[nodiscard]] bool pending() override { return !worker_.dirty.empty() || worker_.rc.pending(); }
  unsigned wait_fds(std::span<int> out) override { return worker_.rc.wait_fds(out); }
  [[nodiscard]] bool idle() const override { return worker_.tx_count == 0 && worker_.conn_count == 0; }

 private:
  void reply(Tx& tx);
  void adopt(Conn& conn);
  void up(Conn& conn, const ConnFacts& facts);
  void ni_flush(const NiFlushMsg& msg);
  void tune(const TuneMsg& msg);
  IbWorker worker_;
};

}  // namespace ulnet::o2iblnd
