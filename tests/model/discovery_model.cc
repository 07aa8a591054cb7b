#include "tests/model/discovery_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "control/peers/peer_db.h"

namespace ulnet::model {
namespace {

bool is_request(const Flight& flight) {
  return flight.kind == Flight::Kind::kPing || flight.kind == Flight::Kind::kPush;
}
bool is_loss(const Flight& flight) {
  return flight.kind == Flight::Kind::kPingLost || flight.kind == Flight::Kind::kPushLost;
}
Flight lost(const Flight& flight) {
  const bool push = flight.kind == Flight::Kind::kPush || flight.kind == Flight::Kind::kAck;
  return {push ? Flight::Kind::kPushLost : Flight::Kind::kPingLost, flight.node, 0, flight.token, 0};
}

}  // namespace

// --- numbers ---------------------------------------------------------------------------------------------------------

uint32_t Model::number_of(NodeState state) {
  const auto [at, fresh] = nodes_.try_emplace(std::move(state), uint32_t(nodes_.size()));
  if (fresh) nodes_by_number_.push_back(&at->first);
  return at->second;
}

uint32_t Model::number_of(Body body) {
  const auto [at, fresh] = bodies_.try_emplace(std::move(body), uint32_t(bodies_.size()));
  if (fresh) bodies_by_number_.push_back(&at->first);
  return at->second;
}

size_t Model::AskedHash::operator()(const Asked& asked) const {
  uint64_t hash = uint64_t{asked.node_state} << 32 | asked.body;
  hash = (hash ^ hash >> 29) * 0xBF58476D1CE4E5B9ull;
  hash ^= uint64_t(asked.kind) << 24 | uint64_t{asked.token} << 16 | uint64_t{asked.from} << 8 | asked.to;
  return size_t((hash ^ hash >> 32) * 0x94D049BB133111EBull);
}

const Model::Answer& Model::ask(const Asked& asked) {
  const auto [at, fresh] = answers_.try_emplace(asked);
  if (!fresh) return at->second;
  const Happening happening{asked.kind, asked.token, asked.from, asked.to, bodies_by_number_[asked.body]->list};
  Outcome outcome = run(*nodes_by_number_[asked.node_state], happening, options_.mutant);
  Answer answer;
  for (Sent& sent : outcome.sent) {
    answer.pushes.push_back(!sent.list.nids.empty());
    answer.sent.emplace_back(sent.token,
                             number_of(Body{std::move(sent.from), std::move(sent.to), std::move(sent.list)}));
  }
  answer.renamed = std::move(outcome.renamed);
  answer.node_state = number_of(std::move(outcome.after));
  return at->second = std::move(answer);
}

// --- steps -----------------------------------------------------------------------------------------------------------

State Model::initial() {
  (void)number_of(Body{});  // number 0: a message of which nothing but its kind matters
  State state{uint8_t(options_.losses), uint8_t(options_.restarts), uint8_t(options_.changes), {}, {}};
  for (const ModelNode& node : options_.nodes) state.nodes.push_back(number_of(begin(node.nids)));
  return state;
}

bool Model::talks(size_t from, size_t to) const {
  const auto& with = options_.nodes[from].with;
  return from != to && (with.empty() || std::find(with.begin(), with.end(), to) != with.end());
}

int Model::owner_of(const State& state, NidNumber nid) const {
  for (size_t i = 0; i < state.nodes.size(); ++i)
    if (node(state, i).has(nid)) return int(i);
  return -1;
}

std::vector<Step> Model::steps(const State& state) const {
  std::vector<Step> all;
  const auto add = [&](Step::Kind kind, size_t which, size_t choice) {
    all.push_back({kind, uint8_t(which), uint8_t(choice)});
  };
  for (size_t i = 0; i < state.flights.size(); ++i) {
    const Flight& flight = state.flights[i];
    if (i > 0 && flight == state.flights[i - 1]) continue;
    const size_t rails = is_request(flight) ? body(flight).from.size() * body(flight).to.size() : 1;
    for (size_t c = 0; c < rails; ++c) add(Step::Kind::kDeliver, i, c);
    if (state.losses > 0 && !is_loss(flight)) add(Step::Kind::kLose, i, 0);
  }
  for (size_t i = 0; i < state.nodes.size(); ++i) {
    const NodeState& from = node(state, i);
    for (size_t j = 0; j < state.nodes.size(); ++j) {
      if (!talks(i, j)) continue;
      for (const NidNumber nid : node(state, j).own.nids) {
        const PeerState* peer = from.peer_of(nid);
        if (!from.waits(nid) && (peer == nullptr || !peer->up_to_date)) add(Step::Kind::kSend, i, nid);
      }
    }
    if (state.restarts > 0) add(Step::Kind::kRestart, i, 0);
    const NidNumber extra = options_.nodes[i].extra;
    if (state.changes == 0 || extra == 0) continue;
    const int owner = owner_of(state, extra);
    if (owner == -1 || owner == int(i)) add(Step::Kind::kChange, i, 0);
  }
  return all;
}

State Model::take(const State& before, const Step& step) {
  State state = before;
  switch (step.kind) {
    case Step::Kind::kSend: let(state, step.which, {.kind = Happening::Kind::kSend, .to = step.choice}); break;
    case Step::Kind::kDeliver:
      state.flights.erase(state.flights.begin() + step.which);
      deliver(state, before.flights[step.which], step.choice);
      break;
    case Step::Kind::kLose: lose(state, step.which); break;
    case Step::Kind::kRestart: restart(state, step.which); break;
    case Step::Kind::kChange:
      --state.changes;
      let(state, step.which, {.kind = Happening::Kind::kChange, .to = options_.nodes[step.which].extra});
      break;
  }
  // Nobody looks at the end of a message that its sender has forgotten.
  std::erase_if(state.flights, [](const Flight& one) { return one.token == kNoToken && !is_request(one); });
  std::sort(state.flights.begin(), state.flights.end());
  return state;
}

/// Something happens to one node.
void Model::let(State& state, size_t which, Asked asked) {
  asked.node_state = state.nodes[which];
  const Answer& answer = ask(asked);
  state.nodes[which] = answer.node_state;
  for (Flight& flight : state.flights)
    if (flight.node == which && flight.token != kNoToken) flight.token = answer.renamed[flight.token];
  for (size_t i = 0; i < answer.sent.size(); ++i)
    state.flights.push_back({answer.pushes[i] != 0 ? Flight::Kind::kPush : Flight::Kind::kPing, uint8_t(which), 0,
                             answer.sent[i].first, answer.sent[i].second});
}

void Model::deliver(State& state, const Flight& flight, size_t choice) {
  if (!is_request(flight)) return end(state, flight);
  const Body& rails = body(flight);
  arrive(state, flight, rails.from[choice / rails.to.size()], rails.to[choice % rails.to.size()]);
}

/// A request arrives at a NID. The node that has the NID now answers; if none has it, or only the sender, it is lost.
void Model::arrive(State& state, const Flight& flight, NidNumber from, NidNumber to) {
  const int owner = owner_of(state, to);
  if (owner == -1 || owner == int(flight.node)) {
    state.flights.push_back(lost(flight));
    return;
  }
  const bool push = flight.kind == Flight::Kind::kPush;
  Body answer{{to}, {from}, push ? NidList{} : node(state, size_t(owner)).own};
  state.flights.push_back({push ? Flight::Kind::kAck : Flight::Kind::kReply, flight.node, uint8_t(owner), flight.token,
                           number_of(std::move(answer))});
  let(state, size_t(owner),
      {.kind = push ? Happening::Kind::kPush : Happening::Kind::kPing, .from = from, .to = to, .body = flight.body});
}

/// The sender hears what became of its request.
void Model::end(State& state, const Flight& flight) {
  static constexpr Happening::Kind kKinds[] = {Happening::Kind::kPing,      Happening::Kind::kReply,
                                               Happening::Kind::kPush,      Happening::Kind::kAck,
                                               Happening::Kind::kPingFails, Happening::Kind::kPushFails};
  Asked asked{.kind = kKinds[size_t(flight.kind)], .token = flight.token, .body = flight.body};
  if (!is_loss(flight)) {
    asked.from = body(flight).from.front();
    asked.to = body(flight).to.front();
  }
  let(state, flight.node, asked);
}

void Model::lose(State& state, size_t which) const {
  --state.losses;
  Flight& flight = state.flights[which];
  flight = lost(flight);
  const bool push = flight.kind == Flight::Kind::kPushLost;
  const Mutant silent = push ? Mutant::kLostPushIsNotNoticed : Mutant::kLostPingIsNotNoticed;
  if (options_.mutant == silent) flight.token = kNoToken;
}

void Model::restart(State& state, size_t number) {
  --state.restarts;
  std::erase_if(state.flights, [&](const Flight& flight) { return flight.node == number; });
  for (Flight& flight : state.flights)
    if (!is_request(flight) && !is_loss(flight) && flight.sender == number) flight = lost(flight);
  state.nodes[number] = number_of(begin(options_.nodes[number].nids));
}

// --- what must be, and words -----------------------------------------------------------------------------------------

std::string Model::wrong_between(const State& state, size_t one, size_t other) const {
  const auto& nids = node(state, other).own.nids;
  const PeerState* peer = node(state, one).peer_of(nids.front());
  const bool right = peer != nullptr && peer->nids.front() == nids.front() && (peer->state & kPeerMultiRail) != 0 &&
                     peer->up_to_date &&
                     std::is_permutation(nids.begin(), nids.end(), peer->nids.begin(), peer->nids.end());
  return right ? "" : fmt::format("node {} does not know node {} as it is", one, other);
}

std::string Model::not_converged(const State& state) const {
  std::string wrong;
  for (size_t i = 0; i < state.nodes.size() && wrong.empty(); ++i) {
    if (node(state, i).waits()) return fmt::format("somebody waits on node {}", i);
    for (size_t j = 0; j < state.nodes.size() && wrong.empty(); ++j)
      if (talks(i, j)) wrong = wrong_between(state, i, j);
  }
  return wrong;
}

std::string Model::text_of(const Flight& flight) const {
  static constexpr const char* kNames[] = {"ping", "reply", "push", "ack", "failure of a ping", "failure of a push"};
  const Body& what = body(flight);
  std::string text = kNames[size_t(flight.kind)];
  if (is_loss(flight)) return text + fmt::format(" of node {}", flight.node);
  text += fmt::format(" {} > {}", fmt::join(what.from, ","), fmt::join(what.to, ","));
  if (!what.list.nids.empty())
    text += fmt::format(" sequence {}: {}", what.list.sequence, fmt::join(what.list.nids, ","));
  return text + (flight.token == kNoToken ? ", forgotten" : "");
}

std::string Model::text_of(const State& state, const Step& step) const {
  switch (step.kind) {
    case Step::Kind::kSend: return fmt::format("node {} wants to send to {}", step.which, step.choice);
    case Step::Kind::kDeliver: return fmt::format("arrives ({}): {}", step.choice, text_of(state.flights[step.which]));
    case Step::Kind::kLose: return "is lost: " + text_of(state.flights[step.which]);
    case Step::Kind::kRestart: return fmt::format("node {} begins anew", step.which);
    case Step::Kind::kChange: return fmt::format("node {} adds or deletes its other NID", step.which);
  }
  return "";
}

std::string Model::text_of(const State& state) const {
  std::string text;
  for (size_t i = 0; i < state.nodes.size(); ++i) text += fmt::format("node {} {}\n", i, node(state, i).text());
  for (const Flight& flight : state.flights) text += "  under way: " + text_of(flight) + "\n";
  return text;
}

}  // namespace ulnet::model
