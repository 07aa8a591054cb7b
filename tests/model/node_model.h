// One node of the model as a value: all that its future depends on, what may happen to it, and what it does then. It is
// the real machine with the real peer table (control/discovery, control/peers) that decides: run() makes a node of the
// state, lets the thing happen, and takes the state from it again. NIDs are numbers: 10.0.0.N@tcp, 0 = any. Names that
// mean nothing to the future (numbers of peers and of messages, in which order they came) are not in it, so that equal
// states are equal values.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace ulnet::model {

/// Faults that are planted into the protocol, at the edges of the real machine: what it is told, what is made of its
/// orders, what it has written down. The search has to find each of them.
enum class Mutant : uint8_t {
  kNone,
  kLostPingIsNotNoticed,    ///< no time-out of a ping
  kLostPushIsNotNoticed,    ///< no time-out of a push
  kOldPushIsIgnored,        ///< one with a lower sequence than what is known: a node that began anew is not believed
  kCrossedReplyIsBelieved,  ///< a reply older than a push that came meanwhile
  kFailedPushCounts,        ///< a push that failed counts as acknowledged
  kSequenceStays,           ///< a change of the NIDs is not noticed by the machine
  kExactPingGoesAnywhere,   ///< to whichever NID of the peer, though the machine named one: the others have no turn
  kAckIsOfTheNewestList,    ///< an acknowledged push counts for a list that came after it
  kEarlyAnswerIsSure,       ///< an answer that was under way before the doubt ends it
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
  std::vector<NidNumber> waiters;  ///< NIDs, mostly its own, that somebody waits to send to
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
  /// Does somebody wait to send to this NID, or to any?
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

/// What happens to a node.
struct Happening {
  enum class Kind : uint8_t {
    kSend,       ///< somebody wants to send to `to`
    kPing,       ///< a ping comes from `from` to `to`
    kPush,       ///< a push with `list`, likewise
    kReply,      ///< to the ping `token`; `from` answers it with `list`, `to` gets it
    kAck,        ///< of the push `token`, by `from`
    kPingFails,  ///< the one with `token`
    kPushFails,
    kChange,  ///< it adds the NID `to`, or deletes it
  } kind = Kind::kSend;
  Token token = kNoToken;
  NidNumber from = 0, to = 0;
  NidList list;
};

/// A ping or push that a node sends. It may go from any of `from` to any of `to`.
struct Sent {
  Token token = kNoToken;
  std::vector<NidNumber> from, to;
  NidList list;  ///< of a push
};

struct Outcome {
  NodeState after;
  std::vector<Sent> sent;
  std::vector<Token> renamed;  ///< by old token: what is under way still, by which name
};

/// A node that has just begun.
[[nodiscard]] NodeState begin(const std::vector<NidNumber>& nids);
/// Lets it happen, and whatever the machine does about it at once.
[[nodiscard]] Outcome run(const NodeState& before, const Happening& happening, Mutant mutant);

}  // namespace ulnet::model
