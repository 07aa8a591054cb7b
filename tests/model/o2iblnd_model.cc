// See o2iblnd_model.h. A mutant changes what is passed to the class Credits, never the class itself.
#include "tests/model/o2iblnd_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "dataplane/base/check.h"

namespace ulnet::model {
namespace {

using o2iblnd::MessageType;
using o2iblnd::NextSend;

constexpr uint8_t kFirst = uint8_t(MessageType::kNoop);
constexpr uint8_t code_of(MessageType type) {
  return uint8_t(uint8_t(type) - kFirst);
}
constexpr MessageType type_of(uint8_t code) {
  return MessageType(code + kFirst);
}
constexpr uint8_t kNoop = code_of(MessageType::kNoop), kImmediate = code_of(MessageType::kImmediate),
                  kPutReq = code_of(MessageType::kPutReq), kPutNak = code_of(MessageType::kPutNak),
                  kPutAck = code_of(MessageType::kPutAck), kPutDone = code_of(MessageType::kPutDone),
                  kGetReq = code_of(MessageType::kGetReq), kGetDone = code_of(MessageType::kGetDone);
static_assert(kGetDone < 8);

// A flight is a type and the credits that it carries.
constexpr uint8_t flight_of(uint8_t type, unsigned carried) {
  return uint8_t(carried << 3 | type);
}
constexpr uint8_t flight_type(uint8_t flight) {
  return flight & 7;
}
constexpr unsigned flight_carries(uint8_t flight) {
  return flight >> 3;
}

unsigned held_count(const CreditModel::Side& side) {
  return std::accumulate(side.held.begin(), side.held.end(), 0u);
}

template <class Test>
unsigned count_if(const CreditModel::Queue& queue, Test test) {
  return unsigned(std::count_if(queue.items.begin(), queue.items.begin() + queue.count, test));
}

}  // namespace

const char* name_of(CreditMutant mutant) {
  static constexpr const char* kNames[] = {"none",
                                           "put_ack_returns_credit",
                                           "nak_returns_no_credit",
                                           "put_done_returns_no_credit",
                                           "reserved_stays",
                                           "nothing_is_reserved",
                                           "owed_stays",
                                           "high_water_is_depth",
                                           "waiting_head_carries",
                                           "one_queue",
                                           "keepalive_any_time",
                                           "keepalive_is_forgotten",
                                           "repost_comes_last",
                                           "one_buffer_less",
                                           "credits_survive_break"};
  static_assert(std::size(kNames) == size_t(CreditMutant::kCount));
  return kNames[size_t(mutant)];
}

void CreditModel::Queue::push(uint8_t item) {
  ULNET_CHECK(count < items.size());
  items[count++] = item;
}

uint8_t CreditModel::Queue::pop() {
  ULNET_CHECK(count > 0);
  const uint8_t item = items[0];
  std::copy(items.begin() + 1, items.begin() + count, items.begin());
  --count;
  return item;
}

// --- steps -----------------------------------------------------------------------------------------------------------

CreditModel::State CreditModel::initial() const {
  State state;
  state.breaks = uint8_t(options_.breaks);
  for (size_t i = 0; i < state.sides.size(); ++i) {
    state.sides[i].credits = fresh_credits();
    state.sides[i].operations = uint8_t(options_.sides[i].operations);
    state.sides[i].keepalives = uint8_t(options_.sides[i].keepalives);
  }
  return state;
}

NextSend CreditModel::next_of(const Side& side) const {
  const o2iblnd::Waiting waiting{!side.responses.empty(), side.head != 0, type_of(side.head)};
  const bool head_waits = side.head != 0 && !side.credits.may_send(type_of(side.head));
  const unsigned owed = side.credits.owed();
  if (is(CreditMutant::kOneQueue) && head_waits) return side.credits.next({});
  const NextSend next = side.credits.next(waiting);
  if (is(CreditMutant::kWaitingHeadCarries) && next == NextSend::kNoop && head_waits) return NextSend::kNothing;
  if (is(CreditMutant::kHighWaterIsDepth) && next == NextSend::kNoop && owed < options_.depth)
    return NextSend::kNothing;
  if (is(CreditMutant::kKeepaliveIsForgotten) && next == NextSend::kNothing && owed >= options_.high_water)
    return NextSend::kNoop;
  return next;
}

bool CreditModel::may_keepalive(const Side& side) const {
  const bool unprocessed = count_if(side.flights, [](uint8_t flight) { return flight_type(flight) == kNoop; }) != 0;
  return side.keepalives > 0 && (!unprocessed || is(CreditMutant::kKeepaliveAnyTime));
}

void CreditModel::add_arrivals(const State& state, uint8_t side, std::vector<Step>& all) const {
  const Side& here = state.sides[side];
  const auto add = [&](Step::Kind kind, uint8_t type, Choice choice, bool relied_on = true) {
    all.push_back({kind, side, type, choice, relied_on});
  };
  const auto add_choices = [&](Step::Kind kind, uint8_t type, bool relied_on) {
    add(kind, type, kNow, relied_on);
    if (type == kPutReq) add(kind, type, kRefuse, relied_on);
    const CreditSide& may = options_.sides[side];
    const bool late = (may.late && type == kGetReq) || (is(CreditMutant::kRepostComesLast) && type != kImmediate);
    if (late && here.late.empty()) add(kind, type, kLateRepost, relied_on);
    if (may.early && type == kGetReq) add(kind, type, kLateResponse, relied_on);
  };
  if (const Queue& flights = state.sides[1 - side].flights; !flights.empty()) {
    const uint8_t type = flight_type(flights.items[0]);
    add_choices(Step::Kind::kDeliver, type, true);
    if (o2iblnd::uses_credit(type_of(type)) && held_count(here) < options_.sides[side].holds)
      add(Step::Kind::kDeliver, type, kHold);
  }
  for (const uint8_t type : {kImmediate, kPutReq, kGetReq})
    if (here.held[type] > 0) add_choices(Step::Kind::kRelease, type, !options_.held_forever);
  if (!here.late.empty()) add(Step::Kind::kRepost, 0, kNow);
  if (here.answering > 0) add(Step::Kind::kAnswer, 0, kNow);
}

std::vector<CreditModel::Step> CreditModel::steps(const State& state) const {
  std::vector<Step> all;
  if (*state.wrong != 0) return all;
  for (const uint8_t side : {uint8_t{0}, uint8_t{1}}) {
    const Side& here = state.sides[side];
    if (next_of(here) != NextSend::kNothing) all.push_back({Step::Kind::kSend, side});
    for (const char kind : options_.sides[side].kinds)
      if (here.operations > 0 && here.head == 0) {
        const uint8_t type = kind == 'i' ? kImmediate : kind == 'p' ? kPutReq : kGetReq;
        all.push_back({Step::Kind::kBegin, side, type, kNow, false});
      }
    if (may_keepalive(here)) all.push_back({Step::Kind::kKeepalive, side, 0, kNow, false});
  }
  // Last: a search in depth first meets the states in which much is under way.
  for (const uint8_t side : {uint8_t{0}, uint8_t{1}}) add_arrivals(state, side, all);
  if (state.breaks > 0) all.push_back({Step::Kind::kBreak, 0, 0, kNow, false});
  return all;
}

CreditModel::State CreditModel::take(State state, const Step& step) const {
  Side& here = state.sides[step.side];
  switch (step.kind) {
    case Step::Kind::kDeliver: deliver(state, step.side, Choice(step.choice)); break;
    case Step::Kind::kRelease:
      --here.held[step.type];
      process(state, step.side, step.type, Choice(step.choice));
      break;
    case Step::Kind::kRepost: repost(state, step.side, here.late.pop(), false); break;
    case Step::Kind::kAnswer:
      --here.answering;
      here.responses.push(kGetDone);
      break;
    case Step::Kind::kBegin:
      --here.operations;
      here.head = step.type;
      break;
    case Step::Kind::kKeepalive:
      --here.keepalives;
      send(state, step.side, kNoop);
      break;
    case Step::Kind::kBreak: break_connection(state); break;
    case Step::Kind::kSend: {
      const NextSend next = next_of(here);
      const uint8_t type = next == NextSend::kCreditFree ? here.responses.pop()
                           : next == NextSend::kCredited ? std::exchange(here.head, uint8_t{0})
                                                         : kNoop;
      send(state, step.side, type);
      break;
    }
  }
  return state;
}

void CreditModel::send(State& state, uint8_t side, uint8_t type) const {
  Side& here = state.sides[side];
  // An IMMEDIATE uses a credit as a request does, and reserves nothing.
  const bool unreserved = is(CreditMutant::kNothingIsReserved) && (type == kPutReq || type == kGetReq);
  const unsigned carried = here.credits.send(type_of(unreserved ? kImmediate : type));
  if (type == kNoop) here.credits.noop_completed();
  if (is(CreditMutant::kOwedStays))
    for (unsigned i = 0; i < carried; ++i) (void)here.credits.repost(MessageType::kImmediate);
  here.flights.push(flight_of(type, carried));
}

void CreditModel::deliver(State& state, uint8_t side, Choice choice) const {
  Side& here = state.sides[side];
  const uint8_t flight = state.sides[1 - side].flights.pop(), type = flight_type(flight);
  // A NOOP brings credits as a response does, and ends no reservation.
  const bool stays = is(CreditMutant::kReservedStays) || is(CreditMutant::kNothingIsReserved);
  if (!here.credits.receive(type_of(stays ? kNoop : type), uint8_t(flight_carries(flight))))
    state.wrong = "more credits come back than were used";
  if (choice == kHold)
    ++here.held[type];
  else
    process(state, side, type, choice);
}

/// The message has its effect, and its buffer is posted again, or later.
void CreditModel::process(State& state, uint8_t side, uint8_t type, Choice choice) const {
  Side& here = state.sides[side];
  const bool refused = choice == kRefuse;
  if (type == kPutReq) {
    here.responses.push(refused ? kPutNak : kPutAck);
    here.accepted = uint8_t(here.accepted + !refused);
  }
  if (type == kGetReq) {
    if (choice == kLateResponse)
      ++here.answering;
    else
      here.responses.push(kGetDone);
  }
  if (type == kPutAck) here.responses.push(kPutDone);
  if (type == kPutDone) --here.accepted;
  if (choice == kLateRepost)
    here.late.push(type);
  else
    repost(state, side, type, refused);
}

void CreditModel::repost(State& state, uint8_t side, uint8_t type, bool refused) const {
  if (is(CreditMutant::kPutAckReturnsCredit) && type == kPutReq) refused = true;
  if (is(CreditMutant::kPutAckReturnsCredit) && type == kPutDone) return;
  if (is(CreditMutant::kPutDoneReturnsNoCredit) && type == kPutDone) return;
  if (is(CreditMutant::kNakReturnsNoCredit)) refused = false;
  if (!state.sides[side].credits.repost(type_of(type), refused)) state.wrong = "more credits are owed than there are";
}

/// The next connection has new queue pairs, so no message survives. Requests that have not left stay.
void CreditModel::break_connection(State& state) const {
  --state.breaks;
  for (Side& side : state.sides) {
    const unsigned owed = side.credits.owed();
    Side next;
    next.credits = fresh_credits();
    next.operations = side.operations;
    next.keepalives = side.keepalives;
    next.head = side.head;
    if (is(CreditMutant::kCreditsSurviveBreak))
      for (unsigned i = 0; i < owed; ++i) (void)next.credits.repost(MessageType::kImmediate);
    side = next;
  }
}

Mark CreditModel::mark_of(const Side& side) {
  Marker marker;
  const auto add_queue = [&](const Queue& queue) {
    uint64_t word = queue.count;
    for (unsigned i = 0; i < queue.count; ++i) {
      word = word << 8 | queue.items[i];
      if (i % 7 == 6) marker.add(std::exchange(word, uint64_t{1}));
    }
    marker.add(word);
  };
  const o2iblnd::Credits& credits = side.credits;
  marker.add(uint64_t{credits.credits()} << 32 | uint64_t{credits.reserved()} << 24 | uint64_t{credits.owed()} << 16 |
             uint64_t{credits.keepalive_last()} << 8 | side.head);
  marker.add(uint64_t{side.operations} << 32 | uint64_t{side.keepalives} << 24 | uint64_t{side.accepted} << 16 |
             uint64_t{side.held[kImmediate]} << 8 | uint64_t{side.held[kPutReq]} << 4 | side.held[kGetReq]);
  add_queue(side.responses);
  add_queue(side.flights);
  add_queue(side.late);
  marker.add(side.answering);
  return marker.mark();
}

// --- what must be, and words -----------------------------------------------------------------------------------------

/// Each credit of a side is free, on its way back, owed by the peer, or used by a request that is not done.
std::string CreditModel::lost_credits(const State& state, uint8_t side) const {
  const Side &here = state.sides[side], &there = state.sides[1 - side];
  unsigned sum = here.credits.credits() + there.credits.owed() + held_count(there) + there.accepted;
  sum += count_if(here.flights, [](uint8_t flight) { return o2iblnd::uses_credit(type_of(flight_type(flight))); });
  sum += count_if(there.late, [](uint8_t type) { return type == kGetReq; });
  for (unsigned i = 0; i < there.flights.count; ++i) sum += flight_carries(there.flights.items[i]);
  return sum == options_.depth ? "" : fmt::format("side {} has {} credits in all", side, sum);
}

std::string CreditModel::wrong_in(const State& state) {
  if (*state.wrong != 0) return state.wrong;
  const unsigned buffers = o2iblnd::receive_buffers_of(options_.depth) - unsigned{is(CreditMutant::kOneBufferLess)};
  for (const uint8_t side : {uint8_t{0}, uint8_t{1}}) {
    const Side& here = state.sides[side];
    const unsigned used = state.sides[1 - side].flights.count + held_count(here) + here.late.count;
    buffers_used_ = std::max(buffers_used_, used);
    if (used > buffers) return fmt::format("{} messages for {} buffers of side {}", used, buffers, side);
    if (is(CreditMutant::kNone))
      if (std::string lost = lost_credits(state, side); !lost.empty()) return lost;
  }
  return "";
}

std::string CreditModel::not_converged(const State& state) const {
  for (const uint8_t side : {uint8_t{0}, uint8_t{1}}) {
    const Side& here = state.sides[side];
    const bool waits = here.head != 0 || !here.responses.empty() || !here.flights.empty() || here.accepted > 0 ||
                       here.answering > 0 || !here.late.empty();
    if (waits) return fmt::format("deadlock: work of side {} waits", side);
    if (!options_.held_forever && held_count(here) > 0) return fmt::format("side {} holds a request", side);
  }
  return "";
}

std::string CreditModel::text_of(const State& state) const {
  std::string text;
  for (const Side& side : state.sides) {
    text += fmt::format(
        "credits {}, reserved {}, owed {}, head {}, {} held, {} accepted, {} late; waiting:", side.credits.credits(),
        side.credits.reserved(), side.credits.owed(), side.head == 0 ? "-" : message_type_text(type_of(side.head)),
        held_count(side), side.accepted, side.late.count);
    for (unsigned i = 0; i < side.responses.count; ++i)
      text += fmt::format(" {}", message_type_text(type_of(side.responses.items[i])));
    text += "; under way:";
    for (unsigned i = 0; i < side.flights.count; ++i)
      text += fmt::format(" {}+{}", message_type_text(type_of(flight_type(side.flights.items[i]))),
                          flight_carries(side.flights.items[i]));
    text += fmt::format("; {} answers to come\n", side.answering);
  }
  return text;
}

std::string CreditModel::text_of(const State& state, const Step& step) const {
  static constexpr const char* kKinds[] = {"receives", "sends",         "posts a late buffer", "has an answer",
                                           "releases", "wants to send", "sends a keepalive",   "breaks"};
  static constexpr const char* kChoices[] = {"", ", refused", ", held", ", buffer late", ", answer late"};
  std::string text = fmt::format("side {} {}", step.side, kKinds[size_t(step.kind)]);
  if (step.kind == Step::Kind::kSend) {
    const Side& here = state.sides[step.side];
    const NextSend next = next_of(here);
    const uint8_t type = next == NextSend::kCreditFree ? here.responses.items[0]
                         : next == NextSend::kCredited ? here.head
                                                       : kNoop;
    return text + fmt::format(" {}", message_type_text(type_of(type)));
  }
  if (step.type != 0 || step.kind == Step::Kind::kDeliver)
    text += fmt::format(" {}", message_type_text(type_of(step.type)));
  return text + kChoices[step.choice];
}

}  // namespace ulnet::model
