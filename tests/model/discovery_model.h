// The discovery protocol between two or three nodes as a space of states: each node is the real machine with its real
// peer table (control/discovery, control/peers), the network is a set of messages of which any may come next or be
// lost, and nodes may begin anew or change their NIDs. Steps are chosen from outside (search.h); there is no clock, no
// randomness, and no driver. What traffic would do - the choice of a rail, a peer entry for whoever connects - is taken
// in its largest freedom: every rail that may be chosen is a step of its own. One thing is taken for granted: what a
// node sent before it began anew arrives before that, or not at all, since its connections ended with it.
#pragma once
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "control/discovery/discovery.h"

namespace ulnet::model {

/// Faults that are planted into the protocol. The search has to find each of them.
enum class Mutant : uint8_t {
  kNone,
  kLostPingIsNotNoticed,    ///< no time-out of a ping
  kLostPushIsNotNoticed,    ///< no time-out of a push
  kOldPushIsIgnored,        ///< one with a lower sequence than what is known: a node that began anew is not believed
  kCrossedReplyIsBelieved,  ///< a reply older than a push that came meanwhile
  kFailedPushCounts,        ///< a push that failed counts as acknowledged
  kSequenceStays,           ///< a change of the NIDs is not noticed by the machine
  kCount
};
[[nodiscard]] const char* name_of(Mutant mutant);

/// A node: NIDs are numbers, 10.0.0.N@tcp; the first is the primary.
struct ModelNode {
  std::vector<int> nids;
  int extra = 0;             ///< a NID that it may add and delete, as long as no other node has it; 0 = none
  std::vector<size_t> with;  ///< the nodes that it sends to; empty = all others
};
struct ModelOptions {
  std::vector<ModelNode> nodes;
  unsigned losses = 0;    ///< messages that may be lost, in all
  unsigned restarts = 0;  ///< nodes that may begin anew
  unsigned changes = 0;   ///< of NIDs
  Mutant mutant = Mutant::kNone;
};

/// One step. Faults are those that cost of a budget: kLose, kRestart, kChange.
struct Step {
  enum class Kind : uint8_t { kSend, kDeliver, kLose, kRestart, kChange } kind = Kind::kSend;
  uint8_t which = 0;   ///< node, or message
  uint8_t choice = 0;  ///< of kSend: which NID of whom; of kDeliver: which rail
  [[nodiscard]] bool fault() const { return kind >= Kind::kLose; }
};

class Side;

class Model {
 public:
  explicit Model(const ModelOptions& options);
  ~Model();
  Model(const Model&) = delete;

  /// What may happen now. kSend: for each NID of another node for which the sender would have to wait.
  [[nodiscard]] std::vector<Step> steps() const;
  void take(const Step& step);
  /// A step of this state in words.
  [[nodiscard]] std::string text_of(const Step& step) const;
  /// All that the future depends on; equal for states that differ in names only.
  [[nodiscard]] std::string key() const;
  /// Each node knows each other as it is, and nobody waits. "" or what is not so.
  [[nodiscard]] std::string not_converged() const;

 private:
  friend class Side;
  enum class Kind : uint8_t { kPing, kReply, kPush, kAck, kFailure };
  /// A message, or the end of one that is lost: its sender hears of it some time.
  struct Flight {
    Kind kind = Kind::kPing;
    size_t node = 0;    ///< who asked or pushed
    size_t sender = 0;  ///< of kReply and kAck: who answers
    uint64_t number = 0;
    bool push = false;  ///< of kFailure
    std::vector<Nid> from, to;
    wire::PingInfo info;
  };
  [[nodiscard]] std::string text_of(const Flight& flight) const;
  [[nodiscard]] int owner_of(const Nid& nid) const;
  [[nodiscard]] bool talks(size_t from, size_t to) const;
  void deliver(size_t which, size_t choice);
  void arrive(const Flight& flight, const Nid& from, const Nid& to);
  void end(const Flight& flight);
  void lose(size_t which);
  void restart(size_t node);
  void change(size_t node);
  void settle();

  const ModelOptions options_;
  unsigned losses_, restarts_, changes_;
  std::vector<std::unique_ptr<Side>> nodes_;
  std::vector<Flight> flights_;
};

}  // namespace ulnet::model
