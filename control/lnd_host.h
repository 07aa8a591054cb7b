// The node as a driver's control half calls it (LndControlHost): an object for each driver. A message to a worker
// carries the driver's number, so that the worker can hand it to the worker half. Thread: control.
#pragma once
#include "control/control.h"

namespace ulnet {

class LndHost final : public LndControlHost {
 public:
  LndHost(Control& control, unsigned lnd) : c_(control), lnd_(uint16_t(lnd)) {}

  void to_worker(WorkerId worker, const LndMsg& msg) override;
  [[nodiscard]] Result<PeerPlace> place_peer(const Nid& nid, NiId from) override;
  [[nodiscard]] Result<PeerPlace> place_stranger(const Nid& nid, NiId from, const Stranger& stranger) override;
  void peer_left(PeerNiId peer_ni) override { c_.peers->left(peer_ni); }
  void ni_stopped(NiId ni) override;
  void ni_fatal(NiId ni, bool fatal) override;
  void ni_speed(NiId ni, LinkSpeed speed) override;
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

}  // namespace ulnet
