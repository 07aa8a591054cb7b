#include "tests/model/discovery_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "dataplane/base/nid_text.h"

namespace ulnet::model {
namespace {

constexpr Instant kNow{1s};

Nid nid_of(int number) {
  return Nid::v4(Net::of(NetType::kTcp, 0), 0x0A000000u + uint32_t(number));
}
int number_of(const Nid& nid) {
  return nid.is_any() ? 0 : int(nid.address_v4() & 0xFF);
}

/// Starts and stops NIs that have nothing under them.
class NoDriver final : public LndControl {
 public:
  Result<void> ni_start(const NiParams&, Instant) override { return {}; }
  void ni_stop(NiId, Instant) override {}
  void from_worker(WorkerId, const LndMsg&, Instant) override {}
  unsigned turn(Instant) override { return 0; }
  Instant next_deadline() override { return kForever; }
  void wait_fds(std::vector<int>&) override {}
};

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
    case Mutant::kCount: break;
  }
  return "";
}

/// One node in one life.
class Side final : public DiscoveryPort {
 public:
  Side(Model& model, size_t number, const std::vector<int>& nids)
      : model_(model),
        number_(number),
        gates_{&gate_},
        mesh_(1, 16, gates_, &gate_),
        outbox_(mesh_),
        publisher_(mesh_) {
    LocalNis::Deps deps{mesh_, outbox_, publisher_, nullptr, {}, {}, {}};
    deps.lnd_types = {NetType::kTcp};
    deps.lnds = {&driver_};
    nis = std::make_unique<LocalNis>(std::move(deps));
    peers = std::make_unique<PeerDb>(PeerDb::Deps{*nis, 1, 64, {}, {}, {}, {}});
    machine = std::make_unique<Discovery>(MergeDeps{*peers, *nis, [](const std::string&) {}}, *this);
    for (const int nid : nids) ni_add(nid_of(nid));
    machine->set_sequence(nis->sequence());
  }

  void ni_add(const Nid& nid) {
    config::NiConfig config;
    config.nid = nid;
    ULNET_CHECK(nis->add(nid.net(), config, 16, NiDefaults{}, kNow).has_value());
  }
  void ni_del(const Nid& nid) {
    LocalNi& ni = *nis->find(nid);
    nis->remove(ni, kNow);
    nis->published();
    ControlItem item;
    while (mesh_.to_worker[0]->pop(item)) nis->drained(*static_cast<const NiSlice*>(item.object));
    nis->stopped(ni.id);
    while (nis->find(nid) != nullptr) (void)nis->turn(kNow, [] { return true; });
  }
  [[nodiscard]] std::vector<Nid> nids() const {
    std::vector<Nid> all;
    for (LocalNis::LocalNet& net : nis->nets())
      for (const LocalNi& ni : net.nis) all.push_back(ni.nid);
    return all;
  }
  [[nodiscard]] wire::PingInfo info() const {
    wire::PingInfo info;
    info.features =
        wire::kFeatureNiStatus | wire::kFeatureRteDisabled | wire::kFeatureMultiRail | wire::kFeatureDiscovery;
    info.sequence = nis->sequence();
    for (const Nid& nid : nids()) info.nis.push_back({nid, wire::kNiUp});
    return info;
  }
  [[nodiscard]] std::string key(const std::vector<Model::Flight>& flights) const;

  std::unique_ptr<LocalNis> nis;
  std::unique_ptr<PeerDb> peers;
  std::unique_ptr<Discovery> machine;
  std::set<uint64_t> waiting;

 private:
  /// All rails that may be chosen for a request.
  void send(Model::Kind kind, const Order& order) {
    Model::Flight flight{.kind = kind, .node = number_, .number = order.number};
    const PeerNi* ni = peers->find(order.target);
    const bool any = ni != nullptr && ni->peer->multi_rail() && !order.exactly && order.self.is_any();
    if (any) {
      for (const PeerNet& net : ni->peer->nets)
        for (const PeerNi* one : net.nis) flight.to.push_back(one->nid);
    } else {
      flight.to = {order.target};
    }
    flight.from = order.self.is_any() ? nids() : std::vector<Nid>{order.self};
    if (kind == Model::Kind::kPing) flight.from.resize(1);  // whom it comes from means nothing to who answers
    if (kind == Model::Kind::kPush) flight.info = info();
    model_.flights_.push_back(std::move(flight));
  }
  void send_ping(const Order& order) override { send(Model::Kind::kPing, order); }
  void send_push(const Order& order) override { send(Model::Kind::kPush, order); }
  void discovered(uint64_t waiter, int32_t) override { waiting.erase(waiter); }

