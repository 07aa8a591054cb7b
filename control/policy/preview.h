// The effect of a list of rules, found before the rules are in force: each object whose results would differ. Thread:
// control. Nothing changes. The peers are evaluated in slices, like those of Policies.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "control/policy/objects.h"
#include "control/policy/policy.h"

namespace ulnet {

/// Comparisons of a rule with an object in one turn of control.
inline constexpr size_t kPolicyBudget = 32768;
/// Previews at a time.
inline constexpr size_t kPreviewsMax = 16;
/// Changes in one part of a preview. Each kNamesPerChange entries of lists count as a change, too.
inline constexpr size_t kPreviewPart = 256;
inline constexpr size_t kNamesPerChange = 16;

/// An entry of a list of preferences: a local NI, or the primary NID of a gateway.
struct PreferredNid {
  Nid nid;
  PolicyPriority rank;
  bool operator==(const PreferredNid&) const = default;
};

/// A net or NI, and its results that would change.
struct PolicyChange {
  enum class Kind : uint8_t { kLocalNet, kLocalNi, kPeerNet, kPeerNi, kCount };
  struct Results {
    PolicyPriority priority;
    std::vector<PreferredNid> sources, gateways;  ///< in order of preference
    Nid source = kAnyNid;                         ///< of a peer without multi-rail
  };
  Kind kind{};
  Nid peer;  ///< primary NID, of kPeerNet and kPeerNi
  Net net;   ///< of kLocalNet and kPeerNet
  Nid nid;   ///< of kLocalNi and kPeerNi
  Results before, after;
};

/// The entries of a list, in order of preference.
[[nodiscard]] std::vector<PreferredNid> preferred_sources(const PolicyList& policy, const PolicyObjects& objects);
[[nodiscard]] std::vector<PreferredNid> preferred_gateways(const PolicyList& policy, const PolicyObjects& objects);

class PolicyPreview {
 public:
  /// `now` and `then`: the rules in force and the rules to come.
  PolicyPreview(std::span<const config::UdspRule> now, std::span<const config::UdspRule> then)
      : now_(now), then_(then) {}
  /// Adds changes of the next objects to `changes`; false when all objects have been evaluated. If NIs, peers or routes
  /// change meanwhile, each object is evaluated as it is at its time.
  bool turn(const PolicyTables& tables, std::vector<PolicyChange>& changes);
  [[nodiscard]] const PolicyRules& then() const { return then_; }

 private:
  void local(LocalNis& nis, std::vector<PolicyChange>& changes);
  void peer_net(const Peer& peer, const PeerNet& net, std::vector<PolicyChange>& changes);
  [[nodiscard]] size_t peer_ni(const Peer& peer, const PeerNi& ni, std::vector<PolicyChange>& changes);

  PolicyRules now_, then_;
  PolicyFollower now_follower_, then_follower_;
  bool local_done_ = false;
  uint32_t next_peer_ = 0;
  std::set<Nid> shown_;  // NIs of next_peer_ that earlier turns have evaluated
};

/// Previews under way. They take turns, since each of them may take long.
class PolicyPreviews {
 public:
  /// A part of a preview, as the sink gets it.
  struct Part {
    std::vector<PolicyChange> changes;
    const PolicyRules* then = nullptr;  ///< with the last part
    int32_t error = 0;                  ///< the preview has failed: -ENOMEM; -EAGAIN: it gave way to another one
    [[nodiscard]] bool last() const { return then != nullptr || error != 0; }
  };
  /// The answer of the sink to a part that is not the last.
  enum class Next : uint8_t { kGoOn, kPause, kEnd };
  using Sink = std::function<Next(const Part& part)>;

  /// Returns the number of the preview. If there are kPreviewsMax already, the oldest that is paused ends; 0: none is
  /// paused.
  uint64_t add(PolicyPreview preview, Sink sink);
  void resume(uint64_t number);
  /// No effect if the preview has ended.
  void end(uint64_t number) { all_.erase(number); }
  /// Evaluates objects for the next preview, and calls its sink. No preview may be ended from within the sink.
  unsigned turn(const PolicyTables& tables);
  /// A turn has work to do.
  [[nodiscard]] bool waiting() const;

 private:
  struct One {
    PolicyPreview preview;
    Sink sink;
    bool paused = false, failed = false;
  };
  std::map<uint64_t, One> all_;
  uint64_t last_number_ = 0, last_turn_ = 0;
};

}  // namespace ulnet
