// Faults of peers: how a peer broke the protocol, so that its connection was closed or not made. Pure. The worker notes
// the fault at the end of a connection, control counts. Source: docs/wire/o2iblnd.md §2, §4, §5.
#pragma once
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "lnd/o2iblnd/proto/message.h"

namespace ulnet::o2iblnd {

enum class PeerFault : uint8_t {
  kNone,
  kUndecodable,  ///< a message that cannot be decoded; other faults of decoding are below
  kEnds,         ///< a message with the NIDs or stamps of another connection
  kCredits,      ///< more messages than credits, or more credits returned than used
  kCookie,       ///< an answer with a cookie that nothing under way has
  kState,        ///< an answer that comes twice, too early, or for a message of another kind
  kSink,         ///< a sink without a right size, or more bytes than were offered
  kPayload,      ///< an IMMEDIATE whose payload is longer than the message
  kType,         ///< a message type that is unknown, or has no place on a connection
  kHeader,       ///< an LNet header that its message type cannot have
  kRefused,      ///< an LNet header that the core refused
  kRequest,      ///< a CONNREQ that cannot be decoded
  kAnswer,       ///< a CONNACK that does not fit its CONNREQ
  kAccess        ///< an operation that a device refused: see rc::Cause::kRemoteAccess
};
inline constexpr size_t kPeerFaults = size_t(PeerFault::kAccess) + 1;

/// A few words: the key of the counter, and a part of the log line; "" for kNone.
[[nodiscard]] constexpr const char* fault_text(PeerFault fault) {
  switch (fault) {
    case PeerFault::kNone: return "";
    case PeerFault::kUndecodable: return "undecodable message";
    case PeerFault::kEnds: return "wrong stamps";
    case PeerFault::kCredits: return "credits beyond its depth";
    case PeerFault::kCookie: return "unknown cookie";
    case PeerFault::kState: return "answer out of place";
    case PeerFault::kSink: return "wrong size of a sink";
    case PeerFault::kPayload: return "payload beyond its message";
    case PeerFault::kType: return "unexpected message type";
    case PeerFault::kHeader: return "header of the wrong kind";
    case PeerFault::kRefused: return "refused header";
    case PeerFault::kRequest: return "undecodable CONNREQ";
    case PeerFault::kAnswer: return "wrong CONNACK";
    case PeerFault::kAccess: return "refused remote access";
  }
  return "";
}

/// How the connection ends.
[[nodiscard]] constexpr int32_t fault_error(PeerFault fault) {
  return fault == PeerFault::kEnds ? -ESTALE : -EPROTO;
}

/// Of a message on a connection. Requires a fault.
[[nodiscard]] constexpr PeerFault fault_of(MessageFault fault) {
  switch (fault) {
    case MessageFault::kNone:
    case MessageFault::kShort:
    case MessageFault::kBadMagic:
    case MessageFault::kBadVersion:
    case MessageFault::kLength:
    case MessageFault::kTruncated:
    case MessageFault::kChecksum:
    case MessageFault::kTooSmall: return PeerFault::kUndecodable;
    case MessageFault::kType: return PeerFault::kType;
    case MessageFault::kLnetHeader: return PeerFault::kHeader;
    case MessageFault::kPayload: return PeerFault::kPayload;
    case MessageFault::kNoFragment:
    case MessageFault::kFragments:
    case MessageFault::kSinkCut: return PeerFault::kSink;
    case MessageFault::kNids:
    case MessageFault::kStamps: return PeerFault::kEnds;
  }
  return PeerFault::kUndecodable;
}

}  // namespace ulnet::o2iblnd
