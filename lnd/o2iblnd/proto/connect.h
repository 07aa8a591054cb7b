// Set-up of o2iblnd connections: verdicts on CONNREQ and CONNACK, the reject block, and the reaction of the active side
// to a refusal. Sans-IO and pure. The caller looks up
// NIs and peers, counts races and attempts, and owns the timers. Source: docs/wire/o2iblnd.md §6.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/time.h"
#include "lnd/o2iblnd/proto/message.h"

namespace ulnet::o2iblnd {

enum class RejectReason : uint8_t {
  kNone = 0,  ///< not on the wire
  kConnRace = 1,
  kNoResources = 2,
  kFatal = 3,
  kConnUncompat = 4,
  kConnStale = 5,
  kRdmaFrags = 6,
  kMsgQueueSize = 7,
  kInvalidSrvId = 8,
  kEarly = 9
};
/// The name in docs/wire/o2iblnd.md §6.2, e.g. "CONN_RACE"; "?" for any other value.
[[nodiscard]] const char* reject_reason_text(RejectReason reason);

inline constexpr size_t kRejectBytes = 24;
inline constexpr size_t kVersionBytes = 6;       ///< least private data of a request: magic and version
inline constexpr unsigned kRacesMax = 20;        ///< CONNREQs that one own attempt may refuse with CONN_RACE
inline constexpr unsigned kReconnectsFree = 10;  ///< reconnects without a pause
inline constexpr Duration kReconnectPause = 1s;

/// The private data of a CM REJ with reason kCmConsumer.
struct Reject {
  RejectReason reason = RejectReason::kNone;
  uint16_t version = kVersion;           ///< the highest of its sender
  uint64_t stamp = 0;                    ///< of its sender's NI; 0: no NI was found
  ConnParams params{0, 0, kMessageMax};  ///< of its sender; 0, 0, kMessageMax: no NI was found
  constexpr bool operator==(const Reject&) const = default;
};
void reject_encode(const Reject& reject, std::span<std::byte, kRejectBytes> out);
/// False if `bytes` are no reject block. The CM pads private data with zeroes, so more bytes may follow. A block of a
/// version before kVersion has only reason and version.
[[nodiscard]] bool reject_decode(std::span<const std::byte> bytes, Reject& out);

/// The state of the passive side when a CONNREQ arrives. Look the NI and the peer up by the ends in the request.
struct PassiveSide {  // not on the wire
  bool privileged_required = false;
  bool privileged = false;  ///< the source port is below 1024
  bool ni_found = false;    ///< the request's dst NID is an NI of this device
  bool ni_ready = false;
  uint64_t stamp = 0;           ///< of that NI
  ConnParams params;            ///< limits of that NI
  bool joins_fragments = true;  ///< the device registers memory as one fragment
  uint64_t peer_stamp = 0;      ///< of the peer's open connections; 0: none are open
  bool connecting = false;      ///< an own attempt to the same peer is in progress
  unsigned races = 0;           ///< CONNREQs of the peer that this attempt has refused
};

/// Accept with `params` (for the CONNACK), or send `reject`.
struct PassiveVerdict {  // not on the wire
  Reject reject;         ///< reason kNone: accept
  ConnParams params;
  bool close_old = false;  ///< close the connections of the peer's former incarnation
  const char* why = "";    ///< a sentence for logs, without a full stop
  [[nodiscard]] bool accepted() const { return reject.reason == RejectReason::kNone; }
};
/// Judges the private data of a CM REQ behind the cma header. `request` and `fault` are the result of message_decode()
/// on these bytes. The order of the checks is that of docs/wire/o2iblnd.md §6.3. On CONN_RACE, the caller adds 1 to
/// its races.
[[nodiscard]] PassiveVerdict judge_request(std::span<const std::byte> bytes, const Message& request, MessageFault fault,
                                           const PassiveSide& here);
/// The ends of own messages on a connection that was accepted with this request, or acknowledged with this answer.
[[nodiscard]] Ends ends_of_answer(const Message& received, uint64_t own_stamp);

enum class AnswerFault : uint8_t {
  kNone,
  kMessage,    ///< message_decode() failed
  kType,       ///< is no CONNACK
  kQueueSize,  ///< a larger queue than offered, or less than kDepthLeast
  kFragments,  ///< more fragments than offered, or none
  kSize,       ///< messages of another size than kMessageMax
  kTarget,     ///< is not for this NI, or not for this life of it
  kSource      ///< is not from the NI that was dialled
};
/// A sentence for logs, without a full stop; "" for kNone.
[[nodiscard]] const char* answer_fault_text(AnswerFault fault);
/// Judges the private data of a CM REP. After a fault, the caller completes the CM exchange (RTU) and disconnects.
/// `sent` and `offered` are those of the CONNREQ.
[[nodiscard]] AnswerFault judge_answer(const Message& answer, MessageFault fault, const Ends& sent,
                                       const ConnParams& offered);

/// Reasons of a CM REJ that have a meaning here (docs/wire/o2iblnd.md §6.2).
inline constexpr uint16_t kCmInvalidService = 8, kCmStaleConnection = 10, kCmConsumer = 28;

/// The state of the active side when a CM REJ arrives.
struct ActiveSide {                  // not on the wire
  ConnParams offered;                ///< in the CONNREQ that was refused
  bool messages_wait = false;        ///< for this peer
  bool passive_in_progress = false;  ///< a connection from the peer is being set up
};
struct Reaction {  // not on the wire
  enum class Kind : uint8_t {
    kFail,       ///< messages that wait fail with `error`
    kReconnect,  ///< the next CONNREQ has `params`, and `stamp` if it is not 0
    kNothing     ///< nothing waits, or the connection of the peer will carry the messages
  };
  Kind kind = Kind::kFail;
  int32_t error = 0;  ///< negative errno
  ConnParams params;
  uint64_t stamp = 0;                         ///< of the peer's NI; 0: keep the one that was sent
  RejectReason reason = RejectReason::kNone;  ///< for logs; kNone: refused by the CM itself
};
/// The reaction to a CM REJ with this reason and private data.
[[nodiscard]] Reaction react(uint16_t cm_reason, std::span<const std::byte> private_data, const ActiveSide& here);

/// Pause before a reconnect, after `reconnects` earlier ones in a row.
[[nodiscard]] constexpr Duration reconnect_pause(unsigned reconnects) {
  return reconnects < kReconnectsFree ? Duration{0} : kReconnectPause;
}

/// Decides races: the CONNREQ of the NID with the smaller hash is refused. Requires a NID with a 4-byte address.
[[nodiscard]] uint32_t race_hash(const Nid& nid);
/// True if a CONNREQ from `source` has to give way to the own attempt of `mine`.
[[nodiscard]] inline bool loses_race(const Nid& source, const Nid& mine) {
  return race_hash(source) < race_hash(mine);
}

}  // namespace ulnet::o2iblnd
