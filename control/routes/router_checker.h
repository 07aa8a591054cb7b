// The router checker: which gateway is to be asked when, over which net, whether it is alive. Thread: control. It only
// keeps the times; asking is discovery's matter (Discovery::check_gateway), and what the answers mean for routes is
// route_db.h's. Source: docs/wire/lnet.md §8.5; docs/decisions.md #30 for how soon one that failed is asked again.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "control/nis/local_nis.h"
#include "control/peers/peer_db.h"
#include "control/routes/route_db.h"

namespace ulnet {

/// A gateway that failed is asked again after so long, doubled each time, up to the interval.
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
  explicit RouterChecker(Deps deps) : deps_(std::move(deps)) {}

  /// Time between two checks of a gateway over one net; 0: none are checked.
  void set_interval(Duration interval);
  [[nodiscard]] Duration interval() const { return interval_; }
  /// The driver lost this peer NI, or got through to it (`up`): if it is a gateway's, it is asked now, unless
  /// that is no news of it.
  void hurry(const PeerNi& ni, bool up);
  /// Begins the checks that are due; returns how many.
  unsigned turn(Instant now);
  [[nodiscard]] Instant next_deadline() const { return next_; }
  /// Each gateway has been asked at least once, or nobody asks.
  [[nodiscard]] bool all_tried() const;

 private:
  using Key = std::pair<uint32_t, Net>;  // peer id, the net that it is asked over
  struct Times {
    Instant started = kNever;
    unsigned failures = 0;  // in a row
    bool at_once = true;
    bool under_way = false;
    bool wanted = false;  // it still is a gateway, and the net ours
  };
  [[nodiscard]] Instant due(const Times& times) const;
  void find_gateways();

  Deps deps_;
  Duration interval_{60s};
  std::map<Key, Times> times_;
  uint64_t routes_seen_ = UINT64_MAX;
  Instant next_ = kForever;
  std::set<Nid> missing_;  // gateways without a peer, which the journal has named
};

}  // namespace ulnet
