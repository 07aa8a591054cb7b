// The clients that watch changes of state (`watch`). Each gets the present states first, then each event that its
// filter lets pass. Thread: control. A client that does not read loses events: while more than kOutputLow bytes wait
// for it, its events are only counted. When it has read them, it gets the count and the present states again. So
// nothing is kept for a client here, and the server's output buffer has a bound.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "control/api/server.h"
#include "control/events/state_events.h"

namespace ulnet {

/// Clients that watch at once.
inline constexpr size_t kWatchersMax = 16;

class Watchers {
 public:
  struct Deps {
    StateEvents& events;
    std::function<void(api::RequestId, const api::Answer&)> reply;
    std::function<size_t(api::RequestId)> backlog;  ///< bytes that wait for the client
    std::function<uint64_t()> real_time_ns;         ///< since 1970
  };
  explicit Watchers(Deps deps) : deps_(std::move(deps)) {}

  /// A request `watch`. Refused: an unknown kind, a wrong NID, and too many watchers.
  void request(api::RequestId id, const api::Request& request);
  /// Its client has left. No effect on other requests.
  void gone(api::RequestId id);
  /// Its client has read. False: the request is no `watch`.
  bool drained(api::RequestId id);

 private:
  struct Watcher {
    uint32_t kinds = 0;     // a bit for each StateKind; 0: all
    std::vector<Nid> nids;  // empty: all
    uint64_t lost = 0;
    [[nodiscard]] bool wants(const StateEvent& event) const;
  };
  void happened(const StateEvent& event);
  void send(api::RequestId id, config::Doc lines) const;
  void send_now(api::RequestId id, const Watcher& watcher, config::Doc lines) const;
  [[nodiscard]] uint64_t time_us() const { return deps_.real_time_ns() / 1000; }

  Deps deps_;
  std::map<api::RequestId, Watcher> watchers_;
  uint64_t subscription_ = 0;  // while there are watchers
};

}  // namespace ulnet
