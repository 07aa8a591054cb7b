// The discovery protocol between two or three nodes as a space of states. Each node is the real machine with its real
// peer table (node_model.h). The network is a set of messages; any of them may come next or be lost. Nodes may restart
// or change their NIDs. The search chooses the steps (search.h); there is no clock, no randomness, and no driver. The
// effects of traffic (the choice of a rail, a peer entry for a node that connects) have their largest freedom. Each
// possible rail is a separate step. The model has one assumption: messages that a node sends before it restarts arrive
// before the restart, or not at all. The reason is that the restart ends the node's connections. A state is a small
// value. The real machine computes each step of each state of one node once; later steps use the stored result. Single
// nodes have far fewer states than the whole model.
#pragma once
#include <compare>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/model/node_model.h"

namespace ulnet::model {

/// A node; the first NID is the primary.
struct ModelNode {
  std::vector<NidNumber> nids;
  NidNumber extra = 0;       ///< a NID that it may add and delete, as long as no other node has it; 0 = none
  std::vector<size_t> with;  ///< the nodes that it sends to; empty = all others
};
struct ModelOptions {
  std::vector<ModelNode> nodes;
  unsigned losses = 0;    ///< messages that may be lost, in all
  unsigned restarts = 0;  ///< how often a node may restart
  unsigned changes = 0;   ///< how often a node may add or delete its extra NID
  Mutant mutant = Mutant::kNone;
};

/// One step. Faults are the steps that use up a budget: kLose, kRestart, kChange.
struct Step {
  enum class Kind : uint8_t { kSend, kDeliver, kLose, kRestart, kChange } kind = Kind::kSend;
  uint8_t which = 0;   ///< node, or message
  uint8_t choice = 0;  ///< of kSend: to which NID; of kDeliver: which rail
  [[nodiscard]] bool fault() const { return kind >= Kind::kLose; }
};

/// A message, or the end of a lost one: its sender gets the failure at any later step.
struct Flight {
  enum class Kind : uint8_t { kPing, kReply, kPush, kAck, kPingLost, kPushLost } kind = Kind::kPing;
  uint8_t node = 0;    ///< sender of the ping or push
  uint8_t sender = 0;  ///< of kReply and kAck: the node that answers
  Token token = kNoToken;
  uint32_t body = 0;  ///< Model's number of rails and list
  auto operator<=>(const Flight&) const = default;
};

/// All data that the future depends on. States that differ in names only are equal.
struct State {
  uint8_t losses = 0, restarts = 0, changes = 0;  ///< budgets that are left
  std::vector<uint32_t> nodes;                    ///< Model's numbers of their states
  std::vector<Flight> flights;                    ///< sorted
  bool operator==(const State&) const = default;
};

class Model {
 public:
  explicit Model(const ModelOptions& options) : options_(options) {}
  Model(const Model&) = delete;

  [[nodiscard]] State initial();
  /// Possible steps. kSend: for each NID of another node for which the sender would have to wait.
  [[nodiscard]] std::vector<Step> steps(const State& state) const;
  [[nodiscard]] State take(const State& state, const Step& step);
  /// A step from this state in words.
  [[nodiscard]] std::string text_of(const State& state, const Step& step) const;
  [[nodiscard]] std::string text_of(const State& state) const;
  /// "" if each node has the true NIDs of each other node and no send waits, else the first difference.
  [[nodiscard]] std::string not_converged(const State& state) const;
  /// No state is wrong in itself.
  [[nodiscard]] std::string wrong_in(const State&) const { return ""; }
  template <class Add>
  void hash(const State& state, Add add) const {
    add(uint64_t{state.losses} << 16 | uint64_t{state.restarts} << 8 | state.changes);
    for (const uint32_t node : state.nodes) add(node);
    for (const Flight& one : state.flights) {
      add(uint64_t(one.kind) << 24 | uint64_t{one.node} << 16 | uint64_t{one.sender} << 8 | one.token);
      add(one.body);
    }
  }
  /// States of single nodes that were met.
  [[nodiscard]] size_t node_states() const { return nodes_.size(); }

 private:
  /// Rails that a message may take, and the list that it carries.
  struct Body {
    std::vector<NidNumber> from, to;
    NidList list;
    auto operator<=>(const Body&) const = default;
  };
  /// A step of one node, by numbers.
  struct Asked {
    uint32_t node_state = 0;
    Happening::Kind kind{};
    Token token = kNoToken;
    NidNumber from = 0, to = 0;
    uint32_t body = 0;  ///< has the list
    bool operator==(const Asked&) const = default;
  };
  struct AskedHash {
    size_t operator()(const Asked& asked) const;
  };
  struct Answer {
    uint32_t node_state = 0;
    std::vector<std::pair<Token, uint32_t>> sent;  ///< with the bodies
    std::vector<uint8_t> pushes;                   ///< which of them are
    std::vector<Token> renamed;
  };
  [[nodiscard]] uint32_t number_of(NodeState state);
  [[nodiscard]] uint32_t number_of(Body body);
  [[nodiscard]] const NodeState& node(const State& state, size_t which) const {
    return *nodes_by_number_[state.nodes[which]];
  }
  [[nodiscard]] const Body& body(const Flight& flight) const { return *bodies_by_number_[flight.body]; }
  [[nodiscard]] const Answer& ask(const Asked& asked);
  [[nodiscard]] std::string text_of(const Flight& flight) const;
  [[nodiscard]] int owner_of(const State& state, NidNumber nid) const;
  [[nodiscard]] bool talks(size_t from, size_t to) const;
  [[nodiscard]] std::string wrong_between(const State& state, size_t one, size_t other) const;
  void let(State& state, size_t node, Asked asked);
  void deliver(State& state, const Flight& flight, size_t choice);
  void arrive(State& state, const Flight& flight, NidNumber from, NidNumber to);
  void end(State& state, const Flight& flight);
  void lose(State& state, size_t which) const;
  void restart(State& state, size_t node);

  const ModelOptions options_;
  std::map<NodeState, uint32_t> nodes_;
  std::vector<const NodeState*> nodes_by_number_;
  std::map<Body, uint32_t> bodies_;
  std::vector<const Body*> bodies_by_number_;
  std::unordered_map<Asked, Answer, AskedHash> answers_;
};

}  // namespace ulnet::model
