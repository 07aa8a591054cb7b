#include "dataplane/route/forward.h"

#include "dataplane/msg/flow.h"
#include "dataplane/select/path.h"

namespace ulnet {
namespace {

// Where a receive to be forwarded is (RxSlot::core_state).
enum Admission : uint8_t { kWantsCredit = 1, kWaitsCredit, kHasCredit, kWaitsHop, kWaitsBuffer, kAdmitted };

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

/// No next hop may hold more than half of a pool, or one that is slow would stop all the others.
bool hop_is_full(const Worker& w, const PeerLocal* hop, unsigned pool) {
  return hop != nullptr && hop->buffers_held[pool] * 2 >= std::max(w.pools[pool].total, 2u);
}

void fill(Worker& w, RxSlot& slot, RouterBuffer& buffer, PeerLocal* hop) {
  Message& m = buffer.message;
  message_reset(w, m, MsgKind::kForward);
  m.receiving = true;
  m.receive_worker = uint8_t(w.id.value);
  m.buffer = &buffer;
  m.from = slot.from;
  m.from_nid = slot.from_nid;
  m.hop = hop;
  m.want_dst = slot.header.dest_nid;
  m.tx.header = slot.header;
  m.tx.payload = {&buffer.segment, 1, 0, slot.header.payload_length};
  m.tx.routed = true;
  slot.core_message = &m;
  slot.into = m.tx.payload;
}

/// Goes on with admitting a receive, as far as it comes: router credit, the next hop's share, a buffer.
RxVerdict admit(Worker& w, RxSlot& slot) {
  const unsigned pool_index = pool_of(slot);
  RouterPool& pool = w.pools[pool_index];
  auto* hop = static_cast<PeerLocal*>(slot.core_wait);
  if (slot.core_state == kWantsCredit) {
    slot.core_state = kWaitsCredit;
    if (!slot.from->rtr.take(slot)) return held(w, slot);
    slot.core_state = kHasCredit;
  }
  if (hop_is_full(w, hop, pool_index)) {
    slot.core_state = kWaitsHop;
    hop->waiting[pool_index].push_back(slot);
    return held(w, slot);
  }
  RouterBuffer* buffer = pool.free.pop_front();
  if (buffer == nullptr) {
    slot.core_state = kWaitsBuffer;
    pool.waiting.push_back(slot);
    pool.note();
    return held(w, slot);
  }
  ++buffer->block->out;
  ++pool.out;
  pool.note();
  if (hop != nullptr) ++hop->buffers_held[pool_index];
  slot.core_state = kAdmitted;
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
    next->core_state = kHasCredit;
    go_on(w, *next);
  }
}

/// Buffers are free: those who wait get them, unless their next hop has its share by now.
void serve_waiting(Worker& w, RouterPool& pool) {
  for (uint32_t tries = pool.waiting.size(); tries > 0 && !pool.free.empty(); --tries) {
    RxSlot& slot = *pool.waiting.pop_front();
    slot.core_state = kHasCredit;
    go_on(w, slot);
  }
}

/// Takes a held receive out of whatever it waits for and drops it; a credit it holds is passed on.
void give_up(Worker& w, RxSlot& slot, Drop reason) {
  const unsigned pool = pool_of(slot);
  bool has_credit = true;
  switch (Admission(slot.core_state)) {
    case kWaitsCredit:
      slot.from->rtr.leave(slot);
      has_credit = false;
      break;
    case kWaitsHop: static_cast<PeerLocal*>(slot.core_wait)->waiting[pool].remove(slot); break;
    case kWaitsBuffer: w.pools[pool].waiting.remove(slot); break;
    case kWantsCredit:
    case kHasCredit:
    case kAdmitted: ULNET_CHECK(!"a receive that does not wait is given up");
  }
  w.held_router.remove(slot);
  PeerSlice* from = slot.from;
  slot_answer(w, slot, drop_receive(w, slot, reason));
  if (has_credit) release_credit(w, *from);
}

bool came_from(const Worker& w, const PathChoice& choice, const Nid& from_nid) {
  const PeerRef from = w.view->peers->find(from_nid);
  return choice.hop->nid == from_nid || (from && from.peer == choice.hop_peer);
}

}  // namespace

