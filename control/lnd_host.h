// What stands between an LND's two halves and the node: each half gets an object of its own, which knows the LND's
// number, so that a message finds its way to the other half. Threads: LndHost control; CorePort the worker's.
#pragma once
#include "control/control.h"

namespace ulnet {

/// For a control half.
class LndHost final : public LndControlHost {
 public:
  LndHost(Control& control, unsigned lnd) : c_(control), lnd_(uint16_t(lnd)) {}

  void to_worker(WorkerId worker, const LndMsg& msg) override;
  [[nodiscard]] Result<PeerPlace> place_peer(const Nid& nid, NiId from) override;
  [[nodiscard]] Result<PeerPlace> place_stranger(const Nid& nid, NiId from, const Nid& address) override;
  void peer_left(PeerNiId peer_ni) override { c_.peers->left(peer_ni); }
  void ni_stopped(NiId ni) override;
  void ni_fatal(NiId ni, bool fatal) override;
  void peer_up(PeerNiId peer_ni) override;
  void peer_down(PeerNiId peer_ni, int error) override;
  void log(const std::string& line) override { c_.log(line); }
  [[nodiscard]] bool memory_low() override { return c_.memory_low(); }
  [[nodiscard]] unsigned worker_count() const override { return c_.config.workers; }
  [[nodiscard]] WorkerMemory* worker_memory(WorkerId worker) override { return c_.near.of(worker); }
  [[nodiscard]] Rng& rng() override { return c_.rng; }

 private:
  Control& c_;
  const uint16_t lnd_;
};

/// For a worker half: the worker, and the number of the LND on what goes to control.
class CorePort final : public LndCore {
 public:
  CorePort(Worker& worker, unsigned lnd) : worker_(worker), lnd_(uint16_t(lnd)) {}

  [[nodiscard]] RxVerdict rx_header(RxSlot& slot, Instant now) override { return worker_.rx_header(slot, now); }
  void rx_done(RxSlot& slot, Completion how, Instant now) override { worker_.rx_done(slot, how, now); }
  void tx_done(Tx& tx, Completion how, Instant now) override { worker_.tx_done(tx, how, now); }
  void tx_waits(Tx& tx, Instant now) override { worker_.tx_waits(tx, now); }
  void tx_connected(Tx& tx, Instant now) override { worker_.tx_connected(tx, now); }
  void to_control(Owed& owed) override {
    owed.msg.lnd = lnd_;
    worker_.to_control(owed);
  }
  [[nodiscard]] bool ask_control(const LndMsg& msg) override {
    LndMsg numbered = msg;
    numbered.lnd = lnd_;
    return worker_.ask_control(numbered);
  }
  [[nodiscard]] WorkerId worker_id() const override { return worker_.id; }
  [[nodiscard]] WorkerMemory* worker_memory() const override { return worker_.memory; }

 private:
  Worker& worker_;
  const uint16_t lnd_;
};

}  // namespace ulnet
