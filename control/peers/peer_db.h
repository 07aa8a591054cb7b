// The peers of a node: peer -> peer nets -> peer NIs, as docs/wire/lnet.md §5 has them, and what workers get of them.
// Thread: control. It decides which worker serves a peer NI, and gives it credits; it does not talk to peers (discovery
// does) and knows routes only by the question whether a net can be reached. A peer NI on a net that is neither local
// nor routed is known by name only; every other has memory that workers and drivers see, which counts against
// `peers_max`. Memory of one that was removed is freed when nobody names it any more (reclaim.h); if it comes back
// before, it gets its own again, with the number that drivers know it by.
#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "config/model.h"
#include "config/problem.h"
#include "control/health/health_value.h"
#include "control/nis/local_nis.h"
#include "control/peers/reclaim.h"
#include "control/policy/result.h"
#include "control/publish/peer_table.h"
#include "control/timers.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/totals.h"
#include "dataplane/wire/ping_info.h"

namespace ulnet {

/// Bits of Peer::state: LNet's numbers, which `peer show -v 3` prints (docs/wire/lnet.md §5.1).
enum PeerState : uint32_t {
  kPeerMultiRail = 1u << 0,
  kPeerNoDiscovery = 1u << 1,
  kPeerRouterEnabled = 1u << 2,
  kPeerConfigured = 1u << 3,
  kPeerDiscovered = 1u << 4,
  kPeerRediscover = 1u << 5,
  kPeerDiscovering = 1u << 6,
  kPeerDataPresent = 1u << 7,
  kPeerNidsUptodate = 1u << 8,
  kPeerPingSent = 1u << 9,
  kPeerPushSent = 1u << 10,
  kPeerPingFailed = 1u << 11,
  kPeerPushFailed = 1u << 12,
  kPeerForcePing = 1u << 13,
  kPeerForcePush = 1u << 14,
  kPeerRtrDiscovery = 1u << 16,
  kPeerRtrDiscovered = 1u << 17,
  kPeerMarkDeletion = 1u << 18,
  kPeerLockPrimary = 1u << 20,
  kPeerBadConfig = 1u << 21,
};
/// What discovery keeps of its own work: nobody else may change it, or would end that work.
inline constexpr uint32_t kPeerBusy = kPeerDiscovering | kPeerDataPresent | kPeerPingSent | kPeerPushSent |
                                      kPeerPingFailed | kPeerPushFailed | kPeerRtrDiscovery | kPeerMarkDeletion;

/// Whether a peer NI answers, as far as its driver knows. Without discovery nobody probes a dead one, so it is tried
/// again after a while.
struct Liveness {
  bool down = false;
  unsigned failures = 0;  ///< in a row
  int32_t error = 0;      ///< negative errno of the last connection, if it failed
  Instant since = kNever;
  Instant retry_at = kForever;
};
inline constexpr Duration kRetryMin = 1s;
inline constexpr Duration kRetryMax = 60s;
/// Between looks whether a message came from a peer NI that is down.
inline constexpr Duration kHeardLook = 100ms;
/// Between looks for peer NIs that take no messages, on a router.
inline constexpr Duration kSilentLook = 1s;

struct Peer;
struct PeerNi {
  PeerNiId id{};
  Nid nid;
  Peer* peer = nullptr;  ///< null: it was removed, and only its memory is kept
  WorkerId server = kNoWorker;
  int32_t tx_credits = 0;  ///< 0: its net was never local
  int32_t rtr_credits = 0;
  bool net_local = false;              ///< its net has been local since it got its credits
  std::shared_ptr<PeerBlocks> blocks;  ///< null: known by name only. Once there, its id, server and address stay
  HealthValue health;
  struct {
    uint64_t charged = 0, received = 0;  ///< numbers at the last look of Health
    int64_t heard_ns = 0;                ///< the last message that Health has seen
    bool avoided = false;                ///< its server takes back what has not begun
    bool pinged = false;                 ///< a recovery ping to it is under way
  } watch;
  Nid source;  ///< recorded for a peer without multi-rail (docs/wire/lnet.md §5.7), see policy.source; ANY: none yet
  PeerNiPolicy policy;
  uint64_t policy_seen = 0;  ///< the state of rules and objects that `policy` results from; 0: it has no results yet
  Liveness life;
  bool cut_off = false;                      ///< a link of this node is down, and no other one leads to it (CutOff)
  uint64_t stuck_mark = 0;                   ///< of what it has taken and sent, at the last look for silent ones
  Instant stuck_since = kNever;              ///< since when it has taken nothing, with messages waiting
  wire::NiStatus status = wire::kNiInvalid;  ///< what its node last said of it (docs/wire/lnet.md §5.6)
  int64_t heard_ns = 0;                      ///< the last message from it, when its node said so
  InterfaceTotals baseline;
  /// The last message from it; 0: none yet.
  [[nodiscard]] int64_t last_heard_ns() const { return blocks == nullptr ? 0 : blocks->slice.last_alive_ns.get(); }
  /// Its node says that it is down, and no message has come from it since.
  [[nodiscard]] bool said_down() const { return status == wire::kNiDown && last_heard_ns() == heard_ns; }
  /// Nothing should be sent to it, though no message has failed.
  [[nodiscard]] bool known_down() const { return cut_off || said_down(); }
};

struct PeerNet {
  Net net;
  PolicyPriority policy;
  std::vector<PeerNi*> nis;
};

/// What discovery keeps of a peer, besides the bits of Peer::state. Only control/discovery changes it.
struct PeerDiscovery {
  uint32_t node_seqno = 0;               ///< of our NIs in the last push that it acknowledged (the documents' L)
  uint32_t peer_seqno = 0;               ///< of its NIs in the newest data from it
  uint32_t sink_bytes = kPingBufferMin;  ///< room that its ping info needs
  uint32_t push_seqno = 0;               ///< of our NIs in the push under way
  uint64_t ping = 0;                     ///< number of the ping under way; 0 = none
  uint64_t push = 0;                     ///< number of the push under way; 0 = none
  int32_t error = 0;                     ///< of the ping or push that failed, negative errno
  uint32_t bad_replies = 0;              ///< in a row; docs/decisions.md #28 says which are bad
  uint32_t failures = 0;                 ///< in a row: pings that nobody answered
  uint32_t told_again = 0;               ///< in a row, in vain: times that it was to be told our list once more
  uint64_t differences = 0;              ///< mark of those between its list and the table that were said last
  bool resize = false;                   ///< the last reply was cut short (the documents' S)
  bool pushed_meanwhile = false;         ///< a list of it came by another way since the ping under way was sent
  Nid push_src = kAnyNid;                ///< the NI that its ping reply came to; ANY = choose
  Nid push_dst = kAnyNid;                ///< the NID that sent the reply; ANY = its primary
  uint32_t doubted = 0;      ///< a later list of the peer that its data turned out to be about; it is asked again
  uint32_t sure = 0;         ///< that list, when `data` answers a ping which was sent after the doubt
  bool held_back = false;    ///< a configured peer, or a route, keeps its NIDs from being those of its list
  bool queued = false;       ///< it is in the queue of Discovery
  bool states_only = false;  ///< up to date when states of our NIs changed; nothing is new about the peer since
  Nid told_via = kAnyNid;    ///< the NID that acknowledged the last push
  Nid heard_from = kAnyNid;  ///< the NID that the newest word of its node came from
  std::unique_ptr<wire::PingInfo> data;  ///< not merged yet
};

/// What the router checker found out about a peer that routes lead through (docs/wire/lnet.md §8.5).
struct GatewayState {
  std::vector<Net> dead;           ///< nets over which the last check failed
  Net check_net;                   ///< over which it is being checked
  uint32_t checks = 0;             ///< pings sent; NIs take turns by it
  uint32_t tries = 0;              ///< pings of this check that have failed
  std::vector<wire::PingNi> said;  ///< its NIs as it named them last; also those that are no NIDs of the peer
  [[nodiscard]] bool alive(Net net) const { return std::find(dead.begin(), dead.end(), net) == dead.end(); }
};

struct Peer {
  uint32_t id = 0;
  uint32_t state = 0;         ///< PeerState
  std::vector<PeerNet> nets;  ///< the primary NID's first, and in it the primary NID
  PeerDiscovery discovery;
  GatewayState gateway;
  bool up_to_date = false;      ///< requests may go without discovery (docs/wire/lnet.md §5.2)
  uint16_t life = 0;            ///< of its node; 0: no copies of requests may be sent to it (docs/wire/copies.md)
  Instant life_since = kNever;  ///< when that life was first known
  bool dirty = false;           ///< its view is older than it
  bool waits = false;           ///< policies have not given results to all its NIs yet
  bool never_held = false;      ///< see PeerDb::held()
  uint64_t use_mark = 0;        ///< of its traffic when it was last looked at; only where peers crowd
  Instant used_at = kNever;     ///< when that was last seen to change
  Nid met_from = kAnyNid;       ///< the address whose word for its NID was all there was when it was met; ANY: none
  [[nodiscard]] PeerNi& primary() const { return *nets.front().nis.front(); }
  [[nodiscard]] bool multi_rail() const { return has(kPeerMultiRail); }
  [[nodiscard]] bool configured() const { return has(kPeerConfigured); }
  [[nodiscard]] bool has(uint32_t bits) const { return (state & bits) != 0; }
  [[nodiscard]] size_t ni_count() const;
};

/// What a peer was, so that it can be made again when the change that ended it is undone.
struct PeerMemo {
  struct Ni {
    Nid nid;
    HealthValue health;
    Nid source;
    wire::NiStatus status = wire::kNiInvalid;
    int64_t heard_ns = 0;
  };
  std::vector<Ni> nis;  ///< the primary NID first
  uint32_t state = 0;   ///< without what was under way
  uint32_t node_seqno = 0, peer_seqno = 0, sink_bytes = kPingBufferMin;
  Nid told_via = kAnyNid, heard_from = kAnyNid;
  GatewayState gateway;
  bool up_to_date = false;
};

class PeerDb {
 public:
  struct Deps {
    LocalNis& nis;
    unsigned workers = 1;
    uint32_t peers_max = 65536;
    std::function<bool(Net)> routed;                          ///< is there a route to this net?
    std::function<bool(const Peer&)> gateway;                 ///< does a route lead through this peer?
    std::function<bool(const Nid&)> gateway_nid;              ///< is this the NID of a route's gateway?
    std::function<void(const PeerNi&)> credits_changed = {};  ///< tells its server
    std::function<bool(Peer&)> evaluate = {};  ///< finds the results of policies; false: an NI has none yet
    std::function<void(const std::string&)> log = {};
    std::vector<WorkerMemory*> near = {};  ///< by worker; absent or null: the heap
    std::vector<Tallies*> tallies = {};    ///< by worker; empty: nothing is ever sent
  };
  PeerDb(Deps deps, Timers& timers);
  /// How memory is given back; without this it never is.
  void set_ends(PeerEnds::Deps deps);

