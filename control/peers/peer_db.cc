#include "control/peers/peer_db.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dataplane/base/check.h"
#include "dataplane/base/nid_text.h"

namespace ulnet {
namespace {

auto find_net(Peer& peer, Net net) {
  return std::find_if(peer.nets.begin(), peer.nets.end(), [&](const PeerNet& one) { return one.net == net; });
}

}  // namespace

PeerDb::PeerDb(Deps deps, Timers& timers)
    : deps_(std::move(deps)),
      ends_(timers),
      silent_(timers, TimerName::kPeerSilent),
      retry_(timers, TimerName::kPeerRetry),
      left_timer_(timers, TimerName::kPeerLeft),
      unused_(timers, TimerName::kPeerUnused) {
  deps_.near.resize(deps_.workers);
}

void PeerDb::set_ends(PeerEnds::Deps deps) {
  deps.over = [this](PeerNiId id) { over(id); };
  ends_.set_deps(std::move(deps));
}

size_t Peer::ni_count() const {
  size_t count = 0;
  for (const PeerNet& net : nets) count += net.nis.size();
  return count;
}

// Chooses the least loaded of the near workers; of equals, the first. A wish for a near worker is granted, unless that
// has far more peers than the least loaded. A peer can cause wishes, since it chooses its UDP port. The same calls in
// the same order choose alike.
WorkerId PeerDb::choose_worker(const LocalNi* via, WorkerId wish) const {
  constexpr uint32_t kWishFactor = 2, kWishMore = 16;
  WorkerId best = kNoWorker;
  const auto look = [&](WorkerId worker) {
    if (best == kNoWorker || load_[worker.value] < load_[best.value]) best = worker;
  };
  if (via != nullptr) {
    for (WorkerId worker : via->workers) look(worker);
  } else {
    for (uint16_t worker = 0; worker < deps_.workers; ++worker) look(WorkerId{worker});
  }
  const bool near =
      via == nullptr ? wish.value < deps_.workers : std::ranges::find(via->workers, wish) != via->workers.end();
  return near && load_[wish.value] <= kWishFactor * load_[best.value] + kWishMore ? wish : best;
}

// The first NI of the net sets the credits, so all rails of a peer have the same number. A peer on a net that is not
// local has none (docs/wire/lnetctl.md §3.2). The credits stay as long as the net is local, even if its NIs change. An
// NI that is being deleted still answers, so a peer that is met at that time has credits, too.
void PeerDb::give_credits(PeerNi& ni) {
  const auto& nets = deps_.nis.nets();
  const auto local = std::find_if(nets.begin(), nets.end(), [&](const auto& one) { return one.net == ni.nid.net(); });
  if (local == nets.end() || std::exchange(ni.net_local, true)) return;
  const auto stays =
      std::find_if(local->nis.begin(), local->nis.end(), [](const LocalNi& one) { return !one.going(); });
  const LocalNi& via = stays != local->nis.end() ? *stays : local->nis.front();
  const int32_t tx = std::max(via.params.peer_credits, 1);
  const int32_t own = via.params.peer_buffer_credits;
  const int32_t rtr = own > 0 ? own : tx;
  if (ni.tx_credits == tx && ni.rtr_credits == rtr) return;
  ni.tx_credits = tx;
  ni.rtr_credits = rtr;
  if (ni.blocks == nullptr) return;
  if (ni.peer != nullptr) touch(*ni.peer);
  if (deps_.credits_changed) deps_.credits_changed(ni);
}

bool PeerDb::give_blocks(PeerNi& ni, const LocalNi* via, WorkerId wish) {
  if (ni.blocks == nullptr && by_id_.size() >= deps_.peers_max) return false;
  give_credits(ni);
  if (ni.blocks != nullptr) return true;
  if (load_.empty()) load_.resize(deps_.workers);
  const PeerNiId id{next_ni_++};
  const WorkerId server = choose_worker(via, wish);
  const uint32_t slot = free_slots_.empty() ? uint32_t(by_id_.size()) : free_slots_.back();
  std::shared_ptr<PeerBlocks> blocks =
      PeerBlocks::make(id, ni.nid, ni.tx_credits, ni.rtr_credits, server, deps_.near, deps_.tallies, slot);
  if (free_slots_.capacity() <= by_id_.size()) free_slots_.reserve(2 * by_id_.size() + 8);
  if (ni.peer != nullptr) touch(*ni.peer);
  by_id_.emplace(id.value, &ni);
  if (!free_slots_.empty()) free_slots_.pop_back();
  ni.id = id;
  ni.server = server;
  ni.blocks = std::move(blocks);
  ni.baseline = {};
  ++load_[ni.server.value];
  if (ni.peer != nullptr && ready_hook_) ready_hook_(ni);
  return true;
}

void PeerDb::over(PeerNiId id) {
  PeerNi* ni = find(id);
  ULNET_CHECK(ni != nullptr && ni->peer == nullptr && !down_.contains(id) && load_[ni->server.value] > 0);
  free_slots_.push_back(ni->blocks->slice.slot);
  by_id_.erase(id.value);
  --load_[ni->server.value];
  nis_.erase(Nid(ni->nid));
}

Result<PeerNi*> PeerDb::make_ni(const Nid& nid, const LocalNi* via, bool connected, WorkerId wish) {
  auto found = nis_.find(nid);
  const bool fresh = found == nis_.end();
  if (fresh) {
    auto made = std::make_unique<PeerNi>();
    made->nid = nid;
    found = nis_.emplace(nid, std::move(made)).first;
  }
  PeerNi& ni = *found->second;
  const bool reached = connected || via != nullptr || (deps_.routed && deps_.routed(nid.net()));
  const bool room = nis_.size() <= names_max();
  if ((fresh && !room) || (reached && !give_blocks(ni, via, wish))) {
    if (fresh) nis_.erase(nid);
    return fail(ENOMEM, "the bound on peer NIs is reached (ulnet.memory.peer_nis)");
  }
  return &ni;
}

// The steps that need memory come first, so that no change is half done if memory is short.
Peer& PeerDb::attach(Peer* peer, PeerNi& ni) {
  ULNET_CHECK(ni.peer == nullptr);
  for (auto* ids : {&dirty_, &waiting_})
    if (ids->capacity() <= peers_.size()) ids->reserve(2 * peers_.size() + 16);
  if (peer == nullptr) {
    auto made = std::make_unique<Peer>();
    made->id = next_peer_++;
    made->nets.push_back({.net = ni.nid.net(), .nis = {&ni}});
    peer = made.get();
    peers_.emplace(peer->id, std::move(made));
  } else {
    const auto net = find_net(*peer, ni.nid.net());
    if (net == peer->nets.end())
      peer->nets.push_back({.net = ni.nid.net(), .nis = {&ni}});
    else
      net->nis.push_back(&ni);
  }
  if (ni.blocks != nullptr) ends_.cancel(ni.id);
  gateway_revision_ += is_gateway(ni.nid);
  ni.peer = peer;
  ni.health = {};
  ni.cut_off = false;
  ni.status = wire::kNiInvalid;
  ni.life = {};
  touch(*peer);
  if (ni.blocks != nullptr && ready_hook_) ready_hook_(ni);
  return *peer;
}

void PeerDb::detach(PeerNi& ni) {
  ULNET_CHECK(ni.peer != nullptr);
  Peer& peer = *ni.peer;
  gateway_revision_ += &peer.primary() == &ni || is_gateway(ni.nid);
  const auto net = find_net(peer, ni.nid.net());
  std::erase(net->nis, &ni);
  if (net->nis.empty()) peer.nets.erase(net);
  if (peer.discovery.told_via == ni.nid) {  // another node may have got that push: push again
    peer.discovery.node_seqno = 0;
    peer.up_to_date = false;
  }
  ni.peer = nullptr;
  ni.source = ni.policy.source = kAnyNid;
  ni.net_local = false;
  down_.erase(ni.id);
  gone_.push_back(ni.nid);
  touch(peer);
}

// Routes name their gateway by NID: if no peer had that NID, the routes would be dead for good. So the NID of a gateway
// becomes a separate peer, which is checked again at once.
void PeerDb::release(PeerNi& ni) {
  if (!is_gateway(ni.nid)) return detach(ni);
  const Nid primary = ni.peer->primary().nid;
  detach(ni);
  follow_nis(attach(nullptr, ni));
  if (deps_.log)
    deps_.log(fmt::format("gateway {} is a separate peer now; before, it was a NID of peer {}", nid_text(ni.nid),
                          nid_text(primary)));
}

void PeerDb::take_from_owner(PeerNi& ni) {
  Peer& owner = *ni.peer;
  if (&owner.primary() != &ni) return detach(ni);
  while (owner.ni_count() > 1) release(*owner.nets.back().nis.back());
  detach(ni);
  drop_peer(owner);
}

void PeerDb::drop_peer(Peer& peer) {
  if (gone_hook_) gone_hook_(peer);
  forget_stranger(peer);
  while (!peer.nets.empty()) release(*peer.nets.back().nis.back());
  if (peer.dirty) std::erase(dirty_, peer.id);
  if (peer.waits) std::erase(waiting_, peer.id);
  peers_.erase(peer.id);
}

Result<PeerNi*> PeerDb::find_or_create(const Nid& nid, const Nid& via, WorkerId wish) {
  if (PeerNi* ni = find(nid)) return ni;
  const LocalNi* source = nullptr;
  if (!via.is_any()) source = deps_.nis.find(via);
  if (source == nullptr || source->net != nid.net()) source = choose_source(nid.net());
  auto ni = make_ni(nid, source, false, wish);
  if (!ni) return ni;
  attach(nullptr, **ni);
  if (source != nullptr) (*ni)->source = source->nid;
  return ni;
}

Result<PeerNi*> PeerDb::resolve(const Nid& nid) {
  const PeerNi* known = find(nid);
  if (known != nullptr && known->blocks != nullptr) return find(nid);
  if (nid.is_any() || nid.is_lo()) return fail(EINVAL, "not the NID of a peer");
  if (!deps_.nis.net_local(nid.net()) && !(deps_.routed && deps_.routed(nid.net()))) {
    if (known != nullptr) return find(nid);
    return fail(EHOSTUNREACH, "no NI on its net and no route to it");
  }
  return known == nullptr ? find_or_create(nid, kAnyNid) : make_ni(nid, choose_source(nid.net()));
}

Result<PeerNi*> PeerDb::place(const Nid& nid, const Nid& via, WorkerId wish) {
  auto found = find_or_create(nid, via, wish);
  if (!found || (*found)->blocks != nullptr) return found;
  return make_ni(nid, nullptr, true, wish);
}

PeerNi* PeerDb::find(const Nid& nid) {
  const auto found = nis_.find(nid);
  return found == nis_.end() || found->second->peer == nullptr ? nullptr : found->second.get();
}

PeerNi* PeerDb::find(PeerNiId id) {
  const auto found = by_id_.find(id.value);
  return found == by_id_.end() ? nullptr : found->second;
}

Peer* PeerDb::find_peer(uint32_t id) {
  const auto found = peers_.find(id);
  return found == peers_.end() ? nullptr : found->second.get();
}

Result<PeerNi*> PeerDb::take_nid(Peer& peer, const Nid& nid) {
  auto ni = make_ni(nid, choose_source(nid.net()));
  if (!ni || (*ni)->peer == &peer) return ni;
  if ((*ni)->peer != nullptr) take_from_owner(**ni);
  attach(&peer, **ni);
  return ni;
}

void PeerDb::set_primary(Peer& peer, const Nid& nid) {
  const auto net = find_net(peer, nid.net());
  const auto ni = std::find_if(net->nis.begin(), net->nis.end(), [&](const PeerNi* one) { return one->nid == nid; });
  std::rotate(net->nis.begin(), ni, ni + 1);
  std::rotate(peer.nets.begin(), net, net + 1);
  ++gateway_revision_;
  touch(peer);
}

// The NIDs of the peer must be compared with a new list from its node (the documents: "clear P").
void PeerDb::reconfigured(Peer& peer) {
  peer.state &= ~uint32_t{kPeerNidsUptodate};
  peer.up_to_date = false;
  touch(peer);
}

// Expensive with many peers: done once before the next view, however many peers and routes were deleted.
void PeerDb::ask_anew_who_was_held_back() {
  if (!std::exchange(freed_, false)) return;
  for (auto& [id, peer] : peers_)
    if (std::exchange(peer->discovery.held_back, false)) reconfigured(*peer);
}

void PeerDb::clear() {
  for (auto it = peers_.begin(); it != peers_.end();) {
    Peer& peer = *it->second;
    ++it;
    if (!is_gateway(peer)) drop_peer(peer);
  }
}

void PeerDb::give_memory(PeerNet& net, const std::vector<LocalNi*>& local) {
  for (PeerNi* ni : net.nis) {
    if (local.empty()) ni->net_local = false;
    if (!local.empty() || (deps_.routed && deps_.routed(net.net)))
      starved_ |= !give_blocks(*ni, local.empty() ? nullptr : local.front());
  }
}

void PeerDb::follow_nis(Peer& peer) {
  for (PeerNet& net : peer.nets) {
    const auto local = deps_.nis.on_net(net.net);
    give_memory(net, local);
    record_source(peer, net, local);
  }
}

/// Calls `step` for each net of each peer, with the local NIs on that net.
void PeerDb::for_each_net(const NetStep& step) {
  std::map<Net, std::vector<LocalNi*>> nis;
  for (auto& [id, peer] : peers_)
    for (PeerNet& net : peer->nets) {
      const auto [local, fresh] = nis.try_emplace(net.net);
      if (fresh) local->second = deps_.nis.on_net(net.net);
      step(*peer, net, local->second);
    }
}

void PeerDb::give_memory_to_all() {
  for_each_net([this](Peer&, PeerNet& net, const auto& local) { give_memory(net, local); });
}

// If a NID of a peer has become a NID of this node, the peer loses it.
void PeerDb::take_back_own() {
  for (const LocalNi* own : deps_.nis.all()) {
    PeerNi* ni = find(own->nid);
    if (ni == nullptr || ni->peer->configured() || is_gateway(ni->nid)) continue;
    Peer& peer = *ni->peer;
    if (peer.ni_count() == 1) {
      drop_peer(peer);
      continue;
    }
    detach(*ni);
    reconfigured(peer);
  }
}

// All peers are looked at for memory and credits only if a net came or went.
void PeerDb::nis_changed() {
  take_back_own();
  sources_due_ = true;
  std::vector<Net> local;
  for (const LocalNis::LocalNet& net : deps_.nis.nets())
    if (deps_.nis.net_local(net.net)) local.push_back(net.net);
  if (std::exchange(local_nets_, local) != local) give_memory_to_all();
}

void PeerDb::routes_changed() {
  if (by_id_.size() != nis_.size()) give_memory_to_all();
}

void PeerDb::alive(PeerNi& ni) {
  const bool was_down = ni.life.down;
  ni.life = {};
  down_.erase(ni.id);
  if (was_down && ni.peer != nullptr) touch(*ni.peer);
}

void PeerDb::dead(PeerNi& ni, Instant now, int32_t error) {
  if (ni.peer == nullptr) return;
  down_.emplace(ni.id, &ni);
  ni.life.down = true;
  ni.life.failures = std::min(ni.life.failures + 1, 16u);
  ni.life.since = now;
  ni.life.error = error;
  ni.life.retry_at = now + std::min<Duration>(kRetryMin * (1u << (ni.life.failures - 1)), kRetryMax);
  retry_.set_by(std::min(ni.life.retry_at, now + kHeardLook));
  touch(*ni.peer);
}

void PeerDb::revive(Instant now, const std::function<void(PeerNi&)>& changed) {
  if (!retry_.due(now)) return;
  retry_.stop();
  for (auto one = down_.begin(); one != down_.end();) {
    PeerNi& ni = *one->second;
    const bool heard = ni.blocks->slice.last_alive_ns.get() > ni.life.since.time_since_epoch().count();
    if (!heard && now < ni.life.retry_at) {
      retry_.set_by(std::min(ni.life.retry_at, now + kHeardLook));
      ++one;
      continue;
    }
    ni.life.down = false;
    ni.life.retry_at = kForever;
    if (heard) ni.life.failures = 0;
    one = down_.erase(one);
    touch(*ni.peer);
    changed(ni);
  }
}

void PeerDb::set_watch_aliveness(bool on) {
  if (watch_ == on) return;
  watch_ = on;
  silent_.set(on ? kNever : kForever);
  for (auto& [id, ni] : down_) touch(*ni->peer);
}

unsigned PeerDb::turn(Instant now) {
  const unsigned done = ends_.turn(now) + forget_left() + forget_unused(now) + look_for_silent(now);
  if (starved_ && by_id_.size() < deps_.peers_max) {
    starved_ = false;
    give_memory_to_all();
  }
  return done;
}

void PeerDb::touch(Peer& peer) noexcept {
  if (!std::exchange(peer.dirty, true)) dirty_.push_back(peer.id);
}

/// A PeerView with the lists that its NIs refer to.
struct PublishedPeer : PeerView {
  std::vector<std::shared_ptr<const Preferences>> lists;
  [[nodiscard]] const Preferences* keep(const PolicyList& policy) {
    if (policy.list == nullptr) return nullptr;
    return lists.emplace_back(policy.list).get();
  }
};

std::shared_ptr<const PeerView> PeerDb::view_of(const Peer& peer) const {
  auto view = std::make_shared<PublishedPeer>();
  view->id = peer.id;
  view->multi_rail = peer.multi_rail();
  view->life = peer.life;
  view->life_since = peer.life_since;
  view->up_to_date = peer.up_to_date;
  view->router = is_gateway(peer);
  if (view->router)
    for (const wire::PingNi& one : peer.gateway.said) {
      const auto known = nis_.find(one.nid);
      if (known == nis_.end() || known->second->peer != &peer) view->other_nids.push_back(one.nid);
    }
  const auto add = [&](const PeerNi& ni) {
    PeerNiView& one = view->nis.emplace_back();
    one.id = ni.id;
    one.nid = ni.nid;
    one.server = ni.server;
    one.slice = ni.blocks == nullptr ? nullptr : &ni.blocks->slice;
    one.locals = ni.blocks == nullptr ? nullptr : ni.blocks->by_worker.data();
    one.slot = ni.blocks == nullptr ? 0 : ni.blocks->slice.slot;
    one.tx_credits = std::max(ni.tx_credits / int32_t(deps_.workers), 1);
    one.health = ni.health.value();
    one.down = watch_ && ni.life.down;
    one.known_down = ni.known_down() && ni.watch.avoided;
    one.priority = ni.policy.priority.priority;
    one.source = ni.policy.source.is_any() ? ni.source : ni.policy.source;
    one.sources = view->keep(ni.policy.sources);
    one.gateways = view->keep(ni.policy.gateways);
  };
  // The primary stays first, and those of a net that have memory stay together.
  for (const PeerNet& net : peer.nets) {
    const bool named_first = net.nis.front()->blocks == nullptr;
    const auto add_those = [&](bool named_only) {
      for (const PeerNi* ni : net.nis)
        if ((ni->blocks == nullptr) == named_only && !held(*ni)) add(*ni);
    };
    if (named_first) add_those(true);
    const auto first = uint32_t(view->nis.size());
    add_those(false);
    const auto count = uint32_t(view->nis.size()) - first;
    if (count > 0) view->nets.push_back({net.net, net.policy.priority, first, count});
    if (!named_first) add_those(true);
  }
  rank_nis(*view);
  return view;
}

bool PeerDb::flush(PeerTableBuilder& table) {
  ask_anew_who_was_held_back();
  unused_.set(crowded() ? look_at_ : kForever);
  bool any = !gone_.empty();
  for (const Nid& nid : gone_) {
    const auto found = nis_.find(nid);
    if (found == nis_.end() || found->second->peer != nullptr) continue;
    found->second->policy = {};
    found->second->policy_seen = 0;
    table.erase(nid);
    if (found->second->blocks != nullptr)
      ends_.begin(*found->second->blocks, found->second->server);
    else
      nis_.erase(found);
  }
  gone_.clear();
  any |= flush_waiting(table) > 0 || !dirty_.empty();
  for (uint32_t id : dirty_) {
    Peer& peer = *peers_.at(id);
    const bool done = !deps_.evaluate || deps_.evaluate(peer);
    renew_view(peer, table);
    if (!done && !std::exchange(peer.waits, true)) waiting_.push_back(id);
  }
  for (uint32_t id : dirty_) peers_.at(id)->dirty = false;
  dirty_.clear();
  return any;
}

}  // namespace ulnet
