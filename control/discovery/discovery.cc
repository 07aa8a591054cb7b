#include "control/discovery/discovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "control/discovery/ping_choice.h"
#include "dataplane/base/nid_text.h"

namespace ulnet {
namespace {

constexpr uint32_t kUnfinished = kPeerDiscovering | kPeerRediscover | kPeerForcePing | kPeerForcePush;
constexpr uint32_t kFinished = kPeerDiscovered | kPeerNidsUptodate;

void clear(Peer& peer, uint32_t bits) {
  peer.state &= ~bits;
}

}  // namespace

Discovery::Discovery(MergeDeps deps, DiscoveryActions& actions, Timers& timers)
    : deps_(std::move(deps)), actions_(actions), work_(timers, TimerName::kDiscovery) {
  deps_.peers.set_gone([this](const Peer& peer) {
    const auto found = waiters_.find(peer.id);
    if (found == waiters_.end()) return;
    orphans_.insert(orphans_.end(), found->second.begin(), found->second.end());
    waiters_.erase(found);
    set_timer();
  });
}

// --- events ----------------------------------------------------------------------------------------------------------

// After a switch from off or `verify`, which merge nothing, a peer gets ping and push when a message is next sent to
// it. After a switch to off, peers get their last push at once (docs/wire/lnet.md §4.5).
void Discovery::set_mode(config::Discovery mode) {
  if (mode == mode_) return;
  const bool merged = mode_ == config::Discovery::kOn;
  mode_ = mode;
  if (mode == config::Discovery::kOff) return push_all();
  for (const auto& [id, peer] : deps_.peers.peers()) {
    if (!merged) {
      clear(*peer, kPeerNidsUptodate);
      peer->discovery.node_seqno = peer->discovery.push_seqno = 0;  // a push under way says that we do not discover
    }
    refresh(*peer);
  }
}

void Discovery::set_sequence(uint32_t sequence, uint32_t nids) {
  for (const auto& [id, peer] : deps_.peers.peers()) peer->discovery.states_only = is_up_to_date(*peer);
  sequence_ = sequence;
  nids_sequence_ = nids;
  for (const auto& [id, peer] : deps_.peers.peers()) {
    peer->discovery.told_again = 0;
    if (peer->has(kPeerDiscovered) && needs_push(*peer)) queue(*peer);
    refresh(*peer);
  }
}

void Discovery::push_all() {
  for (const auto& [id, peer] : deps_.peers.peers()) {
    if (!peer->multi_rail() || !peer->has(kPeerDiscovered)) continue;
    peer->state |= kPeerForcePush;
    unsettle(*peer);
  }
}

void Discovery::discover(PeerNi& ni, uint64_t waiter, bool force) {
  deps_.peers.ask_anew_who_was_held_back();
  Peer& peer = *ni.peer;
  if (force) {
    peer.state |= kPeerForcePing | kPeerForcePush;
    peer.discovery.states_only = false;
  }
  if (is_up_to_date(peer)) {
    refresh(peer);
    return actions_.discovered(waiter, 0);
  }
  waiters_[peer.id].push_back({waiter, ni.nid});
  if (is_waited_for(peer))
    for (const uint64_t under_way : {peer.discovery.ping, peer.discovery.push})
      if (under_way != 0) actions_.hurry(under_way);
  if (force || !peer.has(kPeerDiscovering)) queue(peer);
}

// The answer of a ping or push from before says nothing about this net, and may take long: the check does not wait.
void Discovery::check_gateway(Peer& peer, Net net) {
  peer.gateway.check_net = net;
  peer.gateway.tries = 0;
  peer.discovery.ping = peer.discovery.push = 0;
  clear(peer, kPeerNidsUptodate | kPeerPingSent | kPeerPushSent);
  peer.state |= kPeerForcePing | kPeerForcePush | kPeerRtrDiscovery;
  unsettle(peer);
}

Peer* Discovery::of_number(uint64_t number) {
  Peer* peer = deps_.peers.find_peer(uint32_t(number >> 32));
  return peer != nullptr && (peer->discovery.ping == number || peer->discovery.push == number) ? peer : nullptr;
}

void Discovery::ping_answered(uint64_t number, PingData data) {
  Peer* peer = of_number(number);
  if (peer == nullptr) return;
  PeerDiscovery& d = peer->discovery;
  d.ping = 0;
  clear(*peer, kPeerPingSent);
  d.failures = 0;
  const bool crossed = std::exchange(d.pushed_meanwhile, false);
  if (data.error != 0 || data.decode.truncated) {
    bad_data(*peer, data);
    return queue(*peer);
  }
  wire::PingInfo& info = data.decode.info;
  // The list may be older than a push that crossed it, or come from a NID that moved to another node meanwhile. In both
  // cases the next answer shows which list is right.
  if (!has_nid(*peer, data.from)) {
    bad_reply(*peer, fmt::format("the last came from {}, which is no NID of the peer", nid_text(data.from)));
    return queue(*peer);
  }
  if (crossed && may_be_overtaken(*peer, info)) {
    bad_reply(*peer, "the last may be older than a push that came before it");
    return queue(*peer);
  }
  d.bad_replies = 0;
  d.heard_from = data.from;
  learn_features(*peer, info.features);
  const bool same = !info.nis.empty() && info.nis.front().nid == peer->primary().nid;
  if (peer->multi_rail() && same) d.peer_seqno = info.sequence;
  d.push_src = data.to;
  d.push_dst = data.from;
  d.sure = peer->has(kPeerForcePing) ? 0 : d.doubted;  // kPeerForcePing: this ping was sent before `doubted` was set
  d.data = std::make_unique<wire::PingInfo>(std::move(info));
  peer->state |= kPeerDataPresent;
  queue(*peer);
}

// If a list of the peer came by another way meanwhile, the failed ping does not matter.
void Discovery::ping_failed(uint64_t number, int32_t error) {
  Peer* peer = of_number(number);
  if (peer == nullptr) return;
  peer->discovery.ping = 0;
  peer->discovery.pushed_meanwhile = false;
  ++peer->discovery.failures;
  clear(*peer, kPeerPingSent);
  if (peer->has(kPeerNidsUptodate | kPeerDataPresent) && !peer->has(kPeerForcePing)) return refresh(*peer);
  if (peer->has(kPeerRtrDiscovery) && ++peer->gateway.tries < check_targets(*peer).size()) {
    peer->state |= kPeerForcePing;  // another NI of the gateway on that net may answer
    return queue(*peer);
  }
  peer->discovery.error = error;
  peer->state |= kPeerPingFailed;
  queue(*peer);
}

// If the acknowledging NID has left this peer, another node received the push, and this peer still lacks our list.
void Discovery::push_ended(uint64_t number, int32_t error, const Nid& by) {
  Peer* peer = of_number(number);
  if (peer == nullptr) return;
  PeerDiscovery& d = peer->discovery;
  d.push = 0;
  clear(*peer, kPeerPushSent);
  if (error == 0 && has_nid(*peer, by)) {
    d.node_seqno = d.push_seqno;
    d.told_via = by;
  } else if (error == 0) {
    d.error = bad_replies_end(
        *peer, fmt::format("the last push was acknowledged by {}, which is no NID of the peer", nid_text(by)));
    if (d.error != 0) peer->state |= kPeerPushFailed;
  } else {
    d.error = error;
    peer->state |= kPeerPushFailed;
  }
  queue(*peer);
}

void Discovery::push_came(PingData data) {
  PeerNi* ni = deps_.peers.find(data.from);
  if (ni == nullptr) return unknown_pushed(data);
  Peer& peer = *ni->peer;
  PeerDiscovery& d = peer.discovery;
  d.pushed_meanwhile = peer.has(kPeerPingSent);
  if (data.error != 0 || data.decode.truncated) {
    if (data.error == 0) d.sink_bytes = std::max(d.sink_bytes, uint32_t(data.decode.needed_bytes));
    clear(peer, kPeerNidsUptodate);
    peer.state |= kPeerForcePing;
    return unsettle(peer);
  }
  wire::PingInfo& info = data.decode.info;
  if ((info.features & wire::kFeatureMultiRail) == 0) return;
  const bool doubtful = may_be_overtaken(peer, info);
  const bool same_life = wire::life_in(info.features) == peer.life;
  if (doubtful && same_life && d.data != nullptr) return;
  clear(peer, kPeerNidsUptodate);
  if (doubtful) {
    peer.state |= kPeerForcePing;
    d.states_only = false;
  } else {
    d.heard_from = data.from;
    learn_features(peer, info.features);
    d.peer_seqno = info.sequence;
    d.sure = 0;
    d.data = std::make_unique<wire::PingInfo>(std::move(info));
    peer.state |= kPeerDataPresent;
  }
  queue(peer);
}

// This node has acknowledged the push, so the sending node will not send the list again.
void Discovery::unknown_pushed(const PingData& data) {
  if (data.error != 0 || mode_ == config::Discovery::kOff) return;
  for (const wire::PingNi& one : data.decode.info.nis) {
    PeerNi* ni = deps_.peers.find(one.nid);
    if (ni == nullptr) continue;
    Peer& peer = *ni->peer;
    if (!peer.has(kPeerDiscovered | kPeerPingSent)) return;
    clear(peer, kPeerNidsUptodate);
    peer.state |= kPeerForcePing;
    return unsettle(peer);
  }
}

void Discovery::ping_seen(const Nid& from, const wire::PingInfo& info) {
  PeerNi* ni = deps_.peers.find(from);
  if (ni == nullptr || info.nis.empty() || mode_ == config::Discovery::kOff) return;
  Peer& peer = *ni->peer;
  if (!peer.has(kPeerDiscovered) || !peer.multi_rail() || peer.has(kPeerDiscovering)) return;
  const bool known = peer.ni_count() == info.nis.size() && info.sequence == peer.discovery.peer_seqno &&
                     std::all_of(info.nis.begin(), info.nis.end(), [&](const wire::PingNi& one) {
                       const PeerNi* same = deps_.peers.find(one.nid);
                       return same != nullptr && same->peer == &peer;
                     });
  const bool heard = peer.configured() && info.sequence == peer.discovery.peer_seqno;  // such a peer keeps its NIDs
  if (known || heard) return;
  clear(peer, kPeerNidsUptodate);
  peer.state |= kPeerForcePing;
  unsettle(peer);
}

void Discovery::bad_data(Peer& peer, const PingData& data) {
  PeerDiscovery& d = peer.discovery;
  const uint32_t needed = data.error == 0 ? uint32_t(data.decode.needed_bytes) : 0;
  d.resize = needed > d.sink_bytes;
  d.sink_bytes = std::max(d.sink_bytes, needed);
  bad_reply(peer, data.error != 0 ? "the last was no ping info" : "the last did not fit");
}

// The peer is pinged again, unless it has sent too many bad replies.
void Discovery::bad_reply(Peer& peer, const std::string& why) {
  peer.discovery.error = bad_replies_end(peer, why);
  peer.discovery.states_only = false;
  peer.state |= kPeerPingFailed;
}

/// Counts one more bad reply. Returns the error with which discovery of the peer ends, or 0 as long as there were few.
int32_t Discovery::bad_replies_end(Peer& peer, const std::string& why) {
  if (++peer.discovery.bad_replies <= kBadRepliesMax) return 0;
  deps_.log(fmt::format("warning: discovery of peer {} fails: {} replies in a row were useless; {}",
                        nid_text(peer.primary().nid), peer.discovery.bad_replies, why));
  return -EPROTO;
}

bool Discovery::has_nid(const Peer& peer, const Nid& nid) const {
  const PeerNi* ni = deps_.peers.find(nid);
  return ni != nullptr && ni->peer == &peer;
}

// docs/wire/lnet.md §5.4.
void Discovery::learn_features(Peer& peer, uint32_t features) {
  const bool merges = mode_ != config::Discovery::kVerify;
  if ((features & wire::kFeatureDiscovery) == 0 || mode_ == config::Discovery::kOff) {
    const bool known = peer.has(kPeerDiscovered | kPeerMultiRail);
    const bool taken_apart = peer.has(kPeerNoDiscovery) && !peer.multi_rail();  // `verify` only sets the first bit
    if (merges && known && !peer.configured() && !taken_apart) peer.state |= kPeerMarkDeletion;
    peer.state |= kPeerNoDiscovery;
  } else {
    clear(peer, kPeerNoDiscovery);
  }
  learn_life(peer, features);
  const bool says = (features & wire::kFeatureMultiRail) != 0;
  if (says == peer.multi_rail() || !merges) return;
  if (peer.configured()) {
    deps_.log(fmt::format("peer {} is configured as {}multi-rail, but reports that it is {}",
                          nid_text(peer.primary().nid), peer.multi_rail() ? "" : "not ", says ? "" : "not"));
    return;
  }
  if (says && peer.has(kPeerNoDiscovery)) return;
  peer.state ^= kPeerMultiRail;
  deps_.peers.follow_nis(peer);
  deps_.peers.touch(peer);
}

void Discovery::learn_life(Peer& peer, uint32_t features) {
  const uint16_t life = wire::life_in(features);
  if (life == peer.life) return;
  peer.life = life;
  peer.life_since = work_.now();
  deps_.peers.touch(peer);
}

// --- work on peers ---------------------------------------------------------------------------------------------------

void Discovery::queue(Peer& peer) {
  peer.state |= kPeerDiscovering;
  refresh(peer);
  if (!std::exchange(peer.discovery.queued, true)) queue_.push_back(peer.id);
  set_timer();
}

/// Messages to the peer wait until it is up to date again.
void Discovery::unsettle(Peer& peer) {
  peer.discovery.states_only = false;
  queue(peer);
}

void Discovery::set_timer() {
  work_.set(pending() && !stopped_ ? kNever : kForever);
}

void Discovery::stop() {
  stopped_ = true;
  work_.stop();
}

unsigned Discovery::turn() {
  follow_orphans();
  unsigned done = 0;
  for (; done < kDiscoveryBudget && !queue_.empty(); ++done) {
    Peer* peer = deps_.peers.find_peer(queue_.front());
    queue_.pop_front();
    if (peer == nullptr) continue;
    peer->discovery.queued = false;
    if (peer->has(kPeerDiscovering)) work(*peer);
  }
  follow_orphans();
  set_timer();
  return done;
}

void Discovery::work(Peer& first) {
  for (Peer* peer = &first; step(peer);) {
  }
}

// docs/wire/lnet.md §5.3: the first rule that holds.
bool Discovery::step(Peer*& at) {
  Peer& peer = *at;
  PeerDiscovery& d = peer.discovery;
  if (peer.has(kPeerMarkDeletion)) {
    clear(peer, kPeerMarkDeletion);
    peer_reduce(deps_, peer, d.heard_from);
    strand_waiters(peer);
    return true;
  }
  if (peer.has(kPeerDataPresent)) return merge(at);
  if (peer.has(kPeerPingFailed | kPeerPushFailed)) {
    clear(peer, kPeerPingFailed | kPeerPushFailed);
    peer.state |= kPeerForcePing;  // also after a failed push: the NID that it went to may be gone
    if (d.error == 0) return true;
    finish(peer, d.error);
    return false;
  }
  if (peer.has(kPeerForcePing) || !peer.has(kPeerNidsUptodate)) {
    if (!peer.has(kPeerPingSent)) send_ping(peer);
    return false;
  }
  if (peer.has(kPeerPushSent)) return false;
  if (needs_push(peer))
    send_push(peer);
  else
    finish(peer, 0);
  return false;
}

// Work goes on with the peer that the data is about. If the data came for another peer, that one needs its own list.
bool Discovery::merge(Peer*& at) {
  const uint32_t id = at->id;
  const auto data = std::move(at->discovery.data);
  clear(*at, kPeerDataPresent);
  at->state |= kPeerNidsUptodate;
  const MergeKind kind = mode_ == config::Discovery::kOff      ? MergeKind::kStatusOnly
                         : mode_ == config::Discovery::kVerify ? MergeKind::kCompare
                                                               : MergeKind::kFull;
  const uint32_t sure = std::exchange(at->discovery.sure, 0);
  at->discovery.doubted = 0;
  const MergeResult result = merge_ping_info(deps_, *at, *data, kind, sure);
  if (result.doubtful != 0) {  // an overtaken list, or the list of a restarted node: ping the sender once more
    at->discovery.doubted = result.doubtful;
    at->discovery.states_only = false;
    at->state |= kPeerForcePing;
    return true;
  }
  Peer* owner = deps_.peers.find_peer(result.peer);
  if (owner == nullptr) return false;
  if (owner->id != id) {
    if (Peer* before = deps_.peers.find_peer(id)) heard_of_another(*before);
    owner->state |= kPeerDiscovering | kPeerNidsUptodate;
    owner->discovery.pushed_meanwhile |= owner->has(kPeerPingSent);
  }
  if (owner->discovery.data == nullptr) {
    owner->discovery.peer_seqno = data->sequence;
    learn_life(*owner, data->features);
  }
  at = owner;
  if (result.error == 0) return true;
  owner->discovery.states_only = false;
  clear(*owner, kPeerNidsUptodate);
  finish(*owner, result.error);
  return false;
}

// The NID that sent the list belongs to the node of the other peer, even if that peer is configured without the NID. So
// `peer` loses the NID, unless routes name it as a gateway. If `peer` has no other NID, no NID is left to ping.
void Discovery::heard_of_another(Peer& peer) {
  PeerNi* ni = deps_.peers.find(peer.discovery.heard_from);
  if (ni != nullptr && ni->peer == &peer) {
    if (peer.ni_count() == 1 || deps_.peers.is_gateway(ni->nid)) return finish(peer, 0);
    deps_.peers.lose_nid(*ni);
    strand_waiters(peer);
  }
  clear(peer, kPeerNidsUptodate);
  unsettle(peer);
}

void Discovery::send_ping(Peer& peer) {
  PeerDiscovery& d = peer.discovery;
  clear(peer, kPeerForcePing | kPeerNidsUptodate);  // the known list no longer counts, until a reply or push comes
  peer.state |= kPeerPingSent;
  d.resize = d.pushed_meanwhile = false;
  d.ping = uint64_t{peer.id} << 32 | next_number_++;
  const bool check = peer.has(kPeerRtrDiscovery);
  PingOp op = check ? check_ping(peer, deps_.nis) : peer_ping(peer);
  ++peer.gateway.checks;
  op.number = d.ping;
  op.sink_bytes = d.sink_bytes;
  op.waited = is_waited_for(peer);
  actions_.send_ping(op);
}

void Discovery::send_push(Peer& peer) {
  PeerDiscovery& d = peer.discovery;
  clear(peer, kPeerForcePush);
  peer.state |= kPeerPushSent;
  d.push = uint64_t{peer.id} << 32 | next_number_++;
  d.push_seqno = sequence_;
  const Nid self = std::exchange(d.push_src, kAnyNid), target = std::exchange(d.push_dst, kAnyNid);
  const bool known = !self.is_any() && !target.is_any();
  actions_.send_push({.number = d.push,
                      .self = known ? self : kAnyNid,
                      .target = known ? target : peer.primary().nid,
                      .check = peer.has(kPeerRtrDiscovery),
                      .waited = is_waited_for(peer)});
}

bool Discovery::needs_push(const Peer& peer) const {
  if (!peer.multi_rail() || peer.has(kPeerPushSent)) return false;
  if (peer.has(kPeerForcePush)) return true;
  return !peer.has(kPeerNoDiscovery) && mode_ != config::Discovery::kOff && peer.discovery.node_seqno < sequence_;
}

// docs/decisions.md #43: before the push, a ping shows whether the peer is there.
void Discovery::tell_again(uint32_t id) {
  Peer* peer = deps_.peers.find_peer(id);
  if (peer == nullptr || peer->has(kPeerDiscovering) || !is_not_told(*peer)) return;
  ++peer->discovery.told_again;
  queue(*peer);
}

/// True if the peer was discovered once, its last discovery failed, and a push to it is due.
bool Discovery::is_not_told(const Peer& peer) const {
  return peer.has(kPeerDiscovered) && peer.has(kPeerRediscover) && needs_push(peer);
}

// A peer whose push has failed gets our list later and does not count here.
size_t Discovery::untold(Nid* first) const {
  size_t count = 0;
  for (const auto& [id, peer] : deps_.peers.peers()) {
    const bool waits = peer->has(kPeerDiscovered) && !peer->has(kPeerRediscover) && needs_push(*peer);
    if (!peer->has(kPeerPushSent) && !waits) continue;
    if (count++ == 0 && first != nullptr) *first = peer->primary().nid;
  }
  return count;
}

std::vector<uint64_t> Discovery::waiters(const Peer& peer) const {
  std::vector<uint64_t> all;
  if (const auto found = waiters_.find(peer.id); found != waiters_.end())
    for (const Waiter& one : found->second) all.push_back(one.waiter);
  return all;
}

// docs/decisions.md #104: a peer that lacks states of our NIs only holds up no message.
bool Discovery::is_up_to_date(const Peer& peer) const {
  if (peer.discovery.states_only && peer.discovery.node_seqno >= nids_sequence_) return true;
  return !peer.has(kUnfinished) && (peer.state & kFinished) == kFinished && !needs_push(peer);
}

// A peer that failed before gets no precedence: its waiters do not delay the waiters for other peers.
bool Discovery::is_waited_for(const Peer& peer) const {
  return peer.discovery.failures == 0 && waiters_.contains(peer.id);
}

// No message waits for a gateway that is being checked, even if it was never discovered (docs/wire/lnet.md §5.2).
void Discovery::refresh(Peer& peer) {
  const bool now = is_up_to_date(peer) || peer.has(kPeerRtrDiscovery);
  if (now == peer.up_to_date) return;
  peer.up_to_date = now;
  deps_.peers.touch(peer);
}

void Discovery::finish(Peer& peer, int32_t error) {
  PeerDiscovery& d = peer.discovery;
  d.bad_replies = 0;
  d.error = error;
  d.push_src = d.push_dst = kAnyNid;  // valid only for the push after that ping
  clear(peer, kPeerDiscovering);
  if (error == 0) {
    clear(peer, kPeerRediscover | kPeerForcePush);
    peer.state |= kPeerDiscovered;
    d.told_again = 0;
    d.states_only = false;
  } else {
    peer.state |= kPeerRediscover;
    const bool again = is_not_told(peer) && actions_.not_told(peer.id, d.told_again);
    d.states_only = d.states_only && again;
  }
  if (peer.has(kPeerRtrDiscovery)) gateway_checked(peer, error);
  refresh(peer);
  const auto found = waiters_.find(peer.id);
  if (found == waiters_.end()) return;
  const auto released = std::move(found->second);
  waiters_.erase(found);
  for (const Waiter& one : released) actions_.discovered(one.waiter, error);
}

// docs/decisions.md #41: a failure over one net says nothing about the other nets.
void Discovery::gateway_checked(Peer& peer, int32_t error) {
  GatewayState& gateway = peer.gateway;
  clear(peer, kPeerRtrDiscovery);
  peer.state |= kPeerRtrDiscovered;
  std::erase(gateway.dead, gateway.check_net);
  if (error != 0) {
    gateway.dead.push_back(gateway.check_net);
    peer_is_down(deps_, peer, gateway.check_net);
  }
  deps_.peers.touch(peer);
}

// Waiters for a NID that the peer has lost continue with the peer that has the NID now.
void Discovery::strand_waiters(const Peer& peer) {
  const auto found = waiters_.find(peer.id);
  if (found == waiters_.end()) return;
  const auto lost = std::stable_partition(found->second.begin(), found->second.end(), [&](const Waiter& one) {
    const PeerNi* ni = deps_.peers.find(one.nid);
    return ni != nullptr && ni->peer == &peer;
  });
  for (auto one = lost; one != found->second.end(); ++one) {
    (void)deps_.peers.resolve(one->nid);
    orphans_.push_back(*one);
  }
  found->second.erase(lost, found->second.end());
}

// The peer of these waiters has ended or lost their NID. Each waiter continues with the peer that has its NID now.
void Discovery::follow_orphans() {
  for (const Waiter& one : std::exchange(orphans_, {})) {
    PeerNi* ni = deps_.peers.find(one.nid);
    if (ni == nullptr)
      actions_.discovered(one.waiter, -ENOENT);
    else
      discover(*ni, one.waiter, false);
  }
}

}  // namespace ulnet
