// Worker half of the sim LND (sim_lnd.h).
#include "lnd/sim/sim_lnd.h"

#include <algorithm>

#include "dataplane/state/payload.h"
#include "lnd/sim/fabric_ctl.h"

namespace ulnet::sim {

SimLnd::SimLnd(Fabric& fabric, LndCore& core, uint32_t node) : fabric_(fabric), core_(core), node_(node) {
  fabric_.join(*this);
}

SimLnd::~SimLnd() {
  fabric_.leave(*this);
}

// --- Out -------------------------------------------------------------------------------------------------------------

// Tx::lnd: [0] the end that it was launched on, 0 while it waits; [1] its number among the submits of this worker.
void SimLnd::submit(Tx& tx, Instant now) {
  fabric_.see(now);
  ++fabric_.count().tx_submitted;
  tx.lnd[0] = 0;
  tx.lnd[1] = ++submits_;
  if (tx.token != 0) return reply(tx, now);
  if (stopped_.contains(tx.ni)) return tx_finish(tx, kShutDown, now);
  const Key key{tx.ni, tx.next_hop};
  PeerQueue& queue = queues_[key];
  queue.waiting.push_back(tx);
  remind(tx.deadline);
  pump(key, queue);
}

void SimLnd::tx_finish(Tx& tx, Completion how, Instant now) {
  ++fabric_.count().tx_done;
  core_.tx_done(tx, how, now);
}

// Makes no call into the core but to_control, so it may stand anywhere.
void SimLnd::pump(const Key& key, PeerQueue& queue) {
  if (queue.waiting.empty()) return;
  End* end = fabric_.find_end(queue.end);
  if (end == nullptr) return ask_connection(key, queue, *queue.waiting.front());
  const uint32_t window = std::max(1u, fabric_.rules_of(end->local, end->remote).window);
  while (!queue.waiting.empty() && end->in_flight < window) {
    fabric_.launch(*end, *queue.waiting.pop_front());
    remind(stalled_at(*end));
  }
}

void SimLnd::ask_connection(const Key& key, PeerQueue& queue, Tx& tx) {
  if (queue.asked) return;
  queue.asked = true;
  tell(ConnectMsg{key.first, tx.peer_ni, key.second, tx.peer});
}

void SimLnd::cancel(Tx& tx, bool force, Instant now) {
  fabric_.see(now);
  if (tx.lnd[0] == 0) {
    queues_.at({tx.ni, tx.next_hop}).waiting.remove(tx);
    tx_finish(tx, tx.deadline <= now ? kExpired : kCancelled, now);
  } else if (force) {
    End* end = fabric_.find_end(tx.lnd[0]);
    ULNET_CHECK(end != nullptr && !end->broken);  // else it had been reported done
    close_end(*end, kForced, Close::kAbort, now);
  }
}

bool SimLnd::complete_one(End& end, Instant now) {
  const auto due = std::find_if(end.sent.begin(), end.sent.end(), [&](const Launched& l) { return l.done_at <= now; });
  if (due == end.sent.end()) return false;
  const Launched launched = *due;
  end.sent.erase(due);
  tx_finish(*launched.tx, launched.how, now);
  return true;
}

// --- In --------------------------------------------------------------------------------------------------------------

bool SimLnd::receive_one(End& end, Instant now) {
  if (!fabric_.passes(end.remote, end.local)) return false;
  switch (end.state) {
    case Inbound::kOpening:
    case Inbound::kHeld: return false;
    case Inbound::kReceiving:
      if (end.body_done > now) return false;
      if (end.current.torn)
        close_end(end, kReset, Close::kAbort, now);
      else
        finish_receive(end, {}, now);
      return true;
    case Inbound::kDiscarding:
      if (end.body_done > now) return false;
      end.state = Inbound::kNone;
      fabric_.consumed(std::exchange(end.current, {}), end.local);
      return true;
    case Inbound::kNone: break;
  }
  if (end.inbox.empty() || end.inbox.begin()->first.first > now) return false;
  if (!end.drains && end.inbox.begin()->first > Due{end.break_at, end.break_order}) return false;
  if (fabric_.rdma()) {
    Message message = std::move(end.inbox.begin()->second);
    end.inbox.erase(end.inbox.begin());
    rdma_receive(end, std::move(message), now);
    return true;
  }
  end.current = std::move(end.inbox.begin()->second);
  end.inbox.erase(end.inbox.begin());
  if (end.current.torn)
    close_end(end, kReset, Close::kAbort, now);
  else
    open_slot(end, now);
  return true;
}

void SimLnd::open_slot(End& end, Instant now) {
  InSlot& slot = *end.slot;
  Message& message = end.current;
  slot.begin(message.header, end.ni, end.ni_slice, end.peer_ni, end.slice, end.remote);
  slot.movable = message.lender == nullptr && message.body_time == Duration{0};
  if (slot.movable) slot.arrived_whole(message.bytes.data(), uint32_t(message.bytes.size()));
  end.state = Inbound::kOpening;
  ++fabric_.count().slots_opened;
  switch (core_.rx_header(slot, now)) {
    case RxVerdict::kReceive: start_receive(end, now); break;
    case RxVerdict::kHold: end.state = Inbound::kHeld; break;
    case RxVerdict::kTaken:
      end.taken.push_back({std::exchange(end.slot, std::make_unique<InSlot>()), std::exchange(message, {})});
      end.slot->end = end.id;
      end.state = Inbound::kNone;
      kick(now);
      break;
    case RxVerdict::kRefused: ULNET_CHECK(!"a slot without a token was refused"); break;
    case RxVerdict::kProtocolError:
      end.state = Inbound::kNone;
      ++fabric_.count().slots_closed;
      close_end(end, kProtocolBreak, Close::kAbort, now);
      break;
  }
}

void SimLnd::release(RxSlot& slot, Instant now) {
  fabric_.see(now);
  End* end = fabric_.find_end(static_cast<InSlot&>(slot).end);
  ULNET_CHECK(end != nullptr);
  const auto taken =
      std::find_if(end->taken.begin(), end->taken.end(), [&](const Taken& t) { return t.slot.get() == &slot; });
  ULNET_CHECK(taken != end->taken.end());
  if (!end->broken) fabric_.consumed(taken->message, end->local);
  end->taken.erase(taken);
  ++fabric_.count().slots_closed;
  kick(now);
}

// The first half of the payload is written at once and the rest when it is complete, so that a core which takes its
// memory back too early is found out.
void SimLnd::start_receive(End& end, Instant now) {
  if (end.broken || end.current.torn) {
    finish_receive(end, kTornReceive, now);
    if (!end.broken) close_end(end, kReset, Close::kAbort, now);
    return;
  }
  end.into = PayloadCursor(end.slot->into);
  if (end.current.lender != nullptr) {
    end.from = PayloadCursor(end.current.lender->payload);
  } else {
    const uint32_t bytes = uint32_t(end.current.bytes.size());
    end.from_segment = {end.current.bytes.data(), bytes};
    end.from = PayloadCursor({&end.from_segment, 1, 0, bytes});
  }
  payload_copy(end.into, end.from, end.slot->into.length / 2);
  end.state = Inbound::kReceiving;
  end.receiving_since = now;
  end.body_done = now + end.current.body_time;
  if (end.current.body_time == Duration{0}) return finish_receive(end, {}, now);
  kick(end.body_done);
  remind(now + end.timeout);
}

void SimLnd::finish_receive(End& end, Completion how, Instant now) {
  if (how.error == 0) payload_copy(end.into, end.from);
  end.state = Inbound::kNone;
  if (!end.broken) fabric_.consumed(end.current, end.local);
  end.current = {};
  kick(now);
  ++fabric_.count().slots_closed;
  core_.rx_done(*end.slot, how, now);
}

void SimLnd::resume(RxSlot& slot, Instant now) {
  fabric_.see(now);
  End* end = fabric_.find_end(static_cast<InSlot&>(slot).end);
  ULNET_CHECK(end != nullptr);
  kick(now);
  if (Request* request = static_cast<InSlot&>(slot).request) return request_go_on(*end, *request, slot.verdict, now);
  ULNET_CHECK(end->state == Inbound::kHeld);
  switch (slot.verdict) {
    case RxVerdict::kReceive: return start_receive(*end, now);
    case RxVerdict::kHold:
    case RxVerdict::kRefused:
    case RxVerdict::kTaken: ULNET_CHECK(!"a held slot was resumed without a verdict"); return;
    case RxVerdict::kProtocolError:
      end->state = Inbound::kNone;
      ++fabric_.count().slots_closed;
      if (!end->broken) close_end(*end, kProtocolBreak, Close::kAbort, now);
  }
}

void SimLnd::divert(RxSlot& slot, Instant now) {
  fabric_.see(now);
  End* end = fabric_.find_end(static_cast<InSlot&>(slot).end);
  if (end == nullptr) return;
  if (Request* request = static_cast<InSlot&>(slot).request) {
    if (request->state != Request::State::kOffered) return;
    // The peer may write at any time: only the end of the connection takes its right back.
    request->state = Request::State::kHeld;
    close_end(*end, kForced, Close::kAbort, now);
    return request_end(*end, *request, kCancelled, now);
  }
  if (end->state != Inbound::kReceiving) return;
  end->state = Inbound::kDiscarding;
  ++fabric_.count().slots_closed;
  core_.rx_done(slot, kCancelled, now);
}

// --- Connections -----------------------------------------------------------------------------------------------------

// Lets go of everything at this side and sends the news to the other. Orderly: what was copied to the wire still
// arrives.
void SimLnd::close_end(End& end, Completion how, Close close, Instant now) {
  if (end.broken) return;
  end.broken = true;
  ++fabric_.count().breaks;
  kick(now);
  fabric_.tear_loans(end);
  Instant at = now + fabric_.draw_delay(end.local, end.remote);
  if (close == Close::kOrderly) at = std::max(at, end.last_arrival);
  fabric_.schedule_break(fabric_.find_end(end.peer), at, kReset, close == Close::kOrderly);
  end.inbox.clear();
  std::vector<Launched> sent;
  sent.swap(end.sent);
  const Key key{end.ni, end.remote};
  PeerQueue& queue = queues_[key];
  if (queue.end == end.id) queue.end = 0;

  if (end.state == Inbound::kReceiving)
    finish_receive(end, kTornReceive, now);
  else if (end.state == Inbound::kDiscarding)
    end.state = Inbound::kNone;
  requests_torn(end, now);
  for (const Launched& launched : sent) {
    const bool left = close == Close::kOrderly && !launched.lent;
    Completion ended = left ? launched.how : how;
    if (launched.written && ended.error != 0) ended.health = LndStatus::kLocalError;  // never sent again
    tx_finish(*launched.tx, ended, now);
  }
  pump(key, queue);  // what waits asks for another connection
}

void SimLnd::from_control(const LndMsg& msg, Instant now) {
  fabric_.see(now);
  switch (SimMsg(msg.kind())) {
    case SimMsg::kConnUp: return take_over(msg.as<ConnUpMsg>(), now);
    case SimMsg::kConnFailed: return connect_failed(msg.as<ConnFailedMsg>(), now);
    case SimMsg::kStop: return stop(msg.as<StopMsg>().ni, now);
    case SimMsg::kConnect:
    case SimMsg::kStopped: return;
  }
}

void SimLnd::take_over(const ConnUpMsg& msg, Instant now) {
  End* end = fabric_.find_end(msg.end_id);
  if (end == nullptr) return;
  end->lnd = this;
  ends_.insert(end->id);
  kick(now);
  const Key key{msg.ni, msg.nid};
  PeerQueue& queue = queues_[key];
  if (stopped_.contains(msg.ni)) return close_end(*end, kShutDown, Close::kAbort, now);
  End* before = fabric_.find_end(queue.end);
  queue.end = end->id;  // first, so that closing the old one does not ask for a new one
  queue.asked = false;
  if (before != nullptr) close_end(*before, kReset, Close::kAbort, now);
  pump(key, queue);
}

// Only what waited when the news came: tx_done may lead to a resend over the same queue, which dials anew.
void SimLnd::connect_failed(const ConnFailedMsg& msg, Instant now) {
  const auto found = queues_.find({msg.ni, msg.nid});
  if (found == queues_.end() || found->second.end != 0) return;
  PeerQueue& queue = found->second;
  const uint64_t last = submits_;
  queue.asked = false;
  while (!queue.waiting.empty() && queue.waiting.front()->lnd[1] <= last) {
    tx_finish(*queue.waiting.pop_front(), msg.how, now);
  }
  pump(found->first, queue);
}

void SimLnd::stop(NiId ni, Instant now) {
  stopped_.insert(ni);
  stopping_.insert(ni);
  kick(now);
  for (auto& [key, queue] : queues_) {
    if (key.first != ni) continue;
    while (Tx* tx = queue.waiting.pop_front()) tx_finish(*tx, kShutDown, now);
  }
  for (const uint64_t id : ends_) {
    End* end = fabric_.find_end(id);
    if (end->ni == ni) close_end(*end, kShutDown, Close::kOrderly, now);
  }
}

// Frees broken ends whose slot is home, empty queues, and answers control when an NI has nothing left here.
void SimLnd::sweep() {
  for (auto at = ends_.begin(); at != ends_.end();) {
    const End* end = fabric_.find_end(*at);
    if (end->broken && end->state == Inbound::kNone && end->taken.empty() && end->requests.empty()) {
      fabric_.erase_end(*at);
      at = ends_.erase(at);
    } else {
      ++at;
    }
  }
  std::erase_if(queues_, [](const auto& entry) {
    const PeerQueue& queue = entry.second;
    return queue.waiting.empty() && queue.end == 0 && !queue.asked;
  });
  for (auto at = stopping_.begin(); at != stopping_.end();) {
    const NiId ni = *at;
    const bool left =
        std::any_of(ends_.begin(), ends_.end(), [&](uint64_t id) { return fabric_.find_end(id)->ni == ni; });
    if (left) {
      ++at;
      continue;
    }
    at = stopping_.erase(at);
    std::erase_if(queues_, [&](const auto& entry) { return entry.first.first == ni; });
    tell(StoppedMsg{ni});
  }
}

void SimLnd::tell(const LndMsg& msg) {
  const auto waits = [](const Owed& owed) { return owed.linked(); };
  auto owed = std::find_if_not(owed_.begin(), owed_.end(), waits);
  if (owed == owed_.end()) owed = owed_.emplace(owed_.end());
  core_.to_control(*owed, msg);
}

// --- Turns -----------------------------------------------------------------------------------------------------------

unsigned SimLnd::serve(End& end, unsigned budget, Instant now) {
  unsigned done = 0;
  while (done < budget && !end.broken && (complete_one(end, now) || receive_one(end, now))) ++done;
  if (done == budget || end.broken) return done;
  const bool more_to_come = end.drains && (!end.inbox.empty() || end.state != Inbound::kNone);
  if (end.break_at <= now && !more_to_come && fabric_.passes(end.remote, end.local)) {
    close_end(end, end.break_how, Close::kAbort, now);
    ++done;
  }
  return done;
}

unsigned SimLnd::poll(unsigned budget, Instant now) {
  fabric_.see(now);
  if (fabric_.frozen(node_) || wake_ > now) return 0;
  sweep();
  wake_ = kForever;
  unsigned done = 0;
  auto visit = [&](uint64_t id) {
    if (done == budget) return kick(now);
    End& end = *fabric_.find_end(id);
    done += serve(end, budget - done, now);
    served_last_ = id;
  };
  const uint64_t begin = served_last_;
  for (auto at = ends_.upper_bound(begin); at != ends_.end(); ++at) visit(*at);
  for (auto at = ends_.begin(); at != ends_.end() && *at <= begin; ++at) visit(*at);
  for (auto& [key, queue] : queues_) pump(key, queue);
  for (const uint64_t id : ends_) kick(wake_of(*fabric_.find_end(id)));
  sweep();
  return done;
}

Instant SimLnd::wake_of(const End& end) const {
  if (end.broken) return kForever;
  Instant next = kForever;
  for (const Launched& launched : end.sent) next = std::min(next, launched.done_at);
  if (!fabric_.passes(end.remote, end.local)) return next;
  if (!end.drains || (end.inbox.empty() && end.state == Inbound::kNone)) next = std::min(next, end.break_at);
  switch (end.state) {
    case Inbound::kNone: return end.inbox.empty() ? next : std::min(next, end.inbox.begin()->first.first);
    case Inbound::kReceiving:
    case Inbound::kDiscarding: return std::min(next, end.body_done);
    case Inbound::kOpening:
    case Inbound::kHeld: return next;
  }
  return next;
}

Instant SimLnd::stalled_at(const End& end) const {
  if (end.broken) return kForever;
  const bool sending = !end.sent.empty() || end.in_flight > 0;
  const bool receiving = end.state == Inbound::kReceiving || end.state == Inbound::kDiscarding;
  Instant send = sending ? end.progress + end.timeout : kForever;
  for (const auto& request : end.requests)
    if (request->state == Request::State::kOffered) send = std::min(send, request->since + end.timeout);
  return receiving ? std::min(send, end.receiving_since + end.timeout) : send;
}

// Fails one Tx or connection whose time has come; else tells the earliest time still to come. One at a time, since what
// follows from it may change everything.
bool SimLnd::expire_one(Instant now, Instant& earliest) {
  earliest = kForever;
  for (const uint64_t id : ends_) {
    End& end = *fabric_.find_end(id);
    const Instant at = stalled_at(end);
    earliest = std::min(earliest, at);
    if (at > now) continue;
    const bool sending = (!end.sent.empty() || end.in_flight > 0) && end.progress + end.timeout <= now;
    close_end(end, sending ? kStalled : kRxStalled, Close::kAbort, now);
    return true;
  }
  for (auto& [key, queue] : queues_) {
    for (Tx* tx = queue.waiting.front(); tx != nullptr; tx = queue.waiting.after(*tx)) {
      earliest = std::min(earliest, tx->deadline);
      if (tx->deadline > now) continue;
      queue.waiting.remove(*tx);
      tx_finish(*tx, kExpired, now);
      return true;
    }
  }
  return false;
}

unsigned SimLnd::timers(Instant now) {
  fabric_.see(now);
  if (fabric_.frozen(node_) || timer_bound_ > now) return 0;
  unsigned done = 0;
  Instant earliest = kForever;
  while (done < kTimerBudget && expire_one(now, earliest)) ++done;
  timer_bound_ = done == kTimerBudget ? now : earliest;
  return done;
}

Instant SimLnd::next_deadline() {
  return fabric_.frozen(node_) ? kForever : wake();
}

bool SimLnd::pending() {
  return !fabric_.frozen(node_) && wake_ <= fabric_.now();
}

bool SimLnd::idle() const {
  return ends_.empty() &&
         std::all_of(queues_.begin(), queues_.end(), [](const auto& q) { return q.second.waiting.empty(); });
}

}  // namespace ulnet::sim