  /// The peer NI with this NID; when there is none, a new peer with this one NID that is not multi-rail. `via`: the
  /// local NI that it was met on, which becomes its one source; ANY: one is chosen. Errors: ENOMEM (`peers_max`, and
  /// kNamesPerPeerNi times as many that are known by name). A new one goes to the worker `wish`, if that is near.
  [[nodiscard]] Result<PeerNi*> find_or_create(const Nid& nid, const Nid& via, WorkerId wish = kNoWorker);
  /// The same for a NID that somebody wants to send to. Errors: EHOSTUNREACH when its net is neither local nor routed.
  [[nodiscard]] Result<PeerNi*> resolve(const Nid& nid);
  /// The same as find_or_create() for a driver that is connected with it: it has memory, whatever its net.
  [[nodiscard]] Result<PeerNi*> place(const Nid& nid, const Nid& via, WorkerId wish = kNoWorker);
  /// The same for a peer of whose NID there is only its own word. Errors: ENOMEM also when its address has brought its
  /// share of NIDs, and all are in use.
  [[nodiscard]] Result<PeerNi*> place_stranger(const Nid& nid, const Nid& via, const Stranger& stranger);
  /// No connection names it any more: a stranger that was not used is forgotten.
  void left(PeerNiId id) {
    left_.push_back(id);
    left_timer_.set_now();
  }
  [[nodiscard]] PeerNi* find(const Nid& nid);
  [[nodiscard]] PeerNi* find(PeerNiId id);
  [[nodiscard]] Peer* find_peer(uint32_t id);
  [[nodiscard]] bool is_gateway(const Peer& peer) const { return deps_.gateway && deps_.gateway(peer); }
  [[nodiscard]] bool is_gateway(const Nid& nid) const { return deps_.gateway_nid && deps_.gateway_nid(nid); }

