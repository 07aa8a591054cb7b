// The core as a driver's worker half calls it (LndCore): an object for each driver and worker. Each call runs the stage
// that it concerns. A message to control carries the driver's number, so that control can hand it to the control half.
// Thread: the worker.
#pragma once
#include "dataplane/stages/worker.h"

namespace ulnet {

class DriverCalls final : public LndCore {
 public:
  DriverCalls(Worker& worker, unsigned lnd) : worker_(worker), lnd_(uint16_t(lnd)) {}

  [[nodiscard]] RxVerdict rx_header(RxSlot& slot, Instant now) override;
  void rx_done(RxSlot& slot, Completion how, Instant now) override;
  void tx_done(Tx& tx, Completion how, Instant now) override;
  void get_done(Tx& tx, uint32_t bytes, int32_t error, Instant now) override;
  void tx_waits(Tx& tx, Instant now) override;
  void tx_connected(Tx& tx, Instant now) override;
  void to_control(Owed& owed, const LndMsg& msg) override;
  [[nodiscard]] bool ask_control(const LndMsg& msg) override;
  [[nodiscard]] WorkerId worker_id() const override { return worker_.id; }
  [[nodiscard]] WorkerMemory* worker_memory() const override { return worker_.memory; }

 private:
  [[nodiscard]] LndMsg numbered(LndMsg msg) const;
  Worker& worker_;
  const uint16_t lnd_;
};

}  // namespace ulnet
