// The router checker: decides when, and over which net, a gateway is checked. Thread: control. RouterChecker only keeps
// the times. Discovery carries out the checks (Discovery::check_gateway), and route_db.h decides what the results mean
// for routes. Source: docs/wire/lnet.md §8.5; docs/decisions.md #30 for the first retry of a gateway that failed.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "control/nis/local_nis.h"
#include "control/peers/peer_db.h"
#include "control/routes/route_db.h"
#include "control/timers.h"

namespace ulnet {

/// Time to the next check of a gateway that failed; it doubles with each failure, up to the interval.
inline constexpr Duration kRouterRetryMin = 1s;

class RouterChecker {
 public:
  struct Deps {
    LocalNis& nis;
    PeerDb& peers;
    RouteDb& routes;
    std::function<void(Peer&, Net)> check;  ///< Discovery::check_gateway
    std::function<void(const std::string&)> log;
  };
  RouterChecker(Deps deps, Timers& timers) : deps_(std::move(deps)), next_(timers, TimerName::kRouterCheck) {}

  /// Time between two checks of a gateway over one net; 0: none are checked.
  void set_interval(Duration interval);
  [[nodiscard]] Duration interval() const { return interval_; }
  /// The driver lost this peer NI, or reached it (`up`). If the NI is one of a gateway, the gateway is checked now,
  /// unless its last check had the same result.
  void hurry(const PeerNi& ni, bool up);
  /// Begins the checks that are due; returns how many.
  unsigned turn(Instant now);
  /// Begins no check from now on. Requires: turn() is not called after this.
  void stop();
  /// True if each gateway has been checked at least once, or if checks are off.
  [[nodiscard]] bool all_tried() const;

 private:
  using Key = std::pair<uint32_t, Net>;  // peer id, net of the check
  struct Times {
    Instant started = kNever;
    unsigned failures = 0;  // in a row
    bool at_once = true;
    bool under_way = false;
    bool wanted = false;  // the peer is still a gateway, and the net is still local
  };
  [[nodiscard]] Instant due(const Times& times) const;
  void find_gateways();

  Deps deps_;
  Duration interval_{60s};
  std::map<Key, Times> times_;
  uint64_t routes_seen_ = UINT64_MAX;
  SlowTimer next_;
  std::set<Nid> missing_;  // gateways without a peer, which the journal has named
};

}  // namespace ulnet