  Model& model_;
  const size_t number_;
  NoDriver driver_;
  IdleGate gate_;
  IdleGate* gates_[1];
  Mesh mesh_;
  Outbox outbox_;
  Publisher publisher_;
};

// Peers by their primary NIDs, since their numbers tell only in which order they came.
std::string Side::key(const std::vector<Model::Flight>& flights) const {
  std::vector<std::string> all;
  const auto list = [](const wire::PingInfo& info) {
    std::string text = fmt::format("{}:", info.sequence);
    for (const auto& one : info.nis) text += fmt::format("{},", number_of(one.nid));
    return text;
  };
  for (const auto& [id, peer] : peers->peers()) {
    std::string text;
    for (const PeerNet& net : peer->nets)
      for (const PeerNi* ni : net.nis) text += fmt::format("{},", number_of(ni->nid));
    const PeerDiscovery& d = peer->discovery;
    const uint32_t tried = d.failures == 0 ? 0 : (d.failures - 1) % uint32_t(peer->ni_count()) + 1;
    text += fmt::format("s{:x}u{}n{}p{}q{}f{}b{}m{}h{}t{}w{}g{}/{}x{}", peer->state, int(peer->up_to_date),
                        d.node_seqno, d.peer_seqno, d.push != 0 ? d.push_seqno : 0, tried, d.bad_replies,
                        int(d.pushed_meanwhile), number_of(d.heard_from), number_of(d.told_via), int(d.held_back),
                        number_of(d.push_src), number_of(d.push_dst), d.doubted);
    if (d.data != nullptr) text += "D" + list(*d.data);
    std::vector<std::string> mine;
    for (const Model::Flight& flight : flights) {
      if (flight.node != number_ || uint32_t(flight.number >> 32) != id) continue;
      const bool current = flight.number == d.ping || flight.number == d.push;
      mine.push_back(model_.text_of(flight) + (current ? "" : "!"));
    }
    std::sort(mine.begin(), mine.end());
    for (const auto& one : mine) text += "[" + one + "]";
    all.push_back(std::move(text));
  }
  std::sort(all.begin(), all.end());
  std::string key = list(info()) + "W";
  for (const uint64_t waiter : waiting) key += fmt::format("{},", waiter);
  for (const auto& one : all) key += "|" + one;
  return key;
}

// --- the model -------------------------------------------------------------------------------------------------------

Model::Model(const ModelOptions& options)
    : options_(options), losses_(options.losses), restarts_(options.restarts), changes_(options.changes) {
  for (size_t i = 0; i < options.nodes.size(); ++i)
    nodes_.push_back(std::make_unique<Side>(*this, i, options.nodes[i].nids));
}

Model::~Model() = default;

bool Model::talks(size_t from, size_t to) const {
  const auto& with = options_.nodes[from].with;
  return from != to && (with.empty() || std::find(with.begin(), with.end(), to) != with.end());
}

int Model::owner_of(const Nid& nid) const {
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i]->nis->find(nid) != nullptr) return int(i);
  return -1;
}

std::string Model::text_of(const Flight& flight) const {
  static constexpr const char* kNames[] = {"ping", "reply", "push", "ack", "failure"};
  std::string text = kNames[size_t(flight.kind)];
  if (flight.kind == Kind::kFailure) text += flight.push ? " of a push" : " of a ping";
  for (const Nid& nid : flight.from) text += fmt::format(" {}", number_of(nid));
  text += " >";
  for (const Nid& nid : flight.to) text += fmt::format(" {}", number_of(nid));
  if (!flight.info.nis.empty()) {
    text += fmt::format(" seq {}:", flight.info.sequence);
    for (const auto& one : flight.info.nis) text += fmt::format(" {}", number_of(one.nid));
  }
  return text;
}

std::string Model::text_of(const Step& step) const {
  switch (step.kind) {
    case Step::Kind::kSend: return fmt::format("node {} wants to send, choice {}", step.which, step.choice);
    case Step::Kind::kDeliver: return fmt::format("arrives ({}): {}", step.choice, text_of(flights_[step.which]));
    case Step::Kind::kLose: return "is lost: " + text_of(flights_[step.which]);
    case Step::Kind::kRestart: return fmt::format("node {} begins anew", step.which);
    case Step::Kind::kChange: return fmt::format("node {} adds or deletes its other NID", step.which);
  }
  return "";
}