  // --- for discovery, which knows the rules (control/discovery/merge.h) ---------------------------------------------
  /// Adds a NID to the peer, taking it from the peer that has it. A peer that loses its primary NID ends. Errors:
  /// ENOMEM.
  [[nodiscard]] Result<PeerNi*> take_nid(Peer& peer, const Nid& nid);
  /// Takes a NID, not the only one, from its peer. No peer has it then; a gateway's NID becomes a peer of its own.
  void lose_nid(PeerNi& ni) { release(ni); }
  /// The peer is forgotten with its NIDs; a gateway's NID becomes a peer of its own.
  void forget(Peer& peer) { drop_peer(peer); }
  /// Requires: the NID is one of the peer's.
  void set_primary(Peer& peer, const Nid& nid);
  /// To call when its net became local or was left, or it became multi-rail or no longer is: memory, credits and
  /// sources follow.
  void follow_nis(Peer& peer);
  /// `gone` is called for each peer that ends, while it still has its id.
  void set_gone(std::function<void(const Peer&)> gone) { gone_hook_ = std::move(gone); }
  /// `ready` is called for each NI that has both a peer and memory from now on, whichever came last.
  void set_ready(std::function<void(PeerNi&)> ready) { ready_hook_ = std::move(ready); }

  /// Adds a configured peer, or NIDs to it, whole or not at all. A NID of a peer that is not configured is taken from
  /// it. Errors: EEXIST, EPERM, ENOTUNIQ, ENOMEM (docs/wire/lnetctl.md §6).
  /// `refresh`: NIDs of a configured peer that are not listed are taken from it. Error, besides: EINVAL (a NID of this
  /// node).
  [[nodiscard]] config::Checked<Peer*> add(const config::PeerConfig& config, bool refresh = false);
  /// Removes NIDs of a peer, or the whole peer, configured or discovered. Errors: ENOENT, EPERM, EBUSY (a gateway).
  [[nodiscard]] config::Checked<void> remove(const Nid& primary, const std::vector<Nid>& nids, bool force);
  /// What this node knows of each peer that has one of these NIDs, for restore().
  [[nodiscard]] std::vector<PeerMemo> remember(const std::vector<Nid>& nids);
  /// Makes the peer again as it was. A NID that a configured peer has meanwhile stays there.
  void restore(const PeerMemo& memo);
  /// To call when a configured peer lost NIDs, or a route went: whoever was held back by that is asked anew.
  void configuration_freed() { freed_ = true; }
  /// Does so now; otherwise flush() does.
  void ask_anew_who_was_held_back();
  /// Removes every peer that is no gateway, as `lnet unconfigure` does.
  void clear();

