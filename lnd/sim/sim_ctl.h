// Control half of the sim LND: makes NIDs known to the fabric, sets connections up (a request, an answer, each with the
// delay of its link), settles races, and hands each end to the worker that serves the peer NI. When both sides dial at
// once, the request of the greater NID wins. A new request replaces a connection that its side still believes in.
#pragma once
#include <map>

#include "lnd/driver.h"
#include "lnd/sim/fabric_ctl.h"

namespace ulnet::sim {

/// Settings of one NI.
struct SimTunables {
  Duration timeout = 50s;
  int32_t tos = -1;
  int32_t conns_per_peer = 0;
};
/// The record of the sim LND for `tcp` or `o2ib` (driver.cc). The sim LND stands on a fabric: it has no `open`.
[[nodiscard]] const DriverType& sim_driver(NetType type);
[[nodiscard]] SimTunables sim_tunables(std::span<const int64_t> tunables);
[[nodiscard]] std::vector<int64_t> sim_tunable_numbers(const SimTunables& tunables);

class SimControl final : public LndControl {
 public:
  /// Claims NIDs of `type` only. `node`: as for SimLnd. Must die before the fabric.
  SimControl(Fabric& fabric, LndControlHost& host, uint32_t node, NetType type);
  ~SimControl() override;

  [[nodiscard]] Result<void> ni_start(const NiParams& params, Instant now) override;
  void ni_stop(NiId ni, Instant now) override;
  /// `timeout`, for connections made from now on; there is one connection to a peer, so conns_per_peer is refused.
  [[nodiscard]] Result<void> ni_tune(NiId ni, std::span<const int64_t> tunables, Instant now) override;
  [[nodiscard]] std::vector<int64_t> ni_tunables(NiId ni) const override;
  [[nodiscard]] bool names(const PeerSlice& slice) const override;
  [[nodiscard]] uint32_t regions_above() const override {
    return fabric_.options().regions ? fabric_.options().rdma_above : UINT32_MAX;
  }
  /// Errors: ENOMEM, if Fabric::refuse_region refuses.
  [[nodiscard]] Result<void> region_add(RegionId region, std::span<std::byte> memory) override;
  void region_remove(RegionId region) override;
  void from_worker(WorkerId worker, const LndMsg& msg, Instant now) override;
  unsigned turn(Instant now) override;
  [[nodiscard]] Instant next_deadline() override { return wake(); }
  void wait_fds(std::vector<int>&) override {}

  // --- For the fabric ----------------------------------------------------------------------------------------------
  /// Does each byte of the window lie in the region that its segment names?
  [[nodiscard]] bool registered(const Payload& window) const;
  [[nodiscard]] size_t regions() const { return regions_.size(); }
  void mail(Instant at, const ControlMail& mail) { mail_[{at, fabric_.next_number()}] = mail; }
  [[nodiscard]] Instant wake() const;
  [[nodiscard]] uint32_t node() const { return node_; }
  [[nodiscard]] size_t attempts() const;
  [[nodiscard]] size_t stopping() const { return stopping_.size(); }

 private:
  using Key = std::pair<NiId, Nid>;
  struct Peer {
    PeerPlace place;
    uint64_t attempt = 0;  // 0: not dialling
    Instant deadline = kForever;
    Instant send_again = kForever;
    uint64_t end = 0;
  };
  [[nodiscard]] const NiParams* ni_of(const Nid& nid) const;
  [[nodiscard]] bool alive(const Peer& peer);
  void stopped(NiId ni);
  void connect(WorkerId worker, const ConnectMsg& msg, Instant now);
  void dial(const Key& key, Peer& peer, Instant now);
  void dial_failed(const Key& key, Peer& peer, Completion how);
  void requested(const ControlMail& mail);
  void accepted(const ControlMail& mail);
  void refused(const ControlMail& mail);
  void hand_over(const NiParams& ni, Peer& peer, End& end);
  unsigned redial(Instant now);

  Fabric& fabric_;
  LndControlHost& host_;
  const uint32_t node_;
  const NetType type_;
  std::map<NiId, NiParams> nis_;
  std::map<Key, Peer> peers_;
  std::map<Due, ControlMail> mail_;
  std::map<RegionId, std::span<std::byte>> regions_;
  std::map<NiId, unsigned> stopping_;  // workers that have not answered yet
};

}  // namespace ulnet::sim