void peer_set_rtr_credits(Worker& w, PeerSlice& slice, int32_t total) {
  slice.rtr.set_total(total);
  while (RxSlot* next = slice.rtr.hand_on()) {
    next->core_state = kHasCredit;
    go_on(w, *next);
  }
}

bool forward_waits_for(Worker& w, const PeerLocal& hop) {
  for (RxSlot* slot = w.held_router.front(); slot != nullptr; slot = w.held_router.after(*slot))
    if (slot->core_wait == &hop) return true;
  return false;
}

RxVerdict forward_header(Worker& w, RxSlot& slot) {
  if (w.pools[pool_of(slot)].total == 0) return drop_receive(w, slot, Drop::kRouterShutdown);
  PathRequest request;
  request.dst = slot.header.dest_nid;
  request.forward = true;
  const PathContext context{w.id, w.route_sequences.data(), uint32_t(w.route_sequences.size())};
  const PathChoice choice = choose_path(*w.view, request, context);
  PeerLocal* hop = nullptr;
  switch (choice.kind) {
    case PathKind::kError:
      return drop_receive(
          w, slot, w.view->routes->find(slot.header.dest_nid.net()) != nullptr ? Drop::kNextHopDown : Drop::kNoRoute);
    case PathKind::kLoopback: return RxVerdict::kProtocolError;
    case PathKind::kPark: break;  // control will know the next hop when the payload is here
    case PathKind::kPath:
      if (came_from(w, choice, slot.from_nid)) return drop_receive(w, slot, Drop::kRouteLoop);
      if (choice.hop->down) return drop_receive(w, slot, Drop::kNextHopDown);
      hop = choice.hop->locals[w.id.value];
      break;
  }
  slot.core_wait = hop;
  slot.core_state = kWantsCredit;
  return admit(w, slot);
}

void forward_received(Worker& w, RxSlot& slot, Message& m, Completion how) {
  m.receiving = false;
  if (how.error != 0) {
    w.counters[Drop::kRouterPayload].add();
    w.counters[Stat::kDropCount].add();
    w.counters[Stat::kDropLength].add(slot.header.payload_length);
    return forward_end(w, m);
  }
  send_message(w, m);
}

void forward_end(Worker& w, Message& m) {
  RouterBuffer& buffer = *m.buffer;
  RouterBlock& block = *buffer.block;
  const unsigned pool_index = block.pool;
  RouterPool& pool = w.pools[pool_index];
  PeerLocal* hop = m.hop;
  PeerSlice& from = *m.from;
  m.phase = MsgPhase::kFree;
  --block.out;
  --pool.out;
  if (!block.retiring) {
    pool.free.push_back(buffer);
  } else if (block.out == 0) {
    pool.blocks.remove(block);
    block.retired.msg.object = &block;
    post_control(w, WorkerKind::kRouterRetired, block.retired);
  }
  if (hop != nullptr) --hop->buffers_held[pool_index];
  pool.note();
  serve_waiting(w, pool);
  while (hop != nullptr && !hop->waiting[pool_index].empty() && !hop_is_full(w, hop, pool_index)) {
    RxSlot& slot = *hop->waiting[pool_index].pop_front();
    slot.core_state = kHasCredit;
    const RxVerdict verdict = admit(w, slot);
    if (verdict == RxVerdict::kHold) break;  // it waits for a buffer now
    slot_answer(w, slot, verdict);
  }
  release_credit(w, from);
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
  block.retired.msg.object = &block;
  post_control(w, WorkerKind::kRouterRetired, block.retired);
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

}  // namespace ulnet