  /// To call when NIs changed: memory and credits follow. The recorded sources follow in follow_sources().
  void nis_changed();
  /// To call before a view is built. Looks at all peers only if NIs came, went, or became usable or unusable.
  void follow_sources();
  /// To call when routes came: peer NIs that they lead to get memory.
  void routes_changed();
  /// Its driver says that it is connected, or cannot be.
  void alive(PeerNi& ni);
  void dead(PeerNi& ni, Instant now, int32_t error);
  /// Lets dead ones be tried again when it is time, or when a message has come from them since; calls `changed` for
  /// each. Notices a message within kHeardLook.
  void revive(Instant now, const std::function<void(PeerNi&)>& changed);
  /// Workers take liveness into account only where this is set (a router; docs/wire/lnet.md §8.2).
  void set_watch_aliveness(bool on);

  /// From the next flush() on, workers see the peer as it is now. Needs no memory.
  void touch(Peer& peer) noexcept;
  /// Something has changed since flush() was called last.
  [[nodiscard]] bool changed() const { return freed_ || !dirty_.empty() || !gone_.empty(); }
  /// Brings `table` up to date with everything that has changed; true when something had. A new NI is held out of the
  /// table until policies have given results to it and to its primary NI, so that no message is sent without regard to
  /// a rule. NIs of gateways are never held, because messages do not wait for a gateway.
  bool flush(PeerTableBuilder& table);
  /// To call when what flush() brought up to date is out.
  void published(Epoch epoch) { ends_.published(epoch); }
  /// A worker has answered PeerAskMsg.
  void answered(const PeerAnswerMsg& msg, Instant now) { ends_.answer(msg, now); }
  /// Gives memory back, and forgets who is not used when peers crowd; returns work done.
  unsigned turn(Instant now);

  [[nodiscard]] const std::map<uint32_t, std::unique_ptr<Peer>>& peers() const { return peers_; }
  /// Grows when the NIDs of a gateway, or its primary NID, may have changed.
  [[nodiscard]] uint64_t gateway_revision() const { return gateway_revision_; }
  /// Peer NIs that have memory, which is what peers_max bounds.
  [[nodiscard]] size_t allocated() const { return by_id_.size(); }
  /// NIDs of peers that are known, those whose memory is being given back among them.
  [[nodiscard]] size_t known() const { return nis_.size(); }
  /// Peer NIs served by each worker.
  [[nodiscard]] const std::vector<uint32_t>& load() const { return load_; }

