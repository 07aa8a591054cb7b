// On a router: which of its nets have fallen silent. Everybody who routes through it pings it on each net that they
// share, so a net without pings for a while is one that does not work, and its NIs are told to be down. Thread:
// control. Source: docs/wire/lnet.md §8.4.
#pragma once
#include <map>

#include "control/nis/local_nis.h"

namespace ulnet {

class NetWatch {
 public:
  explicit NetWatch(LocalNis& nis) : nis_(nis) {}

  /// A net without pings for so long is silent: alive_router_check_interval + router_ping_timeout.
  void set_limit(Duration limit) { limit_ = limit; }
  /// `source` pinged our NI `target`.
  void pinged(const Nid& target, const Nid& source, Instant now);
  /// Brings LocalNi::silent up to date; true when one has changed. `routing`: this node says that it routes.
  bool turn(Instant now, bool routing);
  [[nodiscard]] Instant next_deadline() const { return next_; }

 private:
  LocalNis& nis_;
  Duration limit_ = 110s;
  std::map<Net, Instant> heard_;  // by net: the last ping, or when it was seen first
  Instant next_ = kForever;
};

}  // namespace ulnet
