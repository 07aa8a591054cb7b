// The selection policies in force, and the times when objects are evaluated. A changed peer is evaluated before it is
// published, all other peers in slices after a change of rules, NIs or gateways. Local nets and NIs, which are few, are
// evaluated when their view is built. Thread: control. The evaluation of a rule is in policy.h.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "config/change.h"
#include "control/nis/local_nis.h"
#include "control/peers/peer_db.h"
#include "control/policy/policy.h"
#include "control/policy/preview.h"
#include "control/routes/route_db.h"
#include "control/timers.h"

namespace ulnet {

class Policies {
 public:
  explicit Policies(Timers& timers) : timer_(timers, TimerName::kPolicies) {}

  /// Puts these rules in force. No effect if they are in force already.
  void set_rules(std::span<const config::UdspRule> rules);
  /// To call before a view is built, if NIs, peers or routes may have changed.
  void follow(LocalNis& nis, PeerDb& peers, const RouteDb& routes);
  /// Brings the results of `peer` up to date, for the view that is about to be built.
  void evaluate(Peer& peer);
  /// Evaluates the next peers, and touches those whose results differ; returns work done.
  unsigned turn(LocalNis& nis, PeerDb& peers, const RouteDb& routes);
  /// Previews of other rules run beside. The sink gets changes in parts, `last` with the last one. If the sink returns
  /// false, the preview pauses until preview_resume().
  using PreviewSink = std::function<bool(const std::vector<PolicyChange>& changes, bool last)>;
  /// Returns the number of the preview.
  uint64_t preview(std::span<const config::UdspRule> then, PreviewSink sink);
  void preview_resume(uint64_t number);
  /// No effect if the preview has ended.
  void preview_end(uint64_t number);

  /// All objects have the results of the rules in force.
  [[nodiscard]] bool settled() const { return !walking_; }

  [[nodiscard]] Policy& policy() { return policy_; }
  [[nodiscard]] std::span<const config::UdspRule> rules() const { return rules_; }

 private:
  struct Preview {
    PolicyPreview preview;
    PreviewSink sink;
    bool paused = false, ended = false;
  };
  void begin_walk();
  void walk(PeerDb& peers);
  unsigned turn_previews(LocalNis& nis, PeerDb& peers, const RouteDb& routes);
  void set_timer();

  std::vector<config::UdspRule> rules_;
  Policy policy_;
  uint64_t revision_ = 1;  // of rules and objects; PeerNi::policy_seen is the last that a peer NI was evaluated with
  uint32_t next_peer_ = 0;
  bool walking_ = false;
  std::map<uint64_t, Preview> previews_;
  uint64_t last_preview_ = 0;
  SlowTimer timer_;  // while there is a peer to evaluate
};

/// Notes about added rules that match nothing now. A file of rules may be long: the notes have a bound. Cost: one
/// comparison with each NI, peer NI and route for each rule.
[[nodiscard]] std::vector<std::string> idle_rules(const config::ChangeList& changes, LocalNis& nis, const PeerDb& peers,
                                                  const RouteDb& routes);

}  // namespace ulnet
