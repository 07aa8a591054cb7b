// Health of this node's NIs and of peer NIs at work. Failures that workers charge lower the values, recovery pings and
// other messages raise them. Thread: control. The values themselves are pure (health_value.h). Workers get them with
// the views; a rail that failed is avoided at once (AvoidNiMsg). Source: docs/wire/lnet.md §9; docs/decisions.md #2,
// #3, #88 to #90.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "control/discovery/ping_ops.h"
#include "control/health/health_value.h"
#include "control/nis/local_nis.h"
#include "control/outbox.h"
#include "control/peers/peer_db.h"
#include "control/timers.h"

namespace ulnet {

/// Between two looks whether messages got through an NI that recovers.
inline constexpr Duration kRecoveryLook = 100ms;

struct HealthChange {
  uint16_t before = 0, after = 0;
  const std::string& reason;
  bool status = false;  ///< the NI fell to 0, or is whole again after that: its status in ping info changes
  /// A line in the journal: the value was whole, is whole again, or fell to 0.
  [[nodiscard]] bool reason_matters() const { return before == kHealthMax || after == kHealthMax || after == 0; }
  /// The NI has become usable or unusable.
  [[nodiscard]] bool usable() const { return (before == 0) != (after == 0); }
};

class Health {
 public:
  struct Deps {
    LocalNis& nis;
    PeerDb& peers;
    Outbox& outbox;
    SelfSubmitter& self;
    std::function<HealthRules()> rules;
    std::function<bool(const Peer&)> routes;             ///< is it a gateway, or does this node route?
    std::function<void(const Nid& peer)> connect_again;  ///< LndControl::connect_again() of each NI that may ping it
    std::function<void(LocalNi&, const HealthChange&)> ni_changed;
    std::function<void(PeerNi&, const HealthChange&)> peer_changed;
  };
  Health(Deps deps, Timers& timers);

  /// Workers have charged failures to an interface.
  void charged(const ChargedMsg& msg, Instant now);
  /// The driver reported the link of an NI; LocalNi::fatal holds it.
  void link_changed(LocalNi& ni, Instant now);
  /// The node of the peer reports one of its NIs as down, or up again.
  void said(PeerNi& ni, bool up, Instant now);
  /// The link of this node that leads to a peer NI is down, or up again: PeerNi::cut_off has changed.
  void cut_off_changed(PeerNi& ni, Instant now);
  /// A ping of this node was answered by this peer NI: its health rises now, not at the next look.
  void answered(PeerNi& ni, Instant now);
  /// Nothing comes back over this NI, or from this peer NI, while others answer.
  void silent(LocalNi& ni, const std::string& reason, Instant now);
  void silent(PeerNi& ni, const std::string& reason, Instant now);
  /// To call when a value was changed by hand, or an NI has come with a value. A peer NI may have got its value before
  /// its memory, or its memory, which workers still avoid, may be that of its former life.
  void follow(LocalNi& ni, Instant now);
  void follow(PeerNi& ni, Instant now);

  /// To call after a view was published: workers take back messages only when they see why.
  void published();
  /// Looks at the NIs that recover, and pings those that are due; returns work done.
  unsigned turn(Instant now);
  /// Ends all pings; at_rest() is true once their memory is back.
  void abort();
  [[nodiscard]] bool at_rest() const { return pings_.at_rest(); }

  /// The NIs that recover: LNet's two recovery queues.
  [[nodiscard]] std::vector<Nid> recovering_local() const;
  [[nodiscard]] std::vector<Nid> recovering_peers() const;

 private:
  struct Avoided {
    NiId ni{};
    PeerNiId peer_ni{};
    bool avoid;
  };
  void changed(LocalNi& ni, uint16_t before, const std::string& reason);
  void changed(PeerNi& ni, uint16_t before, const std::string& reason);
  void avoid(LocalNi& ni, bool avoid);
  void avoid(PeerNi& ni, bool avoid);
  void avoid_known_down(PeerNi& ni);
  void known(PeerNi& ni, bool up, const char* reason, Instant now);
  void tell_avoided(const Avoided& one);
  [[nodiscard]] bool single(const PeerNi& ni) const;
  [[nodiscard]] bool may_be_pinged(const PeerNi& ni, const HealthRules& rules, Instant now) const;
  unsigned look(LocalNi& ni, const HealthRules& rules, Instant now);
  unsigned look(PeerNi& ni, const HealthRules& rules, Instant now);
  template <class Ni, class Active>
  [[nodiscard]] bool ping_is_due(const Ni& ni, const HealthRules& rules, const Active& active, Instant now) const;
  template <class Ni>
  void ping(Ni& ni, const PeerNi& to, const HealthRules& rules, Instant now);
  void ping_ended(LocalNi& ni, bool answered);
  void ping_ended(PeerNi& ni, bool answered);
  void test_alone(LocalNi& ni, const HealthRules& rules, Instant now);
  [[nodiscard]] const PeerNi* partner(const LocalNi& ni, Instant now) const;
  [[nodiscard]] bool others_active(const PeerNi& ni, Instant now) const;

  Deps deps_;
  PingOps pings_;
  SlowTimer look_;
  std::set<PeerNiId> ill_;  // peer NIs whose value is not whole, or which are avoided
  std::vector<Avoided> unpublished_;
  uint64_t node_received_ = 0;    // messages that all NIs had received at the last look
  Instant node_active_ = kNever;  // when that last grew
};

}  // namespace ulnet
