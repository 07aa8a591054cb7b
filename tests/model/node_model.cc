#include "tests/model/node_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "control/discovery/discovery.h"

namespace ulnet::model {
namespace {

constexpr Instant kNow{1s};
/// Numbers of what was under way before, other than those that the machine will give.
constexpr uint32_t kOldPing = 0xFFFF0001, kOldPush = 0xFFFF0002;

Nid nid_of(NidNumber number) {
  return number == 0 ? kAnyNid : Nid::v4(Net::of(NetType::kTcp, 0), 0x0A000000u + number);
}
NidNumber number_of(const Nid& nid) {
  return nid.is_any() ? NidNumber(0) : NidNumber(nid.address_v4() & 0xFF);
}

wire::PingInfo info_of(const NidList& list) {
  wire::PingInfo info;
  info.features =
      wire::kFeatureNiStatus | wire::kFeatureRteDisabled | wire::kFeatureMultiRail | wire::kFeatureDiscovery;
  info.sequence = list.sequence;
  for (const NidNumber nid : list.nids) info.nis.push_back({nid_of(nid), wire::kNiUp});
  return info;
}
NidList list_of(const wire::PingInfo& info) {
  NidList list{info.sequence, {}};
  for (const auto& one : info.nis) list.nids.push_back(number_of(one.nid));
  return list;
}

/// Starts and stops NIs that have nothing under them.
class NoDriver final : public LndControl {
 public:
  Result<void> ni_start(const NiParams&, Instant) override { return {}; }
  void ni_stop(NiId, Instant) override {}
  bool names(const PeerSlice&) const override { return false; }
  void from_worker(WorkerId, const LndMsg&, Instant) override {}
  unsigned turn(Instant) override { return 0; }
  Instant next_deadline() override { return kForever; }
  void wait_fds(std::vector<int>&) override {}
};

/// The node itself, for as long as something happens to it.
class LiveNode final : public DiscoveryActions {
 public:
  explicit LiveNode(Mutant mutant)
      : mutant_(mutant),
        gates_{&gate_},
        mesh_(1, 16, 16, gates_, &gate_),
        outbox_(mesh_, timers_),
        publisher_(mesh_, timers_) {
    LocalNis::Deps deps{mesh_, outbox_, publisher_, nullptr, {}, {}, {}};
    deps.types = {&type_};
    deps.lnds = {&driver_};
    nis_ = std::make_unique<LocalNis>(std::move(deps), timers_);
    peers_ = std::make_unique<PeerDb>(PeerDb::Deps{*nis_, 1, 64, {}, {}, {}, {}}, timers_);
    machine_ = std::make_unique<Discovery>(MergeDeps{*peers_, *nis_, [](const std::string&) {}, [](PeerNi&, bool) {}},
                                           *this, timers_);
  }

  void ni_add(NidNumber nid) {
    config::NiConfig config;
    config.nid = nid_of(nid);
    ULNET_CHECK(nis_->add(config.nid->net(), config, 16, NiDefaults{}, kNow).has_value());
  }
  void begin(const std::vector<NidNumber>& nids) {
    for (const NidNumber nid : nids) ni_add(nid);
    machine_->set_sequence(nis_->sequence(), nis_->sequence());
  }
  void restore(const NodeState& from);
  void happen(const Happening& what);
  [[nodiscard]] Outcome outcome(const NodeState& before) const;

 private:
  static NidNumber stand_in(size_t peer) { return NidNumber(200 + peer); }
  void restore_waiters(const PeerState& from);
  void restore_peer(Peer& peer, const PeerState& from);
  void ni_del(NidNumber nid);
  void change(NidNumber nid);
  void request(const Happening& what);
  void reply(const Happening& what);
  void push_ended(const Happening& what, int32_t error);
  [[nodiscard]] uint64_t number_of_token(Token token) const;
  [[nodiscard]] std::vector<NidNumber> own() const;
  [[nodiscard]] PeerState state_of(const Peer& peer) const;
  [[nodiscard]] NodeState state() const;
  void send(const PingOp& op, bool push);
  void send_ping(const PingOp& op) override { send(op, false); }
  void send_push(const PingOp& op) override { send(op, true); }
  void discovered(uint64_t, int32_t) override {}

