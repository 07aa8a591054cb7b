// The slow timers of the control thread: one row for each, and control sleeps until the first of them. Thread: control.
// The class whose work a timer announces gets the timers at its construction and holds the SlowTimer of its row. A node
// begins only if each row has its holder, and tests/tidy bans next_deadline() in control/. Drivers have timers of their
// own (LndControl::next_deadline), and so has the registrar. The daemon announces the work of its own parts.
#pragma once
#include <algorithm>
#include <array>

#include "dataplane/base/check.h"
#include "dataplane/base/time.h"

namespace ulnet {

enum class TimerName : uint8_t {
  kNiLeave,        ///< LocalNis: the next look at the NIs that leave
  kNiDrain,        ///< LocalNis: the end of the time in which workers drain an NI
  kPeerRetry,      ///< PeerDb: a peer NI that is down is tried again
  kPeerSilent,     ///< PeerDb: the next look for peer NIs that take no messages, on a router
  kPeerLeft,       ///< PeerDb: the last connection of a peer NI is gone
  kPeerUnused,     ///< PeerDb: the next look for unused peers, while peers crowd
  kPeerReclaim,    ///< PeerEnds: the next step towards the end of a removed peer NI
  kRouterCheck,    ///< RouterChecker: the next check of a gateway
  kRouting,        ///< Routing: the next routing state
  kRouterMemory,   ///< Routing: router buffers whose memory was refused are tried again
  kNetSilent,      ///< NetWatch: a net is silent
  kPolicies,       ///< Policies: peers have yet to be evaluated
  kChanges,        ///< Applier: the next look at a list that waits, or at NIs that wait for their interface
  kPingTarget,     ///< PingTarget: a ring was full
  kPings,          ///< PingOps of Pinger
  kRecovery,       ///< Health: the next look at NIs that recover
  kRecoveryPings,  ///< PingOps of Health
  kRailProbes,     ///< PingOps of RailProbes
  kCutOff,         ///< CutOff: the next look at the routes to peer NIs
  kGatewayChecks,  ///< PingOps of DiscoveryRunner: checks of gateways
  kPingsWaited,    ///< PingOps of DiscoveryRunner: pings and pushes that a request waits for
  kPingsOther,     ///< PingOps of DiscoveryRunner: all others
  kDiscovery,      ///< Discovery: a peer is queued
  kTellAgain,      ///< DiscoveryRunner: a push that failed is repeated
  kRegionLeave,    ///< Regions: the next look at regions that left the view
  kOutbox,         ///< Outbox: a ring was full
  kViewRetry,      ///< Publisher: a view waits until older views are retired
  kViewRetire,     ///< Publisher: the next look at views that workers may still use
  kStateLook,      ///< StateEvents: the next look at peer NIs that are not up
  kStop,           ///< Node: the next look at objects that are not at rest
  kCount
};

/// Time to the next try after a ring was full, or after too many views were in use.
inline constexpr Duration kRetrySoon = 1ms;

class Timers {
 public:
  /// `now`: of the turn under way; outlives this.
  explicit Timers(const Instant& now) : now_(now) { at_.fill(kForever); }
  [[nodiscard]] Instant next() const { return *std::min_element(at_.begin(), at_.end()); }
  [[nodiscard]] Instant at(TimerName row) const { return at_[size_t(row)]; }
  /// Whether each row has its holder.
  [[nodiscard]] bool complete() const { return std::find(held_.begin(), held_.end(), false) == held_.end(); }

 private:
  friend class SlowTimer;
  const Instant& now_;
  std::array<Instant, size_t(TimerName::kCount)> at_;
  std::array<bool, size_t(TimerName::kCount)> held_{};
};

/// One row, for its one holder.
class SlowTimer {
 public:
  /// Requires: no other SlowTimer of `timers` has this row.
  SlowTimer(Timers& timers, TimerName row) : at_(timers.at_[size_t(row)]), now_(timers.now_) {
    ULNET_CHECK(!timers.held_[size_t(row)]);
    timers.held_[size_t(row)] = true;
  }
  SlowTimer(const SlowTimer&) = delete;
  SlowTimer& operator=(const SlowTimer&) = delete;

  [[nodiscard]] Instant now() const { return now_; }
  void set(Instant at) { at_ = at; }
  void set_in(Duration wait) { at_ = now_ + wait; }
  /// Sets it to the next try, or stops it.
  void retry(bool again) { at_ = again ? now_ + kRetrySoon : kForever; }
  /// Sets it to the first of `times`, which are pairs in order.
  template <class Times>
  void set_first(const Times& times) {
    at_ = times.empty() ? kForever : times.begin()->first;
  }
  /// Sets it, unless it is set to an earlier time.
  void set_by(Instant at) { at_ = std::min(at_, at); }
  /// Sets it to the next turn, which follows without a pause.
  void set_now() { at_ = kNever; }
  void stop() { at_ = kForever; }
  [[nodiscard]] Instant at() const { return at_; }
  [[nodiscard]] bool due(Instant now) const { return now >= at_; }

 private:
  Instant& at_;
  const Instant& now_;
};

}  // namespace ulnet