 private:
  [[nodiscard]] Result<PeerNi*> make_ni(const Nid& nid, const LocalNi* via, bool connected = false,
                                        WorkerId wish = kNoWorker);
  [[nodiscard]] bool give_blocks(PeerNi& ni, const LocalNi* via, WorkerId wish = kNoWorker);
  void give_credits(PeerNi& ni);
  void give_memory(PeerNet& net, const std::vector<LocalNi*>& local);
  void give_memory_to_all();
  void record_source(Peer& peer, PeerNet& net, const std::vector<LocalNi*>& local);
  using NetStep = std::function<void(Peer&, PeerNet&, const std::vector<LocalNi*>&)>;
  void for_each_net(const NetStep& step);
  void over(PeerNiId id);
  [[nodiscard]] size_t names_max() const { return size_t{kNamesPerPeerNi} * deps_.peers_max; }
  [[nodiscard]] bool crowded() const;
  [[nodiscard]] bool may_be_forgotten(const Peer& peer) const;
  unsigned forget_unused(Instant now);
  unsigned look_for_silent(Instant now);
  unsigned look_for_silent(Net net, Duration limit, Instant now);
  unsigned forget_left();
  void forget_stranger(const Peer& peer);
  [[nodiscard]] size_t strangers_max() const;
  [[nodiscard]] bool stranger_room(const Nid& address);
  [[nodiscard]] bool over_share(const Peer& peer) const;
  [[nodiscard]] WorkerId choose_worker(const LocalNi* via, WorkerId wish) const;
  [[nodiscard]] const LocalNi* choose_source(Net net);
  /// Adds the NI to `peer`; null: to a new one.
  Peer& attach(Peer* peer, PeerNi& ni);
  void detach(PeerNi& ni);
  void release(PeerNi& ni);
  void take_from_owner(PeerNi& ni);
  void drop_peer(Peer& peer);
  [[nodiscard]] config::Checked<void> may_add(const config::PeerConfig& config, const std::vector<Nid>& nids,
                                              const Peer* target);
  void reconfigured(Peer& peer);
  void take_back_own();
  [[nodiscard]] std::shared_ptr<const PeerView> view_of(const Peer& peer) const;
  [[nodiscard]] bool held(const PeerNi& ni) const;
  void renew_view(Peer& peer, PeerTableBuilder& table);
  unsigned flush_waiting(PeerTableBuilder& table);

  Deps deps_;
  std::map<uint32_t, std::unique_ptr<Peer>> peers_;                // in order of creation
  std::unordered_map<Nid, std::unique_ptr<PeerNi>, NidHash> nis_;  // also those that were removed
  std::unordered_map<uint32_t, PeerNi*> by_id_;
  /// Peers by Peer::met_from, the oldest first.
  std::unordered_map<Nid, std::set<uint32_t>, NidHash> strangers_;
  std::vector<uint32_t> dirty_;       // peer ids; attach() makes room for all peers, here and in the next
  std::vector<uint32_t> waiting_;     // peer ids, the oldest first
  std::vector<Nid> gone_;             // NIDs to take out of the table
  std::vector<PeerNiId> left_;        // no connection names them any more
  Instant looked_at_ = kNever;        // when unused peers were looked for last
  PeerEnds ends_;                     // of NIs whose memory is being given back
  std::map<PeerNiId, PeerNi*> down_;  // by id, so that each run has the same order
  Instant look_at_ = kNever;          // no earlier look for unused peers
  SlowTimer silent_;                  // while watch_ is set
  SlowTimer retry_;                   // no later than the first retry_at in down_
  SlowTimer left_timer_;              // while left_ holds any
  SlowTimer unused_;                  // as look_at_, while peers crowd; flush() sets it
  std::function<void(const Peer&)> gone_hook_;
  std::function<void(PeerNi&)> ready_hook_;
  std::vector<uint32_t> load_;
  uint32_t next_peer_ = 1;
  uint32_t next_ni_ = 1;
  uint32_t next_source_ = 0;
  uint64_t gateway_revision_ = 0;
  std::vector<Net> local_nets_;                     // at the last nis_changed()
  std::vector<std::pair<NiId, bool>> usable_seen_;  // NIs at the last follow_sources(); true: usable
  bool sources_due_ = false;
  bool watch_ = false;
  bool freed_ = false;                // configuration_freed() was called
  std::vector<uint32_t> free_slots_;  // of tallies; if empty, the next is by_id_.size(). Has room for all
  bool starved_ = false;              // some peer NI is known by name only because peers_max was reached
};

}  // namespace ulnet