  /// What was sent, with the number that the machine gave it.
  struct Out {
    uint64_t number;
    Sent sent;
  };
  const Mutant mutant_;
  NoDriver driver_;
  const DriverType type_{.name = "none", .net_type = NetType::kTcp};
  IdleGate gate_;
  IdleGate* gates_[1];
  Mesh mesh_;
  const Instant now_ = kNever;
  Timers timers_{now_};
  Outbox outbox_;
  Publisher publisher_;
  std::unique_ptr<LocalNis> nis_;
  std::unique_ptr<PeerDb> peers_;
  std::unique_ptr<Discovery> machine_;
  std::vector<uint32_t> peer_ids_;  // by index in the state that was restored
  std::vector<Out> out_;
};

std::vector<NidNumber> LiveNode::own() const {
  std::vector<NidNumber> all;
  for (LocalNis::LocalNet& net : nis_->nets())
    for (const LocalNi& ni : net.nis) all.push_back(number_of(ni.nid));
  return all;
}

// --- in and out ------------------------------------------------------------------------------------------------------

void LiveNode::restore(const NodeState& from) {
  for (const NidNumber nid : from.own.nids) ni_add(nid);
  while (nis_->sequence() < from.own.sequence) nis_->bump_sequence();
  machine_->set_sequence(nis_->sequence(), nis_->sequence());
  for (const PeerState& one : from.peers) restore_waiters(one);
  for (size_t i = 0; i < from.peers.size(); ++i) restore_peer(*peers_->find_peer(peer_ids_[i]), from.peers[i]);
  // Nothing has happened by that, and nothing was forgotten.
  ULNET_CHECK(!machine_->pending() && out_.empty());
  ULNET_CHECK(state() == from);
}

/// Makes a peer, under a NID that nobody has, with those who wait for it: also for NIDs that it has not any more.
void LiveNode::restore_waiters(const PeerState& from) {
  Peer& peer = *(*peers_->find_or_create(nid_of(stand_in(peer_ids_.size())), kAnyNid))->peer;
  peer_ids_.push_back(peer.id);
  peer.state = from.state;
  for (const NidNumber nid : from.waiters) {
    PeerNi& ni = **peers_->take_nid(peer, nid_of(nid));
    machine_->discover(ni, nid, false);
    peers_->lose_nid(ni);
  }
}

void LiveNode::restore_peer(Peer& peer, const PeerState& from) {
  PeerNi& stand_in = peer.primary();
  for (const NidNumber nid : from.nids) ULNET_CHECK(peers_->take_nid(peer, nid_of(nid)).has_value());
  peers_->set_primary(peer, nid_of(from.nids.front()));
  peers_->lose_nid(stand_in);
  peer.up_to_date = from.up_to_date;
  PeerDiscovery& d = peer.discovery;
  d.node_seqno = from.node_seqno;
  d.peer_seqno = from.peer_seqno;
  d.push_seqno = from.push_seqno;
  d.failures = from.tried;
  d.bad_replies = from.bad_replies;
  d.doubted = from.doubted;
  d.heard_from = nid_of(from.heard_from);
  d.told_via = nid_of(from.told_via);
  d.push_src = nid_of(from.push_src);
  d.push_dst = nid_of(from.push_dst);
  d.pushed_meanwhile = from.pushed_meanwhile;
  d.held_back = from.held_back;
  if (from.ping) d.ping = uint64_t{peer.id} << 32 | kOldPing;
  if (from.push) d.push = uint64_t{peer.id} << 32 | kOldPush;
  if (from.has_data) d.data = std::make_unique<wire::PingInfo>(info_of(from.data));
}

PeerState LiveNode::state_of(const Peer& peer) const {
  const PeerDiscovery& d = peer.discovery;
  PeerState one;
  for (const PeerNet& net : peer.nets)
    for (const PeerNi* ni : net.nis) one.nids.push_back(number_of(ni->nid));
  for (const uint64_t waiter : machine_->waiters(peer)) one.waiters.push_back(NidNumber(waiter));
  std::sort(one.waiters.begin(), one.waiters.end());
  one.state = peer.state;
  one.up_to_date = peer.up_to_date;
  one.node_seqno = d.node_seqno;
  one.peer_seqno = d.peer_seqno;
  one.push_seqno = d.push != 0 ? d.push_seqno : 0;
  one.tried = d.failures == 0 ? 0 : (d.failures - 1) % uint32_t(one.nids.size()) + 1;
  one.bad_replies = d.bad_replies;
  one.doubted = d.doubted;
  one.heard_from = number_of(d.heard_from);
  one.told_via = number_of(d.told_via);
  one.push_src = number_of(d.push_src);
  one.push_dst = number_of(d.push_dst);
  one.pushed_meanwhile = d.pushed_meanwhile;
  one.held_back = d.held_back;
  one.ping = d.ping != 0;
  one.push = d.push != 0;
  one.has_data = d.data != nullptr;
  if (one.has_data) one.data = list_of(*d.data);
  return one;
}

NodeState LiveNode::state() const {
  NodeState state;
  state.own = {nis_->sequence(), own()};
  for (const auto& [id, peer] : peers_->peers()) state.peers.push_back(state_of(*peer));
  std::sort(state.peers.begin(), state.peers.end());
  return state;
}

Outcome LiveNode::outcome(const NodeState& before) const {
  Outcome outcome{state(), {}, {}};
  // A peer is found again by its primary NID, which no other peer has.
  const auto token = [&](uint64_t number) {
    const Peer* peer = peers_->find_peer(uint32_t(number >> 32));
    if (peer == nullptr || (peer->discovery.ping != number && peer->discovery.push != number)) return kNoToken;
    const auto its = [&](const PeerState& one) { return one.nids.front() == number_of(peer->primary().nid); };
    const auto at = std::find_if(outcome.after.peers.begin(), outcome.after.peers.end(), its);
    return token_of(size_t(at - outcome.after.peers.begin()), peer->discovery.push == number);
  };
  for (size_t i = 0; i < before.peers.size(); ++i) {
    outcome.renamed.push_back(token(uint64_t{peer_ids_[i]} << 32 | kOldPing));
    outcome.renamed.push_back(token(uint64_t{peer_ids_[i]} << 32 | kOldPush));
  }
  for (const Out& one : out_) {
    outcome.sent.push_back(one.sent);
    outcome.sent.back().token = token(one.number);
  }
  return outcome;
}

// --- what happens ----------------------------------------------------------------------------------------------------

void LiveNode::happen(const Happening& what) {
  switch (what.kind) {
    case Happening::Kind::kSend:
      machine_->discover(**peers_->find_or_create(nid_of(what.to), kAnyNid), what.to, false);
      break;
    case Happening::Kind::kPing:
    case Happening::Kind::kPush: request(what); break;
    case Happening::Kind::kReply: reply(what); break;
    case Happening::Kind::kAck: push_ended(what, 0); break;
    case Happening::Kind::kPushFails: push_ended(what, mutant_ == Mutant::kFailedPushCounts ? 0 : -ETIMEDOUT); break;
    case Happening::Kind::kPingFails: machine_->ping_failed(number_of_token(what.token), -ETIMEDOUT); break;
    case Happening::Kind::kChange: change(what.to); break;
  }
  while (machine_->pending()) (void)machine_->turn();
}

uint64_t LiveNode::number_of_token(Token token) const {
  return uint64_t{peer_ids_.at(token / 2)} << 32 | (token % 2 == 0 ? kOldPing : kOldPush);
}

/// Its driver makes a peer of who connected.
void LiveNode::request(const Happening& what) {
  const Nid from = nid_of(what.from);
  const auto mine = own();
  if (std::find(mine.begin(), mine.end(), what.from) == mine.end()) (void)peers_->find_or_create(from, nid_of(what.to));
  if (what.kind == Happening::Kind::kPing) return;
  PingData data;
  data.decode.info = info_of(what.list);
  data.from = from;
  data.to = nid_of(what.to);
  const PeerNi* ni = peers_->find(from);
  const bool old = ni != nullptr && what.list.sequence < ni->peer->discovery.peer_seqno;
  if (mutant_ != Mutant::kOldPushIsIgnored || !old) machine_->push_came(std::move(data));
  if (mutant_ == Mutant::kCrossedReplyIsBelieved && ni != nullptr)
    peers_->find(from)->peer->discovery.pushed_meanwhile = false;
}

void LiveNode::reply(const Happening& what) {
  const uint64_t number = number_of_token(what.token);
  Peer& peer = *peers_->find_peer(uint32_t(number >> 32));
  if (mutant_ == Mutant::kEarlyAnswerIsSure && peer.discovery.doubted != 0) peer.state &= ~uint32_t{kPeerForcePing};
  PingData data;
  data.decode.info = info_of(what.list);
  data.from = nid_of(what.from);
  data.to = nid_of(what.to);
  machine_->ping_answered(number, std::move(data));
}

void LiveNode::push_ended(const Happening& what, int32_t error) {
  const uint64_t number = number_of_token(what.token);
  Peer& peer = *peers_->find_peer(uint32_t(number >> 32));
  Nid by = nid_of(what.from);
  if (what.kind == Happening::Kind::kPushFails) by = peer.primary().nid;
  if (mutant_ == Mutant::kAckIsOfTheNewestList) peer.discovery.push_seqno = machine_->sequence();
  machine_->push_ended(number, error, by);
}

void LiveNode::ni_del(NidNumber number) {
  const Nid nid = nid_of(number);
  LocalNi& ni = *nis_->find(nid);
  nis_->remove(ni, kNow);
  nis_->published();
  ControlMsg msg;
  while (mesh_.to_worker[0]->pop(msg)) nis_->drained(*std::get<NiCloseMsg>(msg).slice);
  nis_->stopped(ni.id);
  while (nis_->find(nid) != nullptr) (void)nis_->turn(kNow, [] { return true; });
}

void LiveNode::change(NidNumber nid) {
  if (nis_->find(nid_of(nid)) != nullptr)
    ni_del(nid);
  else
    ni_add(nid);
  peers_->nis_changed();
  peers_->follow_sources();
  if (mutant_ != Mutant::kSequenceStays) machine_->set_sequence(nis_->sequence(), nis_->sequence());
}

/// All rails that may be chosen for a request.
void LiveNode::send(const PingOp& op, bool push) {
  Sent sent;
  const PeerNi* ni = peers_->find(op.target);
  const bool exactly = op.exactly && mutant_ != Mutant::kExactPingGoesAnywhere;
  if (ni != nullptr && ni->peer->multi_rail() && !exactly && op.self.is_any())
    sent.to = state_of(*ni->peer).nids;
  else
    sent.to = {number_of(op.target)};
  sent.from = op.self.is_any() ? own() : std::vector<NidNumber>{number_of(op.self)};
  if (push)
    sent.list = {nis_->sequence(), own()};
  else
    sent.from.resize(1);  // whom it comes from means nothing to who answers
  out_.push_back({op.number, std::move(sent)});
}

}  // namespace

const char* name_of(Mutant mutant) {
  switch (mutant) {
    case Mutant::kNone: return "none";
    case Mutant::kLostPingIsNotNoticed: return "a lost ping is not noticed";
    case Mutant::kLostPushIsNotNoticed: return "a lost push is not noticed";
    case Mutant::kOldPushIsIgnored: return "an old push is ignored";
    case Mutant::kCrossedReplyIsBelieved: return "a crossed reply is believed";
    case Mutant::kFailedPushCounts: return "a failed push counts";
    case Mutant::kSequenceStays: return "the sequence stays";
    case Mutant::kExactPingGoesAnywhere: return "an exact ping goes anywhere";
    case Mutant::kAckIsOfTheNewestList: return "an acknowledgement is of the newest list";
    case Mutant::kEarlyAnswerIsSure: return "an early answer is sure";
    case Mutant::kCount: break;
  }
  return "";
}

const PeerState* NodeState::peer_of(NidNumber nid) const {
  for (const PeerState& one : peers)
    if (std::find(one.nids.begin(), one.nids.end(), nid) != one.nids.end()) return &one;
  return nullptr;
}

bool NodeState::has(NidNumber nid) const {
  return std::find(own.nids.begin(), own.nids.end(), nid) != own.nids.end();
}

bool NodeState::waits(NidNumber nid) const {
  return std::any_of(peers.begin(), peers.end(), [&](const PeerState& one) {
    return std::find(one.waiters.begin(), one.waiters.end(), nid) != one.waiters.end();
  });
}

bool NodeState::waits() const {
  return std::any_of(peers.begin(), peers.end(), [](const PeerState& one) { return !one.waiters.empty(); });
}

std::string NodeState::text() const {
  std::string text = fmt::format("has {} (sequence {})", fmt::join(own.nids, ","), own.sequence);
  for (const PeerState& one : peers) {
    text +=
        fmt::format("; peer {} (state {:#x}{}, told {}, heard {}{}{}{})", fmt::join(one.nids, ","), one.state,
                    one.up_to_date ? ", up to date" : "", one.node_seqno, one.peer_seqno,
                    one.pushed_meanwhile ? ", pushed meanwhile" : "", one.held_back ? ", held back" : "",
                    one.has_data ? fmt::format(", data {}: {}", one.data.sequence, fmt::join(one.data.nids, ",")) : "");
    if (!one.waiters.empty()) text += fmt::format(", {} waited for", fmt::join(one.waiters, ","));
  }
  return text;
}

NodeState begin(const std::vector<NidNumber>& nids) {
  LiveNode node(Mutant::kNone);
  node.begin(nids);
  return node.outcome({}).after;
}

Outcome run(const NodeState& before, const Happening& happening, Mutant mutant) {
  LiveNode node(mutant);
  node.restore(before);
  node.happen(happening);
  return node.outcome(before);
}

}  // namespace ulnet::model
