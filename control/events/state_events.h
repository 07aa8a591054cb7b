// Changes of state as they happen: each becomes one line in the journal and one StateEvent for the subscribers. Thread:
// control. StateEvents decides nothing: it compares the state of an object with the state that was announced last. So
// no change is announced twice. turn() compares all objects that may have changed. A caller that has a better reason
// than the derived one calls ni() or peer_ni() at the change itself. The hard part is memory: the last
// states of NIs, routes and gateways are kept. The state of a peer NI is kept only while it is not up.
#pragma once
#include <concepts>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "control/events/state_event.h"
#include "control/nis/local_nis.h"
#include "control/peers/peer_db.h"
#include "control/routes/route_db.h"
#include "control/routes/routing.h"
#include "control/timers.h"

namespace ulnet {

/// "deleting", "failed", "down", "degraded" or "up".
/// - failed: its driver reports the link down
/// - down: `net show` has it as down, although its link is up
/// - degraded: it is up, over a link that is slower than its device can
[[nodiscard]] std::string_view ni_state_word(const LocalNi& ni);
/// "failed", "down" (its node reports that) or "up". Failed: its health is 0. Or its driver could not reach it, and
/// nothing has come from it since.
[[nodiscard]] std::string_view peer_ni_state_word(const PeerNi& ni);
[[nodiscard]] const char* routing_state_word(RoutingState state);

class StateEvents {
 public:
  struct Deps {
    LocalNis& nis;
    PeerDb& peers;
    RouteDb& routes;
    Routing& routing;
    /// Gets the line of each change.
    std::function<void(const StateEvent&, const std::string& line)> log;
  };
  using Subscriber = std::function<void(const StateEvent&)>;

  StateEvents(Deps deps, Timers& timers, const Instant& now)
      : deps_(std::move(deps)), now_(now), look_(timers, TimerName::kStateLook) {}

  /// To call when the state of an NI may have changed. `reason` is a text, or a function that returns one; the function
  /// is called only if the state is another.
  template <class Reason>
  void ni(const LocalNi& ni, Reason&& reason) {
    if (ni_changed(ni)) announce_ni(ni, text_of(reason));
  }
  template <class Reason>
  void peer_ni(const PeerNi& ni, Reason&& reason) {
    if (peer_ni_changed(ni)) announce_peer_ni(ni, text_of(reason));
  }
  /// All NIs of a peer, with derived reasons.
  void peer(const Peer& peer);
  /// Compares NIs, routes, gateways and routing, and peer NIs when it is time; returns how many peer NIs changed.
  unsigned turn();

  /// `subscriber` gets each event from now on, also within calls of this object; it must not call back. Returns the
  /// number for unsubscribe().
  uint64_t subscribe(Subscriber subscriber);
  void unsubscribe(uint64_t number) { subscribers_.erase(number); }
  /// Calls `each` with the announced state of each NI, gateway, route, of routing, and of each peer NI that is not up.
  void now(const Subscriber& each) const;
  /// Of the last event; 0: none yet.
  [[nodiscard]] uint64_t sequence() const { return sequence_; }

 private:
  using RouteName = std::pair<Net, Nid>;
  struct NiMemory {
    Nid nid;
    std::string_view state;
    bool silent = false;  // so that the reason for "up" can name the cause that has ended
  };
  struct RouteMemory {
    RouteFault fault = RouteFault::kNone;  // at the last change of the state
    bool seen = false;
  };

  template <class Reason>
  [[nodiscard]] static std::string text_of(Reason& reason) {
    if constexpr (std::invocable<Reason&>)
      return reason();
    else
      return std::string(reason);
  }
  [[nodiscard]] bool ni_changed(const LocalNi& ni) const;
  [[nodiscard]] bool peer_ni_changed(const PeerNi& ni) const;
  void announce_ni(const LocalNi& ni, std::string reason);
  void announce_peer_ni(const PeerNi& ni, std::string reason);
  void announce(StateEvent event);
  void turn_nis();
  void turn_routes();
  void route(const Route& route);
  void gateway(const Nid& nid, RouteFault fault);
  void turn_routing();
  unsigned turn_peer_nis();

  Deps deps_;
  const Instant& now_;
  uint64_t sequence_ = 0;
  uint64_t last_subscriber_ = 0;
  std::map<uint64_t, Subscriber> subscribers_;
  std::map<NiId, NiMemory> nis_;
  std::map<RouteName, RouteMemory> routes_;
  std::map<Nid, RouteMemory> gateways_;
  std::map<Nid, std::string_view> peer_nis_;  // by NID, unless it is up
  uint64_t routes_seen_ = 0;                  // RouteDb::fault_revision()
  RoutingState routing_ = RoutingState::kDisabled;
  SlowTimer look_;  // at peer_nis_: a message from a peer NI causes no call
};

}  // namespace ulnet
