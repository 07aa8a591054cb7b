// Control half of socklnd: the LndControl interface upon a NetIo. Starts and stops NIs, and passes events on to the
// parts that know what they mean. Thread: control. Never blocks.
#pragma once
#include "lnd/socklnd/state_ctl.h"

namespace ulnet::socklnd {

class SockLndControl final : public LndControl {
 public:
  SockLndControl(LndControlHost& host, NetIo& net, const SockConfig& config, SockDevices* devices);
  /// Frees what is still lent to workers: those are gone by now.
  ~SockLndControl() override;
  [[nodiscard]] Result<void> ni_start(const NiParams& params, Instant now) override;
  void ni_stop(NiId ni, Instant now) override;
  [[nodiscard]] Result<void> ni_tune(NiId ni, std::span<const int64_t> tunables, Instant now) override;
  [[nodiscard]] std::vector<int64_t> ni_tunables(NiId ni) const override;
  void connect_again(NiId ni, const Nid& peer, Instant now) override;
  [[nodiscard]] unsigned ni_connections(NiId ni) const override;
  [[nodiscard]] bool names(const PeerSlice& slice) const override { return state_.named.contains(&slice); }
  void retune(const SockConfig& config, Instant now);
  void from_worker(WorkerId worker, const LndMsg& msg, Instant now) override;
  unsigned turn(Instant now) override;
  [[nodiscard]] Instant next_deadline() override { return state_.look_at_links ? kNever : state_.due.next(); }
  void wait_fds(std::vector<int>& out) override;

 private:
  void net_event(const NetEvent& event);
  void fall_due(uint64_t key);
  void set_needed(WorkerId worker, const SetNeededMsg& msg);
  void ni_flushed(NiId ni);
  void look_at_links();
  SockControl state_;
};

}  // namespace ulnet::socklnd
