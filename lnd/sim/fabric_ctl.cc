// The network of the sim LND: faults, the sending side of a message, and what is not at rest (fabric_ctl.h).
#include "lnd/sim/fabric_ctl.h"

#include <fmt/format.h>

#include <algorithm>

#include "dataplane/base/nid_text.h"
#include "dataplane/state/payload.h"
#include "lnd/sim/sim_ctl.h"
#include "lnd/sim/sim_lnd.h"

namespace ulnet::sim {

/// What was drawn for one message. Always drawn in full, so that switching one fault on does not move the others.
struct Fabric::Trip {
  Instant departed;
  Instant arrival;
  Instant news;  ///< when the sender could hear of it
  Duration body_time;
};

// --- Faults ----------------------------------------------------------------------------------------------------------

LinkRules& Fabric::link(const Nid& from, const Nid& to) {
  return links_.try_emplace({from, to}, options_.rules).first->second;
}

const LinkRules& Fabric::rules_of(const Nid& from, const Nid& to) const {
  const auto found = links_.find({from, to});
  return found == links_.end() ? options_.rules : found->second;
}

void Fabric::calm() {
  links_.clear();
  LinkRules& rules = options_.rules;
  rules.lose_silently = rules.lose_with_error = rules.duplicate = rules.reorder = 0;
  rules.fates = {};
}

bool Fabric::passes(const Nid& from, const Nid& to) const {
  return !cuts_.contains({from, to}) && !down_.contains(from) && !down_.contains(to);
}

void Fabric::cut_one_way(const Nid& from, const Nid& to) {
  cuts_.insert({from, to});
}

void Fabric::cut(const Nid& a, const Nid& b) {
  cut_one_way(a, b);
  cut_one_way(b, a);
}

void Fabric::partition(const std::vector<Nid>& left, const std::vector<Nid>& right) {
  for (const Nid& a : left)
    for (const Nid& b : right) cut(a, b);
}

void Fabric::heal(const Nid& a, const Nid& b) {
  cuts_.erase({a, b});
  cuts_.erase({b, a});
  kick_all();
}

void Fabric::heal_all() {
  cuts_.clear();
  frozen_.clear();
  const std::set<Nid> down = down_;
  for (const Nid& nid : down) link_up(nid);
  kick_all();
}

void Fabric::reset(const Nid& a, const Nid& b) {
  for (auto& [id, end] : ends_) {
    const bool between = (end->local == a && end->remote == b) || (end->local == b && end->remote == a);
    if (between) schedule_break(end.get(), now_, kReset);
  }
}

void Fabric::link_down(const Nid& nid) {
  if (!down_.insert(nid).second) return;
  const auto found = listeners_.find(nid);
  if (found != listeners_.end())
    found->second->mail(now_, {.kind = ControlMail::Kind::kLinkState, .from = nid, .to = nid});
}

void Fabric::link_up(const Nid& nid) {
  if (down_.erase(nid) == 0) return;
  const auto found = listeners_.find(nid);
  if (found != listeners_.end())
    found->second->mail(now_, {.kind = ControlMail::Kind::kLinkState, .from = nid, .to = nid});
  kick_all();
}

void Fabric::freeze(uint32_t node) {
  frozen_.insert(node);
}

void Fabric::thaw(uint32_t node) {
  frozen_.erase(node);
  kick_all();
}

void Fabric::kick(End& end, Instant at) {
  if (end.lnd != nullptr) end.lnd->kick(at);
}

void Fabric::kick_all() {
  for (SimLnd* lnd : lnds_) lnd->kick(now_);
}

// --- Members ---------------------------------------------------------------------------------------------------------

void Fabric::leave(SimLnd& lnd) {
  std::erase(lnds_, &lnd);
  for (const auto& [key, queue] : lnd.queues()) counts_.tx_done += queue.waiting.size();
  counts_.replies += lnd.replies_owed();
  for (const uint64_t id : lnd.ends()) {
    End* end = find_end(id);
    counts_.tx_done += end->sent.size();
    counts_.slots_closed +=
        end->taken.size() + end->requests.size() + (end->state == Inbound::kHeld || end->state == Inbound::kReceiving);
    tear_loans(*end);
    if (!end->broken) schedule_break(find_end(end->peer), now_ + draw_delay(end->local, end->remote), kReset);
    ends_.erase(id);
  }
}

void Fabric::leave(SimControl& control) {
  std::erase(controls_, &control);
  std::erase_if(listeners_, [&](const auto& entry) { return entry.second == &control; });
  std::vector<uint64_t> orphans;  // a worker that died before it got them, or an answer on its way here
  for (auto& [id, end] : ends_)
    if (end->control == &control && end->lnd == nullptr) orphans.push_back(id);
  for (const uint64_t id : orphans) abandon(*find_end(id));
  for (auto& [id, end] : ends_)
    if (end->control == &control) end->control = nullptr;
}

Result<void> Fabric::listen(const Nid& nid, SimControl& control) {
  if (!listeners_.try_emplace(nid, &control).second)
    return fail(EADDRINUSE, "another node of this fabric has this NID");
  return {};
}

bool Fabric::names(const PeerSlice& slice) const {
  return std::any_of(ends_.begin(), ends_.end(), [&](const auto& entry) { return entry.second->slice == &slice; });
}

End* Fabric::find_end(uint64_t id) {
  const auto found = ends_.find(id);
  return found == ends_.end() ? nullptr : found->second.get();
}

End& Fabric::connect_ends(const Nid& from, const Nid& to, uint64_t attempt) {
  auto make = [&](const Nid& local, const Nid& remote) -> End& {
    auto end = std::make_unique<End>();
    end->id = end->peer = next_number();
    end->attempt = attempt;
    end->local = local;
    end->remote = remote;
    const auto listener = listeners_.find(local);
    end->control = listener == listeners_.end() ? nullptr : listener->second;
    end->slot->end = end->id;
    End& made = *end;
    ends_.emplace(made.id, std::move(end));
    return made;
  };
  ++counts_.connections;
  End& accepting = make(to, from);
  if (from != to) {
    End& dialling = make(from, to);
    accepting.peer = dialling.id;
    dialling.peer = accepting.id;
  }
  return accepting;
}

void Fabric::post(const ControlMail& mail) {
  const Instant at = now_ + draw_delay(mail.from, mail.to);
  if (!passes(mail.from, mail.to)) return;
  const auto found = listeners_.find(mail.to);
  if (found != listeners_.end()) {
    found->second->mail(at, mail);
  } else if (mail.kind == ControlMail::Kind::kRequest && passes(mail.to, mail.from)) {
    ControlMail answer{.kind = ControlMail::Kind::kRefuse, .from = mail.to, .to = mail.from, .attempt = mail.attempt};
    const auto asker = listeners_.find(mail.from);
    if (asker != listeners_.end()) asker->second->mail(at + draw_delay(mail.to, mail.from), answer);
  }
}

uint64_t Fabric::attempt_begin() {
  const uint64_t attempt = next_number();
  attempts_.insert(attempt);
  return attempt;
}

void Fabric::attempt_end(uint64_t attempt) {
  attempts_.erase(attempt);
  std::vector<uint64_t> unused;
  for (auto& [id, end] : ends_)
    if (end->attempt == attempt && !end->handed_over) unused.push_back(id);
  for (const uint64_t id : unused) abandon(*find_end(id));
}

void Fabric::abandon(End& end) {
  schedule_break(find_end(end.peer), now_ + draw_delay(end.local, end.remote), kReset);
  ends_.erase(end.id);
}

// --- A message's way -------------------------------------------------------------------------------------------------

Duration Fabric::draw_delay(const Nid& from, const Nid& to) {
  const LinkRules& rules = rules_of(from, to);
  const Duration range = std::max(rules.delay_max - rules.delay_min, Duration{0});
  return rules.delay_min + Duration{int64_t(rng_.below(uint64_t(range.count()) + 1))};
}

Fate Fabric::fate_of(const End& end, const Tx& tx, const LinkRules& rules) {
  const bool with_error = rng_.chance(rules.lose_with_error);
  const bool silently = rng_.chance(rules.lose_silently);
  const bool twice = rng_.chance(rules.duplicate);
  if (hook) {
    const Fate fate = hook(end.local, end.remote, tx.header);
    if (fate != Fate::kPass) return fate;
  }
  const Fate by_type = rules.fates[size_t(tx.header.type) % wire::kMsgTypes];
  if (by_type != Fate::kPass) return by_type;
  if (with_error) return Fate::kLoseWithError;
  if (silently) return Fate::kLoseSilently;
  return twice ? Fate::kDuplicate : Fate::kPass;
}

void Fabric::launch(End& end, Tx& tx) {
  const LinkRules& rules = rules_of(end.local, end.remote);
  const Fate fate = fate_of(end, tx, rules);
  const bool reordered = rng_.chance(rules.reorder) && !rdma();
  const Duration late{int64_t(rng_.below(uint64_t(std::max<int64_t>(rules.reorder_max.count(), 0)) + 1))};
  const Duration slow{int64_t(rng_.below(uint64_t(std::max<int64_t>(rules.body_delay_max.count(), 0)) + 1))};
  const Duration on_wire{rules.bytes_per_second == 0
                             ? 0
                             : int64_t(uint64_t{tx.header.payload_length} * 1'000'000'000 / rules.bytes_per_second)};
  const Instant begins = std::max(now_, end.busy_until);
  Trip trip{.departed = begins + on_wire,
            .arrival = begins + draw_delay(end.local, end.remote),
            .news = {},
            .body_time = tx.header.payload_length == 0 ? Duration{0} : on_wire + slow};
  end.busy_until = trip.departed;
  if (reordered) {
    trip.arrival += late;
    ++counts_.reordered;
  } else {
    trip.arrival = end.last_arrival = std::max(trip.arrival, end.last_arrival);
  }
  trip.news = trip.arrival + draw_delay(end.remote, end.local);

  tx.lnd[0] = end.id;
  if (end.sent.empty() && end.in_flight == 0) end.progress = now_;
  ++counts_.launched;
  if (fate == Fate::kLoseSilently || fate == Fate::kLoseWithError) {
    return launch_lost(end, tx, rules, trip, fate == Fate::kLoseSilently && !rdma());
  }
  const bool hold = rules.hold_memory && !rdma();
  if (const Wire wire = wire_of(tx); wire != Wire::kMessage) return launch_request(end, tx, wire, trip.arrival);
  deliver_later(end, tx, trip.arrival, trip.body_time, hold, false);
  if (fate == Fate::kDuplicate && !rdma()) {
    ++counts_.duplicated;
    deliver_later(end, tx, trip.arrival + draw_delay(end.local, end.remote), trip.body_time, false, true);
  }
  end.sent.push_back({&tx, hold ? kForever : trip.departed, {}, hold});
  kick(end, trip.departed);
}

Wire Fabric::wire_of(const Tx& tx) const {
  if (tx.header.type == wire::MsgType::kGet && tx.sink.length > options_.rdma_above) return Wire::kGetReq;
  return tx.payload.length > options_.rdma_above ? Wire::kPutReq : Wire::kMessage;
}

void Fabric::launch_request(End& end, Tx& tx, Wire wire, Instant at) {
  ++(wire == Wire::kGetReq ? counts_.get_requests : counts_.put_requests);
  const uint64_t cookie = next_number();
  end.sent.push_back({&tx, kForever, {}, true, cookie});
  End* peer = find_end(end.peer);
  if (peer == nullptr || peer->broken) return schedule_break(&end, at + draw_delay(end.remote, end.local), kReset);
  ++end.in_flight;
  peer->inbox.emplace(Due{at, next_number()}, Message{.header = tx.header, .wire = wire, .answer_cookie = cookie});
  kick(*peer, at);
}

void Fabric::send_answer(End& end, Message&& message) {
  const LinkRules& rules = rules_of(end.local, end.remote);
  const bool lost = rng_.chance(std::max(rules.lose_with_error, rules.lose_silently));
  const Instant at = std::max(now_ + draw_delay(end.local, end.remote), end.last_arrival);
  end.last_arrival = at;
  message.sender_end = end.id;
  End* peer = find_end(end.peer);
  if (lost || peer == nullptr || peer->broken) {
    if (lost) ++counts_.lost_with_error;
    if (lost) schedule_break(peer, at, kReset);
    return schedule_break(&end, at + draw_delay(end.remote, end.local), kReset);
  }
  peer->inbox.emplace(Due{at, next_number()}, std::move(message));
  kick(*peer, at);
}

bool Fabric::may_access(const End& end, const Payload& window) {
  const bool may = !options_.regions || end.control == nullptr || end.control->registered(window);
  counts_.unregistered += !may;
  return may;
}

void Fabric::write(End& end, Tx& tx, const Message& done) {
  if (tx.payload.length > options_.rdma_above && !may_access(end, tx.payload))
    return schedule_break(&end, now_, kReset);
  const LinkRules& rules = rules_of(end.local, end.remote);
  const Duration slow{int64_t(rng_.below(uint64_t(std::max<int64_t>(rules.body_delay_max.count(), 0)) + 1))};
  send_answer(end, {.lender = &tx, .wire = Wire::kWrite, .cookie = done.cookie});
  end.last_arrival += slow;
  if (rules.bytes_per_second != 0)
    end.last_arrival += Duration{int64_t(uint64_t{tx.payload.length} * 1'000'000'000 / rules.bytes_per_second)};
  Message last = done;
  last.lender = &tx;
  send_answer(end, std::move(last));
}

void Fabric::launch_lost(End& end, Tx& tx, const LinkRules& rules, const Trip& trip, bool silently) {
  ++(silently ? counts_.lost_silently : counts_.lost_with_error);
  if (silently) {
    end.sent.push_back({&tx, rules.hold_memory ? trip.news : trip.departed, {}, false});
  } else {
    end.sent.push_back({&tx, trip.news, kReset, false});
  }
  if (rules.loss_breaks || rdma()) {
    schedule_break(find_end(end.peer), trip.arrival, kReset);
    schedule_break(&end, trip.news, kReset);
  }
  kick(end, end.sent.back().done_at);
}

void Fabric::deliver_later(End& end, Tx& tx, Instant at, Duration body_time, bool lend, bool duplicate) {
  End* peer = find_end(end.peer);
  if (peer == nullptr || peer->broken) {  // nobody there any more: the answer is a reset
    schedule_break(&end, at + draw_delay(end.remote, end.local), kReset);
    return;
  }
  Message message{.header = tx.header, .body_time = body_time};
  if (lend) {
    message.lender = &tx;
  } else {
    message.bytes.resize(tx.payload.length);
    const Segment segment{message.bytes.data(), tx.payload.length};
    PayloadCursor to({&segment, 1, 0, tx.payload.length}), from(tx.payload);
    payload_copy(to, from);
  }
  if (!duplicate) {
    message.sender_end = end.id;
    ++end.in_flight;
  }
  peer->inbox.emplace(Due{at, next_number()}, std::move(message));
  kick(*peer, at);
}

void Fabric::consumed(const Message& message, const Nid& receiver) {
  End* sender = find_end(message.sender_end);
  if (sender == nullptr || sender->broken) return;
  --sender->in_flight;
  sender->progress = now_;
  kick(*sender, now_);
  returned(message, receiver);
}

void Fabric::returned(const Message& message, const Nid& receiver) {
  End* sender = find_end(message.sender_end);
  if (message.lender == nullptr || sender == nullptr || sender->broken) return;
  sender->progress = now_;
  for (Launched& launched : sender->sent) {
    if (launched.tx != message.lender) continue;
    launched.done_at = now_ + draw_delay(receiver, sender->local);
    kick(*sender, launched.done_at);
  }
}

void Fabric::tear_loans(End& end) {
  End* peer = find_end(end.peer);
  if (peer == nullptr) return;
  auto tear = [&](Message& message) {
    if (message.lender == nullptr || message.sender_end != end.id) return;
    message.lender = nullptr;
    message.torn = true;
  };
  for (auto& [due, message] : peer->inbox) tear(message);
  tear(peer->current);
}

void Fabric::schedule_break(End* end, Instant at, Completion how, bool drains) {
  if (end == nullptr || end->broken) return;
  if (at >= end->break_at && (drains || !end->drains)) return;
  end->drains = drains;
  end->break_at = at;
  end->break_order = next_number();
  end->break_how = how;
  kick(*end, at);
}

// --- Checking --------------------------------------------------------------------------------------------------------

Instant Fabric::next_event() const {
  Instant next = kForever;
  for (const SimLnd* lnd : lnds_)
    if (!frozen(lnd->node())) next = std::min(next, lnd->wake());
  for (const SimControl* control : controls_)
    if (!frozen(control->node())) next = std::min(next, control->wake());
  return next;
}

size_t Fabric::regions() const {
  size_t all = 0;
  for (const SimControl* control : controls_) all += control->regions();
  return all;
}

std::string Fabric::check_quiescent() const {
  std::string text;
  for (const SimLnd* lnd : lnds_) {
    for (const auto& [key, queue] : lnd->queues()) {
      if (queue.waiting.empty()) continue;
      text += fmt::format("node {} worker {}: {} Tx wait for {} ({})\n", lnd->node(), lnd->worker().value,
                          queue.waiting.size(), nid_text(key.second), queue.end != 0 ? "window full" : "no connection");
    }
  }
  for (const auto& [id, end] : ends_) {
    const std::string name = fmt::format("{} -> {} (end {})", nid_text(end->local), nid_text(end->remote), id);
    if (!end->sent.empty()) text += fmt::format("{}: {} Tx begun and not done\n", name, end->sent.size());
    if (!end->inbox.empty()) text += fmt::format("{}: {} messages on their way in\n", name, end->inbox.size());
    if (end->state != Inbound::kNone) {
      text += fmt::format("{}: a slot is {}\n", name, end->state == Inbound::kHeld ? "held" : "being received");
    }
    if (!end->requests.empty()) text += fmt::format("{}: {} messages are not received\n", name, end->requests.size());
    if (end->broken || end->break_at != kForever) text += fmt::format("{}: broken, not yet gone\n", name);
    if (end->lnd == nullptr) text += fmt::format("{}: no worker has it yet\n", name);
  }
  for (const SimControl* control : controls_) {
    if (control->attempts() > 0)
      text += fmt::format("node {}: {} connect attempts\n", control->node(), control->attempts());
    if (control->stopping() > 0)
      text += fmt::format("node {}: {} NIs stopping\n", control->node(), control->stopping());
  }
  if (counts_.gets_accepted != counts_.replies)
    text += fmt::format("{} GETs accepted, {} REPLYs\n", counts_.gets_accepted, counts_.replies);
  if (counts_.unregistered > 0) text += fmt::format("{} windows in unregistered memory\n", counts_.unregistered);
  if (counts_.stray_writes > 0) text += fmt::format("{} remote writes without a window\n", counts_.stray_writes);
  if (counts_.tx_submitted != counts_.tx_done) {
    text += fmt::format("{} Tx submitted, {} done\n", counts_.tx_submitted, counts_.tx_done);
  }
  if (counts_.slots_opened != counts_.slots_closed) {
    text += fmt::format("{} slots opened, {} closed\n", counts_.slots_opened, counts_.slots_closed);
  }
  return text;
}

}  // namespace ulnet::sim
