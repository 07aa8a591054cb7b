// Fast detection of rails that are up and carry nothing (a black hole). Workers say over which pair of NIs an operation
// waits for its answer (SilentMsg). The pair is probed with a ping, and so are pairs of each of its NIs with another
// NI, and one with neither. If only others answer, the silent side is out of service (Health::silent). Thread: control.
// The hard part:
// everything may be slow, or the application at the peer. So a rail fails only if nothing came over it while something
// came over another, and its driver sees no bytes move. Source: docs/decisions.md #90.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "control/discovery/ping_ops.h"
#include "control/health/health.h"

namespace ulnet {

/// A probe is answered within this time, or the pair is judged.
inline constexpr Duration kProbeTimeout = 250ms;
/// Between two probes of a pair. Doubles with each probe that was answered while an operation still waited.
inline constexpr Duration kProbeGap = 100ms;
inline constexpr Duration kProbeGapMax = 5s;
/// A pair over which nothing has waited for this time is forgotten.
inline constexpr Duration kProbeKept = 30s;
inline constexpr size_t kProbedPairsMax = 1024;

class RailProbes {
 public:
  struct Deps {
    LocalNis& nis;
    PeerDb& peers;
    SelfSubmitter& self;
    Health& health;
    std::function<bool(const Peer&)> gateway;
    std::function<void(const LocalNi&, const PeerNi&)> ask_moved;  ///< MovedAskMsg; moved() comes later
  };
  RailProbes(Deps deps, Timers& timers)
      : deps_(std::move(deps)), pings_(deps_.self, timers, TimerName::kRailProbes, -ETIMEDOUT) {}

  /// An operation waits for its answer over this pair.
  void silent(const SilentMsg& msg, Instant now);
  /// A worker's driver says when bytes moved last over this pair.
  void moved(const MovedMsg& msg, Instant now);
  unsigned turn(Instant now);
  void abort() { pings_.abort(); }
  [[nodiscard]] bool at_rest() const { return pings_.at_rest(); }
  /// Probes sent so far.
  [[nodiscard]] uint64_t sent() const { return sent_; }

 private:
  using Pair = std::pair<NiId, PeerNiId>;
  struct Probed {
    Instant sent = kNever;
    Instant said = kNever;
    Duration gap = kProbeGap;
    bool under_way = false;
    bool asked = false;        // no answer came to the probe: judged when the driver has spoken
    bool witness = false;      // the probe only shows if the local NI works
    uint64_t ni_received = 0;  // by the local NI when the probe was sent
  };
  [[nodiscard]] Probed* may_probe(const Pair& pair, Instant now);
  void probe(const Pair& pair, Probed& probed, const LocalNi& ni, const PeerNi& to, Instant now);
  void probe_others(const LocalNi& ni, const PeerNi& silent, Instant now);
  void probe_if_due(const LocalNi* ni, const PeerNi* to, Instant now);
  [[nodiscard]] const LocalNi* other_ni(Net net, const LocalNi& than) const;
  void ended(const Pair& pair, int32_t error);
  void judge(const Pair& pair, const Probed& probed);
  void judge_ni(LocalNi& ni, const PeerNi& to);
  [[nodiscard]] const PeerNi* witness_of(const LocalNi& ni, const Peer& silent) const;
  void forget_old(Instant now);
  [[nodiscard]] bool others_heard(const PeerNi& silent, Instant since) const;

  Deps deps_;
  PingOps pings_;
  std::map<Pair, Probed> probed_;
  Instant now_ = kNever;
  uint64_t sent_ = 0;
};

}  // namespace ulnet