std::vector<Step> Model::steps() const {
  std::vector<Step> all;
  const auto add = [&](Step::Kind kind, size_t which, size_t choice) {
    all.push_back({kind, uint8_t(which), uint8_t(choice)});
  };
  for (size_t i = 0; i < flights_.size(); ++i) {
    const Flight& flight = flights_[i];
    const bool request = flight.kind == Kind::kPing || flight.kind == Kind::kPush;
    for (size_t c = 0; c < (request ? flight.from.size() * flight.to.size() : 1); ++c) add(Step::Kind::kDeliver, i, c);
    if (losses_ > 0 && flight.kind != Kind::kFailure) add(Step::Kind::kLose, i, 0);
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    size_t choice = 0;
    for (size_t j = 0; j < nodes_.size(); ++j) {
      if (!talks(i, j)) continue;
      for (const Nid& nid : nodes_[j]->nids()) {
        const PeerNi* ni = nodes_[i]->peers->find(nid);
        const bool waits = nodes_[i]->waiting.contains(uint64_t(number_of(nid)));
        if (!waits && (ni == nullptr || !ni->peer->up_to_date)) add(Step::Kind::kSend, i, choice);
        ++choice;
      }
    }
    if (restarts_ > 0) add(Step::Kind::kRestart, i, 0);
    const int extra = options_.nodes[i].extra;
    if (changes_ == 0 || extra == 0) continue;
    const int owner = owner_of(nid_of(extra));
    if (owner == -1 || owner == int(i)) add(Step::Kind::kChange, i, 0);
  }
  return all;
}

void Model::take(const Step& step) {
  switch (step.kind) {
    case Step::Kind::kSend: {
      Side& node = *nodes_[step.which];
      size_t choice = 0;
      for (size_t j = 0; j < nodes_.size(); ++j) {
        if (!talks(step.which, j)) continue;
        for (const Nid& nid : nodes_[j]->nids())
          if (choice++ == step.choice) {
            node.waiting.insert(uint64_t(number_of(nid)));
            node.machine->discover(**node.peers->find_or_create(nid, kAnyNid), uint64_t(number_of(nid)), false);
          }
      }
      break;
    }
    case Step::Kind::kDeliver: deliver(step.which, step.choice); break;
    case Step::Kind::kLose: lose(step.which); break;
    case Step::Kind::kRestart: restart(step.which); break;
    case Step::Kind::kChange: change(step.which); break;
  }
  settle();
}

void Model::settle() {
  for (auto& node : nodes_)
    while (node->machine->pending()) (void)node->machine->turn();
}

void Model::deliver(size_t which, size_t choice) {
  const Flight flight = flights_[which];
  flights_.erase(flights_.begin() + std::ptrdiff_t(which));
  switch (flight.kind) {
    case Kind::kPing:
    case Kind::kPush:
      return arrive(flight, flight.from[choice / flight.to.size()], flight.to[choice % flight.to.size()]);
    case Kind::kReply:
    case Kind::kAck:
    case Kind::kFailure: return end(flight);
  }
}

/// A request comes to a NID: whoever has it now answers; its driver makes a peer of who connected.
void Model::arrive(const Flight& flight, const Nid& from, const Nid& to) {
  const int owner = owner_of(to);
  Flight answer = flight;
  answer.from = {to};
  answer.to = {from};
  if (owner == -1 || owner == int(flight.node)) {
    answer.kind = Kind::kFailure;
    answer.push = flight.kind == Kind::kPush;
    answer.from = answer.to = {};
    answer.info = {};
  } else {
    Side& node = *nodes_[size_t(owner)];
    if (owner_of(from) != owner) (void)node.peers->find_or_create(from, to);
    if (flight.kind == Kind::kPush) {
      PingData data;
      data.decode.info = flight.info;
      data.from = from;
      data.to = to;
      const PeerNi* ni = node.peers->find(from);
      const bool old = ni != nullptr && flight.info.sequence < ni->peer->discovery.peer_seqno;
      if (options_.mutant != Mutant::kOldPushIsIgnored || !old) node.machine->push_came(std::move(data));
      if (options_.mutant == Mutant::kCrossedReplyIsBelieved && ni != nullptr)
        node.peers->find(from)->peer->discovery.pushed_meanwhile = false;
      answer.info = {};
    } else {
      answer.info = node.info();
    }
    answer.kind = flight.kind == Kind::kPush ? Kind::kAck : Kind::kReply;
    answer.sender = size_t(owner);
  }
  flights_.push_back(std::move(answer));
}

