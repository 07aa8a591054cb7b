#include "tests/unit/core/bench.h"

#include <algorithm>

#include "dataplane/stages/post.h"
#include "lnd/lo/lo.h"

namespace ulnet::test {

Bench::Bench(const BenchOptions& options) : options_(options) {
  std::vector<IdleGate*> gates;
  for (unsigned i = 0; i < options.workers; ++i) {
    gates_.push_back(std::make_unique<IdleGate>());
    gates.push_back(gates_.back().get());
  }
  mesh = std::make_unique<Mesh>(options.workers, options.ring_size, 1 << 15, gates.data(), &control_gate_);
  for (const Nid& nid : {tcp(1), tcp1(1)}) add_ni(nid);
  node.routing = options.routing;
  publish();
  WorkerSize size;
  size.operations = options.operations;
  size.incoming = options.incoming;
  size.parked_peers = options.parked_peers;
  size.control_queue = options.control_queue;
  for (unsigned i = 0; i < options.workers; ++i) {
    workers_.push_back(std::make_unique<Worker>(WorkerId{uint16_t(i)}, *mesh, size, options.interface_cookie, 7 + i));
    lo_calls_.push_back(std::make_unique<DriverCalls>(*workers_.back(), kLndLo));
    workers_.back()->add_lnd(kLndLo, std::make_unique<LoLnd>(*lo_calls_.back(), options.lo_slots));
    calls_.push_back(std::make_unique<DriverCalls>(*workers_.back(), 1));
    auto lnd = std::make_unique<ScriptLnd>(*calls_.back());
    lnds_.push_back(lnd.get());
    workers_.back()->add_lnd(1, std::move(lnd));
  }
}

Bench::~Bench() = default;

void Bench::add_ni(const Nid& nid, std::vector<uint32_t> distances) {
  Ni ni{NiId{uint32_t(nis_.size() + 1)}, nid, {}, std::move(distances)};
  for (unsigned i = 0; i < options_.workers; ++i)
    ni.slices.push_back(std::make_unique<NiSlice>(ni.id, uint16_t(nis_.size()), options_.ni_credits, 1));
  const auto behind =
      std::find_if(nis_.rbegin(), nis_.rend(), [&](const Ni& one) { return one.nid.net() == nid.net(); }).base();
  nis_.insert(behind == nis_.begin() ? nis_.end() : behind, std::move(ni));
}

PeerSlice& Bench::add_peer(const Nid& nid, WorkerId server) {
  PeerMemory memory;
  memory.slice =
      std::make_unique<PeerSlice>(PeerNiId{uint32_t(100 + peers_.size())}, options_.peer_credits, options_.rtr_credits);
  for (unsigned i = 0; i < options_.workers; ++i) {
    memory.locals.push_back(std::make_unique<PeerLocal>(memory.slice->id));
    memory.locals.back()->nid = nid;
    mesh->tallies[i]->ensure(uint32_t(peers_.size()), nullptr);
    memory.locals.back()->tally = &mesh->tallies[i]->peer_ni(uint32_t(peers_.size())).tally();
    memory.pointers.push_back(memory.locals.back().get());
  }
  memory.slice->locals = memory.pointers.data();
  memory.slice->slot = uint32_t(peers_.size());
  servers_[nid] = server;
  return *peers_.emplace(nid, std::move(memory)).first->second.slice;
}

void Bench::add_route(Net remote, const Nid& gateway) {
  RouteView route;
  route.gateway = gateway;
  auto& nets = route_table_.nets;
  auto it = std::find_if(nets.begin(), nets.end(), [&](const RouteNetView& n) { return n.remote == remote; });
  if (it == nets.end()) it = nets.insert(nets.end(), RouteNetView{remote, {}});
  route.id = uint32_t(it->routes.size());
  it->routes.push_back(route);
  std::sort(nets.begin(), nets.end(), [](const auto& a, const auto& b) { return a.remote < b.remote; });
}

void Bench::set_alive(const Nid& gateway, bool alive) {
  for (RouteNetView& net : route_table_.nets)
    for (RouteView& route : net.routes)
      if (route.gateway == gateway) route.alive = alive;
}

void Bench::open_portal(uint32_t index, WorkerId home, bool lazy, PortalMode mode) {
  portal_table_.portals[index] = {mode, home, lazy};
}

void Bench::add_router_buffers(WorkerId worker, std::array<uint32_t, kRouterPools> counts, uint32_t numa) {
  for (unsigned pool = 0; pool < kRouterPools; ++pool) {
    auto block = std::make_unique<RouterBlock>();
    block->pool = pool;
    block->numa = numa;
    block->count = counts[pool];
    block->buffers = std::make_unique<RouterBuffer[]>(counts[pool]);
    block_memory_.emplace_back(size_t(counts[pool]) * kRouterPoolBytes[pool] + 1);
    for (uint32_t i = 0; i < counts[pool]; ++i) {
      block->buffers[i].block = block.get();
      block->buffers[i].segment = {block_memory_.back().data() + size_t(i) * kRouterPoolBytes[pool],
                                   kRouterPoolBytes[pool]};
    }
    tell(worker, RouterBlockMsg{block.get()});
    blocks_.push_back(std::move(block));
  }
}

void Bench::Published::enter(const Nid& nid, PeerRef ref) {
  const uint64_t hash = nid.hash();
  PeerTable::Limb& limb = limbs[PeerTable::child(hash, 0)];
  table.limbs[PeerTable::child(hash, 0)] = &limb;
  std::vector<PeerTable::Entry>& leaf = leaves[{PeerTable::child(hash, 0), PeerTable::child(hash, 1)}];
  leaf.insert(leaf.begin(), {nid, ref.ni_index, ref.peer});
  if (leaf.size() == 1) leaf.emplace_back();  // the end mark
  limb.leaves[PeerTable::child(hash, 1)] = leaf.data();
}

void Bench::publish() {
  auto p = std::make_unique<Published>();
  for (Ni& ni : nis_) {
    NiView view;
    view.id = ni.id;
    view.nid = ni.nid;
    view.lnd = 1;
    view.message_timeout = 151s;
    for (auto& slice : ni.slices) view.slices.push_back(slice.get());
    view.distances = ni.distances;
    view.fatal = fatal_[ni.nid];
    view.slot = ni.slices[0]->slot;
    view.tx_credits = options_.ni_credits;
    if (p->local.nets.empty() || p->local.nets.back().net != ni.nid.net())
      p->local.nets.push_back({ni.nid.net(), kNoPriority, uint32_t(p->local.nis.size()), 0});
    ++p->local.nets.back().count;
    p->local.nis.push_back(view);
  }
  std::map<Nid, PeerView*> views;  // by primary NID
  for (const bool rails : {false, true})
    for (auto& [nid, memory] : peers_) {
      const auto primary = primaries_.find(nid);
      if ((primary != primaries_.end()) != rails) continue;
      PeerView*& peer = views[rails ? primary->second : nid];
      if (peer == nullptr) peer = p->peers.emplace_back(std::make_unique<PeerView>()).get();
      PeerNiView ni;
      ni.id = memory.slice->id;
      ni.nid = nid;
      ni.server = servers_[nid];
      ni.slice = memory.slice.get();
      ni.locals = memory.pointers.data();
      ni.slot = memory.slice->slot;
      ni.tx_credits = memory.slice->credits.total();
      if (health_.contains(nid)) ni.health = health_[nid];
      ni.down = down_[nid];
      ni.known_down = known_down_[nid];
      if (peer->nets.empty() || peer->nets.back().net != nid.net())
        peer->nets.push_back({nid.net(), kNoPriority, uint32_t(peer->nis.size()), 0});
      ++peer->nets.back().count;
      peer->nis.push_back(ni);
      peer->multi_rail = rails;
      for (const RouteNetView& net : route_table_.nets)
        for (const RouteView& route : net.routes) peer->router |= route.gateway == nid;
    }
  rank_nis(p->local);
  for (auto& [primary, peer] : views) {
    peer->life = knows_copies_[primary] ? kPeerLife : 0;
    peer->life_since = life_since_[primary];
    rank_nis(*peer);
    for (uint32_t i = 0; i < peer->nis.size(); ++i) p->enter(peer->nis[i].nid, {peer, i});
  }
  p->routes = route_table_;
  p->portals = portal_table_;
  p->set.epoch = Epoch{published_.size() + 1};
  p->set.local = &p->local;
  p->set.peers = &p->table;
  p->set.routes = &p->routes;
  p->set.portals = &p->portals;
  p->set.faults = faults;
  p->set.node = node;
  mesh->view.store(&p->set);
  published_.push_back(std::move(p));
}

Submitter& Bench::submitter(WorkerId worker) {
  SubmitterSize size;
  size.ops = 64;
  size.mds = 64;
  size.segment_blocks = 4;
  submitters_.push_back(
      std::make_unique<Submitter>(worker, uint16_t(submitters_.size()), size, gates_[worker.value].get()));
  tell(worker, SubmitterOpenMsg{submitters_.back().get()});
  return *submitters_.back();
}

RxSlot& Bench::inject(const wire::Header& header, const Nid& from, const Nid& at) {
  const WorkerId server = servers_.at(from);
  for (Ni& ni : nis_)
    if (ni.nid == at)
      return lnds_[server.value]->inject(header, ni.id, ni.slices[server.value].get(), peers_.at(from).slice->id,
                                         peers_.at(from).slice.get(), from);
  ULNET_CHECK(!"no such NI");
}

void Bench::settle() {
  for (int i = 0; i < 10000; ++i) {
    unsigned done = 0;
    for (auto& worker : workers_) done += worker->turn(now);
    if (done == 0) return;
  }
  ULNET_CHECK(!"the workers never come to rest");
}

std::vector<WorkerMsg> Bench::take_control_items(WorkerId worker) {
  std::vector<WorkerMsg> items;
  WorkerMsg msg;
  while (mesh->to_control[worker.value]->pop(msg)) items.push_back(msg);
  return items;
}

std::string Bench::not_at_rest() {
  std::string text;
  auto expect = [&](bool ok, const std::string& what) {
    if (!ok) text += what + "; ";
  };
  for (auto& w : workers_) {
    const std::string name = "worker " + std::to_string(w->id.value) + ": ";
    expect(w->operations.out() == 0, name + "operations out");
    expect(w->incoming.out() == 0, name + "incoming out");
    expect(w->deadlines.armed() == 0, name + "deadlines armed");
    expect(w->tx_deadlines.armed() == 0, name + "tx deadlines armed");
    expect(w->receiving.empty() && w->coming.empty() && w->held_router.empty(), name + "receives");
    expect(w->shares_waiting.empty() && w->own_share.idle(), name + "shares of incoming messages");
    expect(w->delayed_receives.empty() && w->delayed_sends.empty(), name + "delayed messages");
    expect(!has_waiters(*w), name + "something waits for a ring");
    expect(w->local.empty() && w->ready_slots.empty(), name + "something posted to itself");
    expect(w->eqs_waiting.empty(), name + "an event waits for its queue");
    for (uint32_t slot = 0; slot < kNisMax; ++slot) {
      const TallyNow tally = w->tallies.ni_now(slot, PaceKind::kSmall);
      expect(tally.under_way == 0 && tally.bytes == 0, name + "tally of an NI");
    }
    for (RouterPool& pool : w->pools) expect(pool.out == 0 && pool.waiting.empty(), name + "router buffers out");
  }
  for (Ni& ni : nis_)
    for (auto& slice : ni.slices)
      expect(slice->credits.at_rest() && slice->tx_count.get() == 0 && slice->rx_count.get() == 0, "NI slice");
  for (auto& [nid, memory] : peers_) {
    expect(memory.slice->credits.at_rest() && memory.slice->rtr.at_rest() && memory.slice->rtr_holders.empty(),
           "peer credits");
    expect(memory.slice->tx_count == 0 && memory.slice->rx_count == 0 && memory.slice->tx_queued_bytes.get() == 0,
           "peer slice");
    for (auto& local : memory.locals) expect(local->tally->under_way() == 0 && local->tally->bytes() == 0, "tally");
    for (auto& local : memory.locals) expect(local->incoming.idle(), "share of incoming messages");
    for (auto& local : memory.locals)
      for (unsigned pool = 0; pool < kRouterPools; ++pool)
        expect(local->buffers_held[pool] == 0 && local->buffers_come[pool] == 0 && local->waiting[pool].empty(),
               "hop's share");
  }
  return text;
}

}  // namespace ulnet::test
