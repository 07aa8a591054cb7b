// What lies between two simulated LNDs: connections, their two ends, and the messages under way. Plain state; the rules
// are in fabric_ctl.cc (sending side, faults), sim_lnd.cc and sim_rdma.cc (receiving side). Owned by the Fabric. Others
// name a connection by number, never by pointer, so that an end may vanish meanwhile.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "lnd/lnd.h"
#include "lnd/sim/messages.h"

namespace ulnet::sim {

class SimLnd;
class SimControl;

/// Kind of a message in the rdma mode of the fabric (FabricOptions::rdma_above), which has the messages of o2iblnd
/// (docs/wire/o2iblnd.md §4). Without that mode all are kMessage.
enum class Wire : uint8_t {
  kMessage,  ///< with its payload
  kPutReq,   ///< the header of a message with a long payload
  kPutAck,   ///< the window for that payload
  kPutNak,   ///< the receiver takes nothing of it
  kWrite,    ///< a remote write that has begun: half of the payload is in place
  kPutDone,  ///< all of it is in place
  kGetReq,   ///< the header of a GET, and the window for its answer
  kGetDone,  ///< the answer is in place, or refused
};

/// A message between launch and receipt. The payload is a copy, or lent by the sender's Tx (LinkRules::hold_memory).
struct Message {
  wire::Header header;
  std::vector<std::byte> bytes;
  Tx* lender = nullptr;     ///< the payload lies there; null when `bytes` has it
  uint64_t sender_end = 0;  ///< whose window it occupies; 0 for a duplicate
  Duration body_time{};     ///< from the header's arrival to that of the last byte
  bool torn = false;        ///< the lender took its memory back: the connection is as good as dead
  // Rdma mode.
  Wire wire = Wire::kMessage;
  uint64_t cookie = 0;         ///< of an answer: names what it answers, at the side that it comes to
  uint64_t answer_cookie = 0;  ///< of kPutReq, kGetReq, kPutAck: the cookie that the answer will have
  int32_t status = 0;          ///< of kGetDone: bytes written, or a negative errno
};

/// A Tx on the wire: submitted, begun, not yet reported done.
struct Launched {
  Tx* tx = nullptr;
  Instant done_at = kForever;  ///< kForever: when the receiver is through, or the connection breaks
  Completion how;
  bool lent = false;
  uint64_t cookie = 0;   ///< of a request that waits for its answer
  bool written = false;  ///< a PUT whose PUT_DONE is under way: the peer may have all of it
};

struct Request;
/// A slot with the end that it belongs to.
struct InSlot : RxSlot {
  uint64_t end = 0;
  Request* request = nullptr;  ///< rdma mode
};

/// Rdma mode: a message that came, until its slot is free. Each has a slot of its own, so that one that is held does
/// not stop those behind it.
struct Request {
  enum class State : uint8_t {
    kOpening,  ///< the core decides
    kHeld,
    kOffered,  ///< the peer writes into slot->into
  };
  std::unique_ptr<InSlot> slot;
  Message message;
  uint64_t cookie = 0;  ///< of kPutDone
  State state = State::kOpening;
  Instant since = kNever;  ///< kOffered
};

/// A message that the core took along: it keeps its place in the sender's window until it is released.
struct Taken {
  std::unique_ptr<InSlot> slot;
  Message message;
};

enum class Inbound : uint8_t { kNone, kOpening, kHeld, kReceiving, kDiscarding };

/// When something is due, and what came first among equals.
using Due = std::pair<Instant, uint64_t>;

/// One side of a connection between two NIDs. A NID connected to itself has one end that is its own peer.
struct End {
  uint64_t id = 0;
  uint64_t peer = 0;
  uint64_t attempt = 0;  ///< the connect attempt that made it
  Nid local;
  Nid remote;
  SimControl* control = nullptr;
  SimLnd* lnd = nullptr;     ///< set once the worker half has taken it over
  bool handed_over = false;  ///< control has sent it to the worker half
  // From control at hand-over.
  NiId ni{};
  NiSlice* ni_slice = nullptr;
  PeerNiId peer_ni{};
  PeerSlice* slice = nullptr;
  Duration timeout = 50s;  ///< without progress for so long it is closed

  bool broken = false;
  Instant break_at = kForever;  ///< news of a break are on their way here
  uint64_t break_order = 0;     ///< and its place among what arrives at the same moment
  Completion break_how;
  bool drains = false;  ///< an orderly end: what has come, or is still coming, is received first

  // Sending.
  std::vector<Launched> sent;
  uint32_t in_flight = 0;         ///< messages that the receiver is not through with; bounded by LinkRules::window
  Instant busy_until = kNever;    ///< bandwidth: the wire is taken until then
  Instant last_arrival = kNever;  ///< of what was launched in order
  Instant progress = kNever;

  // Receiving.
  std::map<Due, Message> inbox;
  Inbound state = Inbound::kNone;
  Message current;
  std::unique_ptr<InSlot> slot = std::make_unique<InSlot>();  ///< a stream brings one message at a time
  std::vector<Taken> taken;
  std::vector<std::unique_ptr<Request>> requests;
  PayloadCursor into;
  PayloadCursor from;
  Segment from_segment;
  Instant body_done = kForever;
  Instant receiving_since = kNever;
};

inline constexpr Completion kReset{-ECONNRESET, LndStatus::kRemoteDropped};
inline constexpr Completion kTornReceive{-ECONNRESET, LndStatus::kRemoteError};
inline constexpr Completion kProtocolBreak{-EPROTO, LndStatus::kRemoteError};
inline constexpr Completion kStalled{-ETIMEDOUT, LndStatus::kNetworkTimeout};
inline constexpr Completion kRxStalled{-ETIMEDOUT, LndStatus::kRemoteError};
inline constexpr Completion kShutDown{-ESHUTDOWN, LndStatus::kLocalAborted};
inline constexpr Completion kForced{-ECONNABORTED, LndStatus::kLocalAborted};
inline constexpr Completion kCancelled{-ECANCELED, LndStatus::kOk};
inline constexpr Completion kExpired{-ETIMEDOUT, LndStatus::kNetworkTimeout};
inline constexpr Completion kReplyLost{-ECONNRESET, LndStatus::kRemoteError};
inline constexpr Completion kRefusedConnect{-ECONNREFUSED, LndStatus::kRemoteDropped};

}  // namespace ulnet::sim
