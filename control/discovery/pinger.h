// `lnetctl ping`: gets the ping info of nodes by a GET to portal 0. Thread: control. Pinger does not change the peer
// table: discovery does. Source: docs/wire/lnet.md §4, docs/wire/lnetctl.md §3.6.
#pragma once
#include <functional>
#include <vector>

#include "control/discovery/ping_ops.h"
#include "dataplane/wire/ping_info.h"

namespace ulnet {

/// Bytes of ping info that a ping requests (docs/wire/lnet.md §4.3).
inline constexpr uint32_t kPingSinkBytes = 3960;

struct PingRequest {
  std::vector<Nid> nids;
  Nid source;             ///< ANY = choose
  Duration timeout = 1s;  ///< of each
};

struct PingAnswer {
  Nid nid;
  int32_t error = 0;    ///< negative errno; EIO: no answer in time; EPROTO: not a ping info
  wire::PingInfo info;  ///< when error is 0
};

class Pinger {
 public:
  using Done = std::function<void(std::vector<PingAnswer>)>;
  Pinger(SelfSubmitter& self, Timers& timers) : ops_(self, timers, TimerName::kPings, -EIO) {}

  /// Pings each of the NIDs; `done` gets the answers in their order, once, from within turn() or abort().
  void start(const PingRequest& request, uint32_t interfaces_max, Done done);
  /// As PingOps::set_other_pair().
  void set_other_pair(PingOps::OtherPair other) { ops_.set_other_pair(std::move(other)); }
  /// Starts, times out, reports; returns work done.
  unsigned turn(Instant now) { return ops_.turn(now); }
  /// Ends all pings with ESHUTDOWN; at_rest() is true once their memory is back.
  void abort() { ops_.abort(); }
  [[nodiscard]] bool at_rest() const { return ops_.at_rest(); }

 private:
  PingOps ops_;
};

}  // namespace ulnet
