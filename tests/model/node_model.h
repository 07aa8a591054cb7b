// One node of the model as a value: its state, the events that may happen to it, and its reaction. The real machine
// with the real peer table (control/discovery, control/peers) decides. run() builds a node from the state, applies the
// event, and reads the new state back. NIDs are numbers: N stands for 10.0.0.N@tcp, 0 for any. The state leaves out
// names that the future does not depend on: numbers of peers and of messages, and their order. So equal states are
// equal values.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace ulnet::model {

/// Planted faults at the edges of the real machine: in its input, in the execution of its orders, or in its stored
/// data. The search has to find each of them.
enum class Mutant : uint8_t {
  kNone,
  kLostPingIsNotNoticed,    ///< no time-out of a ping
  kLostPushIsNotNoticed,    ///< no time-out of a push
  kOldPushIsIgnored,        ///< a push with a lower sequence than the stored one: a restarted node is not believed
  kCrossedReplyIsBelieved,  ///< a reply older than a push that came meanwhile
  kFailedPushCounts,        ///< a push that failed counts as acknowledged
  kSequenceStays,           ///< a change of the NIDs is not noticed by the machine
  kExactPingGoesAnywhere,   ///< to whichever NID of the peer, though the machine named one: the others have no turn
  kAckIsOfTheNewestList,    ///< an acknowledged push counts for a list that came after it
  kEarlyAnswerIsSure,       ///< an answer to a ping sent before kPeerForcePing was set clears the flag
  kCount
};
[[nodiscard]] const char* name_of(Mutant mutant);

using NidNumber = uint8_t;

/// A list of NIDs as its node says it.
struct NidList {
  uint32_t sequence = 0;
  std::vector<NidNumber> nids;  ///< the primary first
  auto operator<=>(const NidList&) const = default;
};

/// A peer in the table of a node (control/peers/peer_db.h).
struct PeerState {
  std::vector<NidNumber> nids;     ///< the primary first
  std::vector<NidNumber> waiters;  ///< NIDs, mostly the peer's own, for which a send waits
  uint32_t state = 0;
  uint32_t node_seqno = 0, peer_seqno = 0, push_seqno = 0;
  uint32_t tried = 0;  ///< which NID has its turn, after failures
  uint32_t bad_replies = 0, doubted = 0;
  NidNumber heard_from = 0, told_via = 0, push_src = 0, push_dst = 0;
  bool up_to_date = false, pushed_meanwhile = false, held_back = false;
  bool ping = false, push = false;  ///< is under way
  bool has_data = false;
  NidList data;
  auto operator<=>(const PeerState&) const = default;
};

struct NodeState {
  NidList own;
  std::vector<PeerState> peers;  ///< by their primary NIDs
  auto operator<=>(const NodeState&) const = default;

  [[nodiscard]] const PeerState* peer_of(NidNumber nid) const;
  [[nodiscard]] bool has(NidNumber nid) const;
  /// True if a send to this NID waits; without argument, if any send waits.
  [[nodiscard]] bool waits(NidNumber nid) const;
  [[nodiscard]] bool waits() const;
  [[nodiscard]] std::string text() const;
};

/// Names a ping or push under way by the peer that it is for: index in NodeState::peers, and which of the two.
using Token = uint8_t;
inline constexpr Token kNoToken = 0xFF;  ///< its node has forgotten it
[[nodiscard]] constexpr Token token_of(size_t peer, bool push) {
  return Token(peer * 2 + push);
}

/// An event at a node.
struct Happening {
  enum class Kind : uint8_t {
    kSend,       ///< an application sends to `to`
    kPing,       ///< a ping comes from `from` to `to`
    kPush,       ///< a push with `list`, likewise
    kReply,      ///< to the ping `token`; `from` answers it with `list`, `to` gets it
    kAck,        ///< of the push `token`, by `from`
    kPingFails,  ///< the one with `token`
    kPushFails,
    kChange,  ///< the node adds the NID `to`, or deletes it
  } kind = Kind::kSend;
  Token token = kNoToken;
  NidNumber from = 0, to = 0;
  NidList list;
};

/// A ping or push that a node sends. Any of `from` may be its source, and any of `to` its target.
struct Sent {
  Token token = kNoToken;
  std::vector<NidNumber> from, to;
  NidList list;  ///< of a push
};

struct Outcome {
  NodeState after;
  std::vector<Sent> sent;
  std::vector<Token> renamed;  ///< by old token: the new token of each ping or push that is still under way
};

/// A node that has just started.
[[nodiscard]] NodeState begin(const std::vector<NidNumber>& nids);
/// Applies the event and the machine's immediate reaction to it.
[[nodiscard]] Outcome run(const NodeState& before, const Happening& happening, Mutant mutant);

}  // namespace ulnet::model
