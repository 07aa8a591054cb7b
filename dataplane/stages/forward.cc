#include "dataplane/stages/forward.h"

#include <algorithm>
#include <utility>

#include "dataplane/select/after_choice.h"
#include "dataplane/stages/post.h"
#include "dataplane/stages/receive.h"
#include "dataplane/stages/send.h"

namespace ulnet {
namespace {

unsigned pool_of(const RxSlot& slot) {
  return router_pool_of(slot.header.payload_length);
}

RxVerdict held(Worker& w, RxSlot& slot) {
  if (static_cast<Linked<HeldTag>&>(slot).linked()) return RxVerdict::kHold;
  w.counters[TurnStat::kHeldRouter].add();
  slot.held_since = w.now;
  w.held_router.push_back(slot);
  return RxVerdict::kHold;
}

/// No next hop may hold more buffers than are free, or a few that are slow would stop all the others. One that holds
/// none waits for the pool, not for its own buffers.
bool hop_is_full(const Worker& w, const PeerLocal& hop, unsigned pool) {
  return hop.buffers_held[pool] > 0 && hop.buffers_held[pool] >= w.pools[pool].free.size();
}

/// The payload of a message for the hop is complete: from now on the hop is what it waits for.
void hop_gets(Worker& w, PeerLocal& hop, unsigned pool) {
  if (hop.buffers_come[pool]++ == 0) hop.buffers_moved[pool] = w.now;
}

void hop_gives(Worker& w, PeerLocal& hop, const RouterBuffer& buffer) {
  const unsigned pool = buffer.block->pool;
  ULNET_CHECK(hop.buffers_held[pool] > 0 && hop.buffers_come[pool] <= hop.buffers_held[pool]);
  --hop.buffers_held[pool];
  if (!buffer.come) return;
  ULNET_CHECK(hop.buffers_come[pool] > 0);
  --hop.buffers_come[pool];
  hop.buffers_moved[pool] = w.now;
}

/// The hop has its share of the pool, and has not moved for so long that a receive for it is not worth its stream.
bool hop_is_stuck(const Worker& w, const PeerLocal& hop, unsigned pool) {
  return hop_is_full(w, hop, pool) && hop.buffers_come[pool] > 0 && w.now - hop.buffers_moved[pool] >= kHopHoldMax;
}

/// All buffers of the pool have been out for so long, and none of them has come back, that a receive which needs one is
/// not worth its stream.
bool pool_is_stuck(const Worker& w, const RouterPool& pool) {
  return pool.free.empty() && w.now - pool.moved >= kPoolHoldMax;
}

void fill(Worker& w, RxSlot& slot, RouterBuffer& buffer, PeerLocal& hop) {
  Transit& m = buffer.transit;
  ULNET_CHECK(m.state == TransitState::kFree && slot.header.payload_length <= buffer.segment.bytes);
  m.state = TransitState::kReceiving;
  m.receive_begin(w.id, w.id.value);
  m.attempts_reset();
  m.tx.home = w.id.value;
  m.buffer = &buffer;
  m.from = slot.from;
  buffer.sender = slot.from_nid;
  buffer.come = false;
  buffer.since = w.now;
  m.hop = &hop;
  m.chosen = slot.chosen;
  m.want_dst = slot.header.dest_nid;
  m.tx.header = slot.header;
  m.tx.payload = {&buffer.segment, 1, 0, slot.header.payload_length};
  slot.message = &m;
  slot.into = m.tx.payload;
}

/// The hop holds messages that have come, and has given nothing back for kRouterCreditHeldMax. NIDs that control looks
/// up, together, say nothing of each other.
bool hop_is_slow(const Worker& w, const PeerLocal& hop, unsigned pool) {
  if (&hop == &w.hop_unknown) return true;
  return hop.buffers_come[pool] > 0 && w.now - hop.buffers_moved[pool] >= kRouterCreditHeldMax;
}

/// A message that holds a router credit of this sender and has come kRouterCreditHeldMax ago, for a hop that is slow.
RouterBuffer* credit_overdue(const Worker& w, PeerSlice& from) {
  unsigned looks = 0;
  for (RouterBuffer* one = from.rtr_holders.front(); one != nullptr; one = from.rtr_holders.after(*one)) {
    if (w.now - one->since < kRouterCreditHeldMax || ++looks > kSharesLook) return nullptr;
    if (hop_is_slow(w, *one->transit.hop, one->block->pool)) return one;
  }
  return nullptr;
}

void release_credit(Worker& w, PeerSlice& from);

/// Releases the router credit of such a message. False: there is none.
bool credit_pass_on(Worker& w, PeerSlice& from) {
  RouterBuffer* buffer = credit_overdue(w, from);
  if (buffer == nullptr) return false;
  from.rtr_holders.remove(*buffer);
  buffer->transit.from = nullptr;
  release_credit(w, from);
  return true;
}

/// Goes on with admitting a receive, as far as it comes: router credit, the next hop's share, a buffer.
RxVerdict admit(Worker& w, RxSlot& slot) {
  const unsigned pool_index = pool_of(slot);
  RouterPool& pool = w.pools[pool_index];
  PeerLocal& hop = *slot.hop;
  if (slot.admission == Admission::kWantsCredit) {
    if (slot.from->rtr.free() <= 0) (void)credit_pass_on(w, *slot.from);
    slot.admission = Admission::kWaitsCredit;
    if (!slot.from->rtr.take(slot)) return held(w, slot);
    slot.admission = Admission::kHasCredit;
  }
  if (hop_is_full(w, hop, pool_index)) {
    slot.admission = Admission::kWaitsHop;
    hop.waiting[pool_index].push_back(slot);
    return held(w, slot);
  }
  RouterBuffer* buffer = pool.free.pop_front();
  if (buffer == nullptr) {
    slot.admission = Admission::kWaitsBuffer;
    pool.waiting.push_back(slot);
    pool.note();
    return held(w, slot);
  }
  ULNET_CHECK(buffer->block->pool == pool_index && !buffer->block->retiring);
  ++buffer->block->out;
  ++pool.out;
  pool.moved = w.now;
  pool.note();
  ++hop.buffers_held[pool_index];
  slot.admission = Admission::kHasBuffer;
  if (static_cast<Linked<HeldTag>&>(slot).linked()) w.held_router.remove(slot);
  fill(w, slot, *buffer, hop);
  return RxVerdict::kReceive;
}

void go_on(Worker& w, RxSlot& slot) {
  const RxVerdict verdict = admit(w, slot);
  if (verdict != RxVerdict::kHold) slot_answer(w, slot, verdict);
}

void release_credit(Worker& w, PeerSlice& from) {
  if (RxSlot* next = from.rtr.give_back()) {
    next->admission = Admission::kHasCredit;
    go_on(w, *next);
  }
}

/// Buffers are free: those who wait get them, unless their next hop has its share by now.
void serve_waiting(Worker& w, RouterPool& pool) {
  for (uint32_t tries = pool.waiting.size(); tries > 0 && !pool.free.empty(); --tries) {
    RxSlot& slot = *pool.waiting.pop_front();
    slot.admission = Admission::kHasCredit;
    go_on(w, slot);
  }
}

/// A next hop has returned a buffer: receives that wait for its share get buffers.
void serve_hop(Worker& w, PeerLocal& hop, unsigned pool) {
  while (!hop.waiting[pool].empty() && !hop_is_full(w, hop, pool)) {
    RxSlot& slot = *hop.waiting[pool].pop_front();
    slot.admission = Admission::kHasCredit;
    const RxVerdict verdict = admit(w, slot);
    if (verdict == RxVerdict::kHold) return;  // it waits for a buffer now
    slot_answer(w, slot, verdict);
  }
}

/// The buffer of `m` counts for this next hop from now on.
void charge(Worker& w, Transit& m, PeerLocal& hop) {
  if (m.hop == &hop) return;
  const unsigned pool = m.buffer->block->pool;
  PeerLocal& before = *std::exchange(m.hop, &hop);
  ++hop.buffers_held[pool];
  hop_gets(w, hop, pool);
  hop_gives(w, before, *m.buffer);
  serve_hop(w, before, pool);
}

/// Takes a held receive out of whatever it waits for and drops it; a credit it holds is passed on.
void give_up(Worker& w, RxSlot& slot, Drop reason) {
  const unsigned pool = pool_of(slot);
  bool has_credit = true;
  switch (slot.admission) {
    case Admission::kWaitsCredit:
      slot.from->rtr.leave(slot);
      has_credit = false;
      break;
    case Admission::kWaitsHop: slot.hop->waiting[pool].remove(slot); break;
    case Admission::kWaitsBuffer: w.pools[pool].waiting.remove(slot); break;
    case Admission::kOpen:
    case Admission::kDropped:
    case Admission::kWantsCredit:
    case Admission::kHasCredit:
    case Admission::kHasBuffer: ULNET_CHECK(!"a receive that does not wait was given up");
  }
  w.held_router.remove(slot);
  PeerSlice* from = slot.from;
  slot_answer(w, slot, drop_receive(w, slot, reason));
  if (has_credit) release_credit(w, *from);
}

/// Did the message come from the node that it would go to? A gateway that is not discovered is one peer for each of
/// its NIDs; then its own list says which others it has.
bool came_from(const PathChoice& choice, const Nid& sender) {
  const std::vector<PeerNiView>& nis = choice.hop_peer->nis;
  if (std::any_of(nis.begin(), nis.end(), [&](const PeerNiView& ni) { return ni.nid == sender; })) return true;
  const std::vector<Nid>& others = choice.hop_peer->other_nids;
  return choice.routed && std::find(others.begin(), others.end(), sender) != others.end();
}

/// Does a route to the origin of the message lead over the router that sent it?
bool leads_back(const Worker& w, const wire::Header& header, const Nid& sender) {
  const RouteNetView* net = w.view->routes->find(header.src_nid.net());
  const PeerRef from = w.view->peers->find(sender);
  if (net == nullptr || !from) return false;
  return std::any_of(net->routes.begin(), net->routes.end(), [&](const RouteView& route) {
    const PeerRef gateway = w.view->peers->find(route.gateway);
    return gateway && gateway.peer == from.peer;
  });
}

/// Does a message that came through a router, and goes on to another, circle? Looks at headers only, so once for each
/// time that it comes. PUTs without a handle for an ACK may be equal without being the same message: those that come
/// from where their origin lies are not counted. In a loop, one router gets them from elsewhere.
bool circles(Worker& w, const wire::Header& header, const Nid& sender) {
  if (header.src_nid == sender) return false;  // its first router
  if (w.view->local->ni(header.src_nid) != nullptr) return true;
  const bool anonymous = header.type == wire::MsgType::kPut && header.put().ack_wmd.is_none();
  return !(anonymous && leads_back(w, header, sender)) && w.loop_watch.circles(header, w.now);
}

PathRequest forward_request(const wire::Header& header, const Nid& dst) {
  PathRequest request;
  request.dst = dst;
  request.forward = true;
  request.bytes = wire::kHeaderNid4Bytes + uint64_t{header.payload_length};
  request.portal0 = (header.type == wire::MsgType::kPut && header.put().portal == kReservedPortal) ||
                    (header.type == wire::MsgType::kGet && header.get().portal == kReservedPortal);
  request.origin = header.src_nid;
  return request;
}

/// The choice by the header alone: the message is sent later, by whichever NI is best then.
void note_turn_of(Worker& w, const PathChoice& choice) {
  WorkerNotes notes(w.tallies);
  note_turn(notes, choice);
}

/// 0: none. `checked`: forward_header() has compared the hop with the sender.
int32_t refusal(const Transit& m, const PathChoice& choice, bool checked) {
  if (choice.kind == PathKind::kLoopback) return -EHOSTUNREACH;
  if (choice.kind != PathKind::kPath) return 0;
  if (!checked && came_from(choice, m.buffer->sender)) return -ELOOP;
  return choice.hop->down ? -EHOSTDOWN : 0;
}

PathChoice refused(int32_t error) {
  PathChoice choice;
  choice.error = error;
  choice.health = LndStatus::kOk;
  return choice;
}

/// The payload of `m` is complete: its router credit may be passed on after a moment, or at once if the hop is slow.
void has_come(Worker& w, Transit& m) {
  RouterBuffer& buffer = *m.buffer;
  const unsigned pool = buffer.block->pool;
  const bool slow = hop_is_slow(w, *m.hop, pool);
  buffer.come = true;
  buffer.since = slow ? w.now - kRouterCreditHeldMax : w.now;
  if (slow)
    m.from->rtr_holders.push_front(buffer);
  else
    m.from->rtr_holders.push_back(buffer);
  hop_gets(w, *m.hop, pool);
}

/// Takes buffers from payloads that are not complete after kComingMax, where others wait for these buffers.
unsigned divert_late(Worker& w) {
  unsigned done = 0;
  for (RxSlot* slot = w.coming.front(); slot != nullptr && done < kTimerBudget;) {
    RxSlot& late = *slot;
    slot = w.coming.after(late);
    Transit& m = as_transit(*late.message);
    if (w.now - m.buffer->since < kComingMax) break;
    const unsigned pool = m.buffer->block->pool;
    const bool wanted = !w.pools[pool].waiting.empty() || !m.hop->waiting[pool].empty();
    if (!wanted || m.divert.exchange(true, std::memory_order_relaxed)) continue;
    w.lnds[late.ni_slice->lnd]->divert(late, w.now);
    ++done;
  }
  return done;
}

/// Moves a held receive on, or ends it when it has waited for too long. False: it goes on waiting.
bool look_at_held(Worker& w, RxSlot& slot) {
  if (slot.admission == Admission::kWaitsCredit) return credit_pass_on(w, *slot.from);
  PeerLocal& hop = *slot.hop;
  const unsigned pool = pool_of(slot);
  if (slot.admission == Admission::kWaitsBuffer) {
    if (!pool_is_stuck(w, w.pools[pool])) return false;
    give_up(w, slot, Drop::kNoRouterBuffer);
    return true;
  }
  if (!hop_is_full(w, hop, pool)) {  // its share has grown: other hops have given buffers back
    serve_hop(w, hop, pool);
    return true;
  }
  if (!hop_is_stuck(w, hop, pool)) return false;
  give_up(w, slot, Drop::kNextHopFull);
  return true;
}

/// The message has been sent, or has failed: buffer and credit go to the next receives that wait for them.
void forward_end(Worker& w, Transit& m) {
  RouterBuffer& buffer = *m.buffer;
  RouterBlock& block = *buffer.block;
  const unsigned pool_index = block.pool;
  RouterPool& pool = w.pools[pool_index];
  PeerLocal& hop = *m.hop;
  PeerSlice* from = std::exchange(m.from, nullptr);
  ULNET_CHECK(m.state == TransitState::kReady && block.out > 0 && pool.out > 0);
  if (KeptPayload* kept = std::exchange(buffer.kept, nullptr)) kept->give_back();
  m.tx.piped = nullptr;
  if (PipedPayload* piped = std::exchange(buffer.piped, nullptr)) piped->give_back();
  if (static_cast<Linked<RouterBufferTag>&>(buffer).linked()) from->rtr_holders.remove(buffer);
  m.state = TransitState::kFree;
  --block.out;
  --pool.out;
  pool.moved = w.now;
  if (!block.retiring) {
    pool.free.push_front(buffer);
  } else if (block.out == 0) {
    pool.blocks.remove(block);
    post_control(w, block.retired, RouterRetiredMsg{&block});
  }
  hop_gives(w, hop, buffer);
  pool.note();
  serve_waiting(w, pool);
  serve_hop(w, hop, pool_index);
  if (from != nullptr) release_credit(w, *from);
}

void drop_transit(Worker& w, Transit& m, Drop reason) {
  w.counters[Stat::kDropCount].add();
  w.counters[Stat::kDropLength].add(m.tx.header.payload_length);
  w.counters[reason].add();
  forward_end(w, m);
}

}  // namespace

void peer_set_rtr_credits(Worker& w, PeerSlice& slice, int32_t total) {
  slice.rtr.set_total(total);
  while (RxSlot* next = slice.rtr.hand_on()) {
    next->admission = Admission::kHasCredit;
    go_on(w, *next);
  }
}

bool forward_waits_for(Worker& w, const PeerLocal& hop) {
  for (RxSlot* slot = w.held_router.front(); slot != nullptr; slot = w.held_router.after(*slot))
    if (slot->hop == &hop) return true;
  return false;
}

RxVerdict forward_header(Worker& w, RxSlot& slot) {
  if (w.pools[pool_of(slot)].total == 0) return drop_receive(w, slot, Drop::kRouterShutdown);
  const PathRequest request = forward_request(slot.header, slot.header.dest_nid);
  const PathChoice choice = choose_path(*w.view, request, path_context(w));
  PeerLocal* hop = nullptr;
  switch (choice.kind) {
    case PathKind::kError:
      return drop_receive(
          w, slot, w.view->routes->find(slot.header.dest_nid.net()) != nullptr ? Drop::kNextHopDown : Drop::kNoRoute);
    case PathKind::kLoopback: return RxVerdict::kProtocolError;
    case PathKind::kPark:
      hop = &w.hop_unknown;  // control will know it when the payload is here
      slot.chosen = {};
      break;
    case PathKind::kPath:
      if (came_from(choice, slot.from_nid) || (choice.routed && circles(w, slot.header, slot.from_nid)))
        return drop_receive(w, slot, Drop::kRouteLoop);
      if (choice.hop->down) return drop_receive(w, slot, Drop::kNextHopDown);
      hop = choice.hop->locals[w.id.value];
      slot.chosen = {choice.hop_peer, choice.hop, choice.final_ni, choice.routed, w.view->epoch};
      slot.may_keep = choice.ni->slices[w.id.value]->any_memory;
      slot.may_pipe = choice.ni->slices[w.id.value]->lnd == slot.ni_slice->lnd;
      note_turn_of(w, choice);
      break;
  }
  if (hop_is_stuck(w, *hop, pool_of(slot))) return drop_receive(w, slot, Drop::kNextHopFull);
  if (pool_is_stuck(w, w.pools[pool_of(slot)])) return drop_receive(w, slot, Drop::kNoRouterBuffer);
  slot.hop = hop;
  slot.admission = Admission::kWantsCredit;
  return admit(w, slot);
}

void forward_received(Worker& w, RxSlot& slot, Transit& m, Completion how) {
  ULNET_CHECK(m.state == TransitState::kReceiving);
  m.state = TransitState::kReady;
  if (how.error != 0) {
    w.counters[Drop::kRouterPayload].add();
    w.counters[Stat::kDropCount].add();
    w.counters[Stat::kDropLength].add(slot.header.payload_length);
    return forward_end(w, m);
  }
  if (KeptPayload* kept = std::exchange(slot.kept, nullptr)) {
    m.buffer->kept = kept;
    m.tx.payload = kept->payload();
    ULNET_CHECK(m.tx.payload.length == slot.header.payload_length);
    w.counters[TurnStat::kForwardedUncopied].add();
  }
  if (PipedPayload* piped = std::exchange(slot.piped, nullptr)) {
    m.buffer->piped = m.tx.piped = piped;
    m.buffer->piped_by = slot.ni_slice->lnd;
    w.counters[TurnStat::kForwardedUncopied].add();
  }
  has_come(w, m);
  send_message(w, m);
}

void forward_lease_back(Worker& w, Transit& m) {
  ULNET_CHECK(m.state == TransitState::kSending);
  m.state = TransitState::kReady;
  if (m.tx.result.error == 0) return forward_end(w, m);
  drop_transit(w, m, Drop::kNextHopDown);
}

void forward_failed(Worker& w, Transit& m, int32_t error) {
  drop_transit(w, m, error == -ELOOP ? Drop::kRouteLoop : error == -EHOSTDOWN ? Drop::kNextHopDown : Drop::kNoRoute);
}

PathChoice forward_path(Worker& w, Transit& m, bool any) {
  PathRequest request = forward_request(m.tx.header, m.want_dst);
  request.numa = m.buffer->block->numa;
  request.tried = m.failed_over();
  request.tried_any = any;
  const bool keeps_hop = !m.again && m.moves == 0 && m.chosen.peer != nullptr;
  const bool same_view = keeps_hop && m.chosen.epoch == w.view->epoch;
  // Made in its place, and the only result: a copy of what was just written is slow (store_pair()).
  PathChoice choice = same_view   ? path_over(*w.view, request, path_context(w), m.chosen)
                      : keeps_hop ? path_over(*w.view, request, path_context(w), m.hop->nid)
                                  : choose_path(*w.view, request, path_context(w));
  if (keeps_hop && choice.kind != PathKind::kPath) choice = choose_path(*w.view, request, path_context(w));
  if (const int32_t error = refusal(m, choice, same_view && choice.hop == m.chosen.ni); error != 0)
    choice = refused(error);
  if (choice.kind != PathKind::kPath) return choice;
  charge(w, m, *choice.hop->locals[w.id.value]);
  if (m.tx.piped != nullptr && choice.ni->slices[w.id.value]->lnd != m.buffer->piped_by)
    std::exchange(m.tx.piped, nullptr)->to_memory(m.tx.payload);
  return choice;
}

void router_block_add(Worker& w, RouterBlock& block) {
  RouterPool& pool = w.pools[block.pool];
  pool.blocks.push_back(block);
  pool.credits_min.add(block.count);  // the least ever free moves with the size
  pool.total += block.count;
  for (uint32_t i = 0; i < block.count; ++i) pool.free.push_back(block.buffers[i]);
  pool.note();
  serve_waiting(w, pool);
}

void router_block_retire(Worker& w, RouterBlock& block) {
  RouterPool& pool = w.pools[block.pool];
  block.retiring = true;
  pool.total -= block.count;
  pool.credits_min.add(-int64_t(block.count));
  for (RouterBuffer* buffer = pool.free.front(); buffer != nullptr;) {
    RouterBuffer* next = pool.free.after(*buffer);
    if (buffer->block == &block) pool.free.remove(*buffer);
    buffer = next;
  }
  pool.note();
  if (pool.total == 0) {
    for (RxSlot* slot = w.held_router.front(); slot != nullptr;) {
      RxSlot* next = w.held_router.after(*slot);
      if (pool_of(*slot) == block.pool) {
        give_up(w, *slot, Drop::kRouterShutdown);
        next = w.held_router.front();  // a credit passed on may have moved others
      }
      slot = next;
    }
  }
  if (block.out != 0) return;
  pool.blocks.remove(block);
  post_control(w, block.retired, RouterRetiredMsg{&block});
}

unsigned router_hold_expire(Worker& w) {
  const Duration limit = w.router_hold_timeout;
  if (limit == Duration{}) return 0;
  unsigned dropped = 0;
  while (RxSlot* slot = w.held_router.front()) {
    if (w.now - slot->held_since < limit || dropped == kTimerBudget) break;
    give_up(w, *slot, Drop::kRouterHoldTimeout);
    ++dropped;
  }
  return dropped;
}

unsigned router_hold_look(Worker& w) {
  if (w.held_router.empty() || w.now < w.held_look_at) return 0;
  w.held_look_at = w.now + kRouterHoldLook;
  unsigned done = divert_late(w);
  for (RxSlot* slot = w.held_router.front(); slot != nullptr && done < kTimerBudget;) {
    RxSlot* next = w.held_router.after(*slot);
    if (look_at_held(w, *slot)) {
      ++done;
      // This may have moved others.
      if (next != nullptr && !static_cast<Linked<HeldTag>&>(*next).linked()) next = w.held_router.front();
    }
    slot = next;
  }
  return done;
}

}  // namespace ulnet
