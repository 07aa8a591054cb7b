// The selection policies in force, and the times when objects are evaluated. A changed peer is evaluated before it is
// published. After a change of rules, NIs or gateways, a walk evaluates all peers in slices. The walk goes round: a
// change makes it end one lap later, and never begin again. Local nets and NIs, which are few, are evaluated when their
// view is built. Thread: control. The evaluation of a rule is in policy.h.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/change.h"
#include "control/policy/objects.h"
#include "control/policy/policy.h"
#include "control/policy/preview.h"
#include "control/publish/publisher.h"
#include "control/timers.h"

namespace ulnet {

class Policies {
 public:
  /// `log`: for lines to the journal.
  Policies(Timers& timers, std::function<void(const std::string&)> log)
      : log_(std::move(log)), timer_(timers, TimerName::kPolicies) {}

  /// Puts these rules in force. follow() must come before the next evaluation. `former`: by index of a rule, its index
  /// in rules(); negative: it is new.
  void set_rules(PolicyRules rules, std::span<const int32_t> former = {}) noexcept;
  /// To call before a view is built. `nis_changed`: NIs may have changed.
  void follow(bool nis_changed, const PolicyTables& tables);
  /// Brings the results of `peer` up to date, for the view that is about to be built. If the budget of the turn is used
  /// up, older results stay, and the walk does the rest. False: an NI has no results at all; the next turn comes at
  /// once.
  [[nodiscard]] bool evaluate(Peer& peer);
  /// Evaluates the next peers, and touches those whose results differ; returns work done.
  unsigned turn(PeerDb& peers);

  /// Previews of other rules run beside; see PolicyPreviews.
  unsigned turn_previews(const PolicyTables& tables);
  uint64_t preview(std::span<const config::UdspRule> then, PolicyPreviews::Sink sink);
  void preview_resume(uint64_t number);
  void preview_end(uint64_t number);

  /// A point in the walk.
  struct Point {
    uint64_t lap = 0;
    uint32_t peer = 0;  ///< Peer::id
    auto operator<=>(const Point&) const = default;
  };
  /// Grows with each change of rules, or of objects that rules list.
  [[nodiscard]] uint64_t revision() const { return revision_; }
  /// Where the walk has evaluated all peers with the rules and objects of now.
  [[nodiscard]] Point goal() const { return goal_; }
  [[nodiscard]] bool reached(const Point& point) const { return !stale_ && at_ >= point; }
  /// The objects that rules list are not known yet, because memory is short.
  [[nodiscard]] bool stale() const { return stale_; }
  /// All peers have the results of the rules in force.
  [[nodiscard]] bool settled() const { return reached(goal_); }

  [[nodiscard]] Policy& policy() { return in_force_.policy; }
  [[nodiscard]] const PolicyRules& rules() const { return in_force_; }

 private:
  [[nodiscard]] bool update(Peer& peer, uint64_t until, bool& changed);
  void failed(const char* what);
  void go_round(const Point& goal);
  void walk(PeerDb& peers);
  void set_timer();

  PolicyRules in_force_;
  PolicyFollower follower_;
  bool stale_ = true;         // follow() has not seen the rules in force, or had no memory
  bool failed_ = false;       // an evaluation of this turn had no memory
  bool said_failed_ = false;  // the journal has it
  bool held_ = false;         // an NI has no results yet
  bool walked_ = false;       // in this turn; in the next one, those who wait for the end of the walk are answered
  uint64_t revision_ = 1;     // of rules and lists; PeerNi::policy_seen is the last that a peer NI was evaluated with
  Point at_, goal_;           // the next peer of the walk, and its end
  uint64_t flush_until_ = 0;  // Policy::comparisons() at which evaluate() stops
  PolicyPreviews previews_;
  std::function<void(const std::string&)> log_;
  SlowTimer timer_;  // while there is a peer to evaluate
};

/// The part of a list of changes that concerns policies: other rules, or other objects for the rules.
class PolicyStep {
 public:
  /// Compiles the rules, if the list changes them. `is` and `then`: the rules before and after it.
  void begin(const Policies& policies, const config::ChangeList& changes, const std::vector<config::UdspRule>& is,
             const std::vector<config::UdspRule>& then);
  /// To call when the objects are those of the list. Fails never.
  void put_in_force(Policies& policies, const PolicyTables& tables);
  /// All peers have the results, and no worker chooses by former results any more. `unpublished`: a view waits to be
  /// published.
  [[nodiscard]] bool done(const Policies& policies, const Publisher& publisher, bool unpublished, Instant now);
  /// When a change that is not done is due for another look. No worker announces that it has passed a view.
  [[nodiscard]] Instant look_at() const { return out_ ? look_at_ : kForever; }

 private:
  std::optional<PolicyRules> rules_;
  std::vector<int32_t> former_;  // by index of a rule of rules_: its index before
  uint64_t seen_ = 0;            // Policies::revision() at the begin
  Policies::Point end_;
  std::optional<Epoch> out_;  // the view that has the results
  Instant look_at_ = kNever;  // for the workers
};

/// Notes about rules of `changes` that match nothing. A file of rules may be long: the notes have a bound. Requires:
/// each peer has been evaluated with `rules`.
[[nodiscard]] std::vector<std::string> idle_rules(const config::ChangeList& changes, const PolicyRules& rules);

}  // namespace ulnet