/// The sender hears what became of its request.
void Model::end(const Flight& flight) {
  Side& node = *nodes_[flight.node];
  const Peer* peer = node.peers->find_peer(uint32_t(flight.number >> 32));
  const Nid primary = peer == nullptr ? kAnyNid : peer->primary().nid;
  if (flight.kind == Kind::kFailure) {
    if (!flight.push) return node.machine->ping_failed(flight.number, -ETIMEDOUT);
    return options_.mutant == Mutant::kFailedPushCounts ? node.machine->push_ended(flight.number, 0, primary)
                                                        : node.machine->push_ended(flight.number, -ETIMEDOUT, kAnyNid);
  }
  const Nid by = flight.from.front();
  if (flight.kind == Kind::kAck) return node.machine->push_ended(flight.number, 0, by);
  PingData data;
  data.decode.info = flight.info;
  data.from = by;
  data.to = flight.to.front();
  node.machine->ping_answered(flight.number, std::move(data));
}

void Model::lose(size_t which) {
  --losses_;
  Flight& flight = flights_[which];
  const bool push = flight.kind == Kind::kPush || flight.kind == Kind::kAck;
  const Mutant silent = push ? Mutant::kLostPushIsNotNoticed : Mutant::kLostPingIsNotNoticed;
  if (options_.mutant == silent) {
    flights_.erase(flights_.begin() + std::ptrdiff_t(which));
    return;
  }
  flight = {.kind = Kind::kFailure, .node = flight.node, .number = flight.number, .push = push};
}

void Model::restart(size_t number) {
  --restarts_;
  std::erase_if(flights_, [&](const Flight& flight) { return flight.node == number; });
  for (Flight& flight : flights_)
    if ((flight.kind == Kind::kReply || flight.kind == Kind::kAck) && flight.sender == number)
      flight = {
          .kind = Kind::kFailure, .node = flight.node, .number = flight.number, .push = flight.kind == Kind::kAck};
  nodes_[number].reset();
  nodes_[number] = std::make_unique<Side>(*this, number, options_.nodes[number].nids);
}

void Model::change(size_t number) {
  --changes_;
  Side& node = *nodes_[number];
  const Nid nid = nid_of(options_.nodes[number].extra);
  if (node.nis->find(nid) != nullptr)
    node.ni_del(nid);
  else
    node.ni_add(nid);
  node.peers->nis_changed();
  if (options_.mutant != Mutant::kSequenceStays) node.machine->set_sequence(node.nis->sequence());
}

std::string Model::key() const {
  std::string key = fmt::format("{}.{}.{};", losses_, restarts_, changes_);
  for (const auto& node : nodes_) key += node->key(flights_) + ";";
  std::vector<std::string> others;  // that belong to no peer any more
  for (const Flight& flight : flights_)
    if (nodes_[flight.node]->peers->find_peer(uint32_t(flight.number >> 32)) == nullptr)
      others.push_back(fmt::format("{} {}", flight.node, text_of(flight)));
  std::sort(others.begin(), others.end());
  for (const auto& one : others) key += one + ";";
  return key;
}

std::string Model::not_converged() const {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i]->waiting.empty()) return fmt::format("somebody waits on node {}", i);
    for (size_t j = 0; j < nodes_.size(); ++j) {
      if (!talks(i, j)) continue;
      const auto nids = nodes_[j]->nids();
      const PeerNi* ni = nodes_[i]->peers->find(nids.front());
      const bool right = ni != nullptr && &ni->peer->primary() == ni && ni->peer->multi_rail() &&
                         ni->peer->up_to_date && ni->peer->ni_count() == nids.size() &&
                         std::all_of(nids.begin(), nids.end(), [&](const Nid& nid) {
                           const PeerNi* one = nodes_[i]->peers->find(nid);
                           return one != nullptr && one->peer == ni->peer;
                         });
      if (!right) return fmt::format("node {} does not know node {} as it is", i, j);
    }
  }
  return "";
}

}  // namespace ulnet::model
