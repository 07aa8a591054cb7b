// Discovery: by a ping this node learns the NIDs of a peer, by a push it tells its own. This is the machine alone: what
// happened goes in, what is to be done goes out through DiscoveryActions; no clock, no rings, the same calls in the
// same order decide alike. Thread: control. What a list of NIDs means for the peer table is merge.h's matter; sending
// is runner.h's. Source: docs/wire/lnet.md §5, whose bits of Peer::state are the state here.
//
// The letters that the documents of Multi-Rail reason with, and what they are here:
//   L  our list is known to the peer   PeerDiscovery::node_seqno >= the sequence of our list (acknowledged pushes only)
//   P  its list is merged              kPeerNidsUptodate      D  its list has come, not merged   kPeerDataPresent
//   M  it is multi-rail                kPeerMultiRail         C  it is configured                kPeerConfigured
//   R  a ping is under way             kPeerPingSent          A  a push is under way             kPeerPushSent
//   Q  it is being worked on           kPeerDiscovering       S  its list did not fit            PeerDiscovery::resize
// The hard part: lists overtake each other. A push may be older than what is known (it was overtaken, or its node began
// anew), and a reply older than a push that came meanwhile: both make this node ask again, since only the answer to a
// ping that nothing crossed is sure to be the last word.
#pragma once
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "config/model.h"
#include "control/discovery/merge.h"
#include "control/discovery/ping_op.h"

namespace ulnet {

/// Useless replies in a row before discovery of a peer ends in an error (docs/decisions.md #28): corrupt ones, those
/// that did not fit, those from a NID that is not the peer's, and answers that are older than a push.
inline constexpr uint32_t kBadRepliesMax = 3;
/// Peers worked on in one turn.
inline constexpr unsigned kDiscoveryBudget = 64;

/// What discovery asks for. Nothing here may call back into Discovery before it has returned.
class DiscoveryActions {
 public:
  /// A GET of ping info, which ends in ping_answered() or ping_failed() with the same number.
  virtual void send_ping(const PingOp& op) = 0;
  /// A PUT of our current ping info, which ends in push_ended(). The payload is the implementation's to set.
  virtual void send_push(const PingOp& op) = 0;
  /// The peer with this id, which discovers and knows an older list of ours, could not be told the newest, not even
  /// when it was told again `times` times. tell_again() is to be called for it after a while.
  virtual void not_told(uint32_t peer, uint32_t times) { (void)peer, (void)times; }
  /// Somebody waits for that ping or push now.
  virtual void hurry(uint64_t number) { (void)number; }
  /// What discover() was called for has ended: 0, or why it failed. Once per call.
  virtual void discovered(uint64_t waiter, int32_t error) = 0;

 protected:
  ~DiscoveryActions() = default;
};

/// A ping info as it came; `info.nis` may lack what did not fit.
struct PingData {
  int32_t error = 0;  ///< negative errno when it is none, or was spoilt
  wire::PingDecode decode;
  Nid from;  ///< the NID that sent it
  Nid to;    ///< the NI of this node that it came to
};

class Discovery {
 public:
  Discovery(MergeDeps deps, DiscoveryActions& actions);

  void set_mode(config::Discovery mode);
  [[nodiscard]] config::Discovery mode() const { return mode_; }
  /// Our list of NIs has this sequence number now: peers that know an older one are pushed to.
  void set_sequence(uint32_t sequence);
  [[nodiscard]] uint32_t sequence() const { return sequence_; }
  /// Something else in our ping info changed that others act on: all multi-rail peers are pushed to.
  void push_all();

  /// Somebody waits until the peer is up to date; discovered() comes for `waiter`, at once when it is. `force`: also
  /// when it is.
  void discover(PeerNi& ni, uint64_t waiter, bool force);
  /// Asks a gateway, over this net of both, whether it is alive; what comes of it is in Peer::gateway. Nobody's
  /// messages wait for that. Requires: it is not being checked already (kPeerRtrDiscovery).
  void check_gateway(Peer& peer, Net net);
  void ping_answered(uint64_t number, PingData data);
  void ping_failed(uint64_t number, int32_t error);
  /// `by`: the NID that acknowledged it.
  void push_ended(uint64_t number, int32_t error, const Nid& by);
  /// A push came. From a NID that nobody has it is not believed: a peer of which the list names a NID is asked.
  void push_came(PingData data);
  /// A ping that is none of discovery's was answered with this list: if it is not the one that is known, the peer is
  /// asked anew.
  void ping_seen(const Nid& from, const wire::PingInfo& info);
  /// No effect when the peer has been told since, is being worked on, or has ended.
  void tell_again(uint32_t peer);
  /// To call when something else changed the peer's state.
  void refresh(Peer& peer);

  /// Works on peers that something happened to, at most kDiscoveryBudget; returns how many.
  unsigned turn();
  /// How many peers that are pushed to lack our newest list; the primary NID of the first of them goes to `first`.
  [[nodiscard]] size_t untold(Nid* first = nullptr) const;
  /// Those who wait for this peer, by the numbers that discover() was called with.
  [[nodiscard]] std::vector<uint64_t> waiters(const Peer& peer) const;
  [[nodiscard]] bool pending() const { return !queue_.empty() || !orphans_.empty(); }

 private:
  struct Waiter {
    uint64_t waiter;
    Nid nid;
  };
  void queue(Peer& peer);
  void work(Peer& peer);
  /// False when there is nothing left to do now.
  bool step(Peer*& peer);
  bool merge(Peer*& peer);
  void unknown_pushed(const PingData& data);
  void finish(Peer& peer, int32_t error);
  void send_ping(Peer& peer);
  [[nodiscard]] static PingOp ping_op(const Peer& peer);
  [[nodiscard]] PingOp check_op(const Peer& peer) const;
  void gateway_checked(Peer& peer, int32_t error);
  void send_push(Peer& peer);
  void bad_data(Peer& peer, const PingData& data);
  void bad_reply(Peer& peer, const std::string& why);
  [[nodiscard]] int32_t bad_replies_end(Peer& peer, const std::string& why);
  [[nodiscard]] bool has_nid(const Peer& peer, const Nid& nid) const;
  void learn_features(Peer& peer, uint32_t features);
  void heard_of_another(Peer& peer);
  void strand_waiters(const Peer& peer);
  void follow_orphans();
  [[nodiscard]] bool needs_push(const Peer& peer) const;
  [[nodiscard]] bool is_up_to_date(const Peer& peer) const;
  [[nodiscard]] bool is_not_told(const Peer& peer) const;
  [[nodiscard]] bool is_waited_for(const Peer& peer) const;
  [[nodiscard]] Peer* of_number(uint64_t number);

  MergeDeps deps_;
  DiscoveryActions& actions_;
  config::Discovery mode_ = config::Discovery::kOn;
  uint32_t sequence_ = 1;
  uint32_t next_number_ = 1;
  std::deque<uint32_t> queue_;                       // peer ids, each once: whatever came, a turn is a turn
  std::map<uint32_t, std::vector<Waiter>> waiters_;  // by peer id
  std::vector<Waiter> orphans_;                      // their peer has ended
};

/// The letters above that hold for a peer, e.g. "LPM".
[[nodiscard]] std::string discovery_letters(const Peer& peer, uint32_t sequence);
/// The state of the documents' state machine of a peer (their figure 12) that these bits amount to.
[[nodiscard]] const char* discovery_state(const Peer& peer);

}  // namespace ulnet
