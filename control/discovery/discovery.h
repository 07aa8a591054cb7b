// Discovery: by a ping this node learns the NIDs of a peer; by a push a peer learns the NIDs of this node. Thread:
// control. This is the state machine alone: events come in as calls, actions go out through DiscoveryActions. The
// machine uses no clock and no rings, so the same calls in the same order give the same decisions. A list of NIDs
// changes the peer table by the rules of merge.h; runner.h sends pings and pushes. Source: docs/wire/lnet.md §5, whose
// bits of Peer::state are the state here.
//
// The letters that the documents of Multi-Rail reason with, and what they are here:
//   L  our list is known to the peer   PeerDiscovery::node_seqno >= the sequence of our list (acknowledged pushes only)
//   P  its list is merged              kPeerNidsUptodate      D  its list has come, not merged   kPeerDataPresent
//   M  it is multi-rail                kPeerMultiRail         C  it is configured                kPeerConfigured
//   R  a ping is under way             kPeerPingSent          A  a push is under way             kPeerPushSent
//   Q  it is being worked on           kPeerDiscovering       S  its list did not fit            PeerDiscovery::resize
// The hard part: lists overtake each other. A push may be older than the known list, because a newer list overtook the
// push or because the peer's node restarted. A reply may be older than a push that came after the ping was sent. If
// both lists name a life of the node, equal lives are needed to compare their sequences (may_be_overtaken()). In all
// these cases this node pings again: only the reply to a ping that no push crossed is certainly the newest list.
#pragma once
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "config/model.h"
#include "control/discovery/merge.h"
#include "control/discovery/ping_op.h"
#include "control/timers.h"

namespace ulnet {

/// Useless replies in a row that discovery of a peer tolerates; the next one ends it in an error (docs/decisions.md
/// #28). A reply is useless if it is corrupt, did not fit, may be older than a push, or comes from a NID outside the
/// peer. A push that such a NID acknowledges counts, too.
inline constexpr uint32_t kBadRepliesMax = 3;
/// Peers worked on in one turn.
inline constexpr unsigned kDiscoveryBudget = 64;

/// Actions that discovery requests. No implementation calls back into Discovery before its function has returned.
class DiscoveryActions {
 public:
  /// A GET of ping info, which ends in ping_answered() or ping_failed() with the same number.
  virtual void send_ping(const PingOp& op) = 0;
  /// A PUT of our current ping info, which ends in push_ended(). The payload is the implementation's to set.
  virtual void send_push(const PingOp& op) = 0;
  /// The peer with this id discovers and holds an older list of ours, but could not be given the newest. `times`: how
  /// often tell_again() has already repeated that. True: the implementation calls tell_again() for it after a while.
  virtual bool not_told(uint32_t peer, uint32_t times) { return (void)peer, (void)times, false; }
  /// From now on a waiter needs that ping or push.
  virtual void hurry(uint64_t number) { (void)number; }
  /// The request of a discover() call has ended; `error` is 0 or a negative errno. Called once per discover().
  virtual void discovered(uint64_t waiter, int32_t error) = 0;

 protected:
  ~DiscoveryActions() = default;
};

/// A ping info as it came; `info.nis` may lack what did not fit.
struct PingData {
  int32_t error = 0;  ///< negative errno if the bytes are no ping info, or a corrupt one
  wire::PingDecode decode;
  Nid from;  ///< the NID that sent it
  Nid to;    ///< the NI of this node that it came to
};

class Discovery {
 public:
  Discovery(MergeDeps deps, DiscoveryActions& actions, Timers& timers);

  void set_mode(config::Discovery mode);
  [[nodiscard]] config::Discovery mode() const { return mode_; }
  /// Sets the sequence number of our list of NIs, and the one since which it has had the same NIDs. Discovered peers
  /// that hold an older list get a push. If only states of NIs differ, no message waits for the push.
  void set_sequence(uint32_t sequence, uint32_t nids);
  [[nodiscard]] uint32_t sequence() const { return sequence_; }
  /// To call if another part of our ping info changed that other nodes act on. All discovered multi-rail peers get a
  /// push.
  void push_all();

  /// Brings the peer of `ni` up to date, then calls discovered() for `waiter`; at once if the peer is up to date.
  /// `force`: discovers the peer even if it is up to date.
  void discover(PeerNi& ni, uint64_t waiter, bool force);
  /// Checks whether a gateway is alive, over this net that it shares with this node. The result is in Peer::gateway.
  /// No message waits for the check. Requires: the gateway is not being checked already (kPeerRtrDiscovery).
  void check_gateway(Peer& peer, Net net);
  void ping_answered(uint64_t number, PingData data);
  void ping_failed(uint64_t number, int32_t error);
  /// `by`: the NID that acknowledged it.
  void push_ended(uint64_t number, int32_t error, const Nid& by);
  /// Handles a push. If no peer has the sending NID, the list is not applied: a discovered peer that has a NID of the
  /// list is pinged instead.
  void push_came(PingData data);
  /// Handles a list that answered a ping which discovery did not send. If the list differs from the known one, the peer
  /// is pinged again.
  void ping_seen(const Nid& from, const wire::PingInfo& info);
  /// Repeats a push that failed (DiscoveryActions::not_told). No effect if the peer has got our list since, is being
  /// worked on, or has ended.
  void tell_again(uint32_t peer);
  /// To call when something else changed the peer's state.
  void refresh(Peer& peer);

  /// Works on peers that an event has queued, at most kDiscoveryBudget; returns how many.
  unsigned turn();
  /// How many peers lack our newest list while their push is under way or due. `first` gets the primary NID of the
  /// first of these peers.
  [[nodiscard]] size_t untold(Nid* first = nullptr) const;
  /// The waiters for this peer, by the numbers that discover() was called with.
  [[nodiscard]] std::vector<uint64_t> waiters(const Peer& peer) const;
  [[nodiscard]] bool pending() const { return !queue_.empty() || !orphans_.empty(); }
  /// turn() is not called any more.
  void stop();

 private:
  struct Waiter {
    uint64_t waiter;
    Nid nid;
  };
  void queue(Peer& peer);
  void unsettle(Peer& peer);
  void set_timer();
  void work(Peer& peer);
  /// False when there is nothing left to do now.
  bool step(Peer*& peer);
  bool merge(Peer*& peer);
  void unknown_pushed(const PingData& data);
  void finish(Peer& peer, int32_t error);
  void send_ping(Peer& peer);
  void gateway_checked(Peer& peer, int32_t error);
  void send_push(Peer& peer);
  void bad_data(Peer& peer, const PingData& data);
  void bad_reply(Peer& peer, const std::string& why);
  [[nodiscard]] int32_t bad_replies_end(Peer& peer, const std::string& why);
  [[nodiscard]] bool has_nid(const Peer& peer, const Nid& nid) const;
  void learn_features(Peer& peer, uint32_t features);
  void learn_life(Peer& peer, uint32_t features);
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
  uint32_t sequence_ = 1, nids_sequence_ = 1;
  uint32_t next_number_ = 1;
  std::deque<uint32_t> queue_;                       // peer ids, each once, however many events a peer had
  std::map<uint32_t, std::vector<Waiter>> waiters_;  // by peer id
  std::vector<Waiter> orphans_;                      // their peer has ended or lost their NID
  SlowTimer work_;                                   // turn() has work
  bool stopped_ = false;
};

}  // namespace ulnet
