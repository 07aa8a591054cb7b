// Control half of o2iblnd: NIs, connecting, accepting, and who gets which connection. Thread: control.
#pragma once
#include "lnd/lnd.h"
#include "lnd/o2iblnd/state_ctl.h"

namespace ulnet::o2iblnd {

class IbLndControl final : public LndControl {
 public:
  /// `rc` outlives this.
  IbLndControl(LndControlHost& host, rc::Control& rc, const IbConfig& config);
  ~IbLndControl() override;
  /// New settings while NIs run. The service, the bounds and the incarnation stay. Privileged ports and keepalives
  /// follow at once; settings of queue pairs hold for connections that are made from now on.
  void retune(const IbConfig& config, Instant now);
  [[nodiscard]] Result<void> ni_start(const NiParams& params, Instant now) override;
  void ni_stop(NiId id, Instant now) override;
  [[nodiscard]] Result<void> ni_tune(NiId id, std::span<const int64_t> tunables, Instant now) override;
  [[nodiscard]] std::vector<int64_t> ni_tunables(NiId id) const override;
  void connect_again(NiId ni, const Nid& peer, Instant now) override;
  [[nodiscard]] unsigned ni_connections(NiId id) const override;
  [[nodiscard]] std::vector<ConnectionShow> connections(NiId id, const Nid& peer) const override;
  [[nodiscard]] std::vector<std::pair<const char*, int64_t>> peer_faults(NiId id) const override;
  [[nodiscard]] bool names(const PeerSlice& slice) const override { return state_.named.contains(&slice); }
  [[nodiscard]] uint32_t regions_above() const override {
    return state_.config.register_memory ? kImmediateMax : UINT32_MAX;
  }
  [[nodiscard]] bool sends_any_memory(NiId id) const override;
  [[nodiscard]] Result<void> region_add(RegionId region, std::span<std::byte> memory) override {
    return state_.rc.region_add(region, memory);
  }
  void region_remove(RegionId region) override { state_.rc.region_remove(region); }
  void from_worker(WorkerId worker, const LndMsg& msg, Instant now) override;
  unsigned turn(Instant now) override;
  [[nodiscard]] Instant next_deadline() override;
  void wait_fds(std::vector<int>& out) override { state_.rc.wait_fds(out); }

 private:
  void conn_wanted(WorkerId worker, const ConnWantedMsg& msg);
  void conn_unwanted(WorkerId worker, const ConnUnwantedMsg& msg);
  void rc_event(const rc::Event& event);
  unsigned rc_events();
  void request_fault(const rc::Event& event);
  void device_changed(rc::ListenerId listener);
  unsigned report_new_nis();
  void ni_flushed(NiId id);
  IbControl state_;
};

}  // namespace ulnet::o2iblnd
