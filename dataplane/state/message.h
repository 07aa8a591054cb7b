// Messages while they exist on this node, in three kinds. An Operation is a put() or get() of this node. An Incoming is
// a PUT or GET for this node. A Transit is a message between other nodes. The *home* of a message is the worker of its
// MD, or, for a Transit, the worker that it came in on. Only the home holds state, deadline, retries, MD reference and
// the one final event. The worker that transmits the message holds `Sending::tx` on lease. The worker that receives
// into it holds `Receiving`. Each returns what it holds exactly once.
//
// Each kind has one state, and its steps are in one file: operation.cc, incoming.cc, forward.cc (dataplane/stages). The
// steps that all kinds share are in send.cc. A message reads as one piece: its Tx, and the fields that every message
// uses. The fields for parking, receiving and answers lie before and behind.
#pragma once
#include <atomic>
#include <cstdint>
#include <limits>

#include "dataplane/base/check.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/list.h"
#include "dataplane/base/nid.h"
#include "dataplane/base/time.h"
#include "dataplane/base/wheel.h"
#include "dataplane/state/event.h"
#include "dataplane/state/md.h"
#include "dataplane/state/posted.h"
#include "dataplane/state/tried.h"
#include "lnd/lnd.h"

namespace ulnet {

class Submitter;
struct IncomingShare;
struct RouterBuffer;
struct PeerLocal;

enum class MessageKind : uint8_t { kOperation, kIncoming, kTransit };

struct MsgTag {};
/// The place of a message that waits for control to look a peer up (Worker::parked).
struct Parking : Linked<MsgTag> {
  Nid parked_for;  ///< the NID that control looks up
};

/// The interfaces that a message uses, from its choice of path on (stages/under_way.h).
struct UnderWay {
  uint32_t peer_slot = 0;  ///< PeerNiView::slot
  uint16_t ni_slot = 0;    ///< NiView::slot
  bool on = false;         ///< the peer NI is in use
  bool ni_on = false;      ///< the local NI is in use
  /// Bytes under way on each of them when it began, its own among them. 16 bits suffice in units of 4 KiB.
  uint16_t ni_ahead = 0, peer_ahead = 0;
  uint32_t since_us = 0;  ///< when it began: microseconds, the low half; 0: its time says nothing about a rail
  [[nodiscard]] static constexpr uint16_t units_of(int64_t bytes) {
    return uint16_t(bytes >> 12 < 0xFFFF ? (bytes + 4095) >> 12 : 0xFFFF);
  }
  [[nodiscard]] static constexpr uint32_t kib(uint16_t units) { return uint32_t{units} << 2; }
};

/// Of a message that is sent again. Apart, since most messages never touch it.
struct Attempts {
  Tried tried;  ///< valid while Sending::again
  // Valid while Operation::stuck:
  Instant down_at = kNever;  ///< the last look that found the path down
  Duration stuck_for{};      ///< how long the path was down
};

/// A request of the home of a message to the holder of its lease.
enum class Recall : uint8_t {
  kNone,
  kUnsent,  ///< the lease comes back, if nothing of the message has been sent
  kStuck,   ///< the driver has it, and its path is down: it comes back, if need be with the end of the connection
  kTaken    ///< as kStuck, after cancel()
};

/// Everything that goes out: its Tx, the lease, and another attempt.
struct Sending : Parking, Attempts {
  explicit Sending(MessageKind of) : kind(of) {
    tx.message = this;
    tx.routed = of == MessageKind::kTransit;
  }
  Tx tx;                                      ///< the lease holder's while the lease is out
  std::atomic<Recall> recall{Recall::kNone};  ///< home: w, lease holder: rw. Of Operations only
  const MessageKind kind;
  uint8_t lease_worker = 0;  ///< holder of the newest lease
  uint8_t moves = 0;         ///< times that it was taken back from a rail that failed; these are no retries
  bool again = false;        ///< sent again after a failure, or as a copy: takes another path than those of `tried`
  uint32_t retries = 0;      ///< attempts after failures
  UnderWay under_way;
  Nid want_dst;  ///< the NID that the message is for; kept for resends (docs/wire/lnet.md §6)
  /// A new message: nothing has been tried.
  void attempts_reset() {
    retries = moves = 0;
    again = false;
  }
  [[nodiscard]] const Tried* failed_over() const { return again ? &tried : nullptr; }
  static_assert(kWorkersMax - 1 <= std::numeric_limits<decltype(lease_worker)>::max());
};

/// Everything that is received into: the part of a message that the connection's worker uses.
struct Receiving : Posted {
  explicit Receiving(MessageKind of) : kind(of) {}
  const MessageKind kind;
  std::atomic<bool> divert{false};  ///< home: w, receiving worker: r - home requests the memory back
  uint16_t home = 0;                ///< worker that gets it back
  uint8_t receive_worker = 0;       ///< worker of the connection
  Completion rx_result;             ///< the receiving worker's until kRxDone
  static_assert(kWorkersMax - 1 <= std::numeric_limits<decltype(home)>::max());
  static_assert(kWorkersMax - 1 <= std::numeric_limits<decltype(receive_worker)>::max());
  /// A receive begins, on the connection of `conn_worker`.
  void receive_begin(WorkerId home_worker, uint16_t conn_worker) {
    divert.store(false, std::memory_order_relaxed);
    home = home_worker.value;
    receive_worker = uint8_t(conn_worker);
  }
};

/// A message of one of this node's submitters: a put or get, or a PUT or GET for one of their MDs.
struct UserMessage : Receiving, Sending, Linked<MdOpsTag>, EventSource {
  UserMessage(MessageKind one, EventSource::Of source) : Receiving(one), Sending(one), EventSource(source) {}
  using Sending::kind;
  bool md_unlinked = false;  ///< its MD was unlinked: the message is not sent again
  uint32_t md_offset = 0;    ///< window in the MD
  Md* md = nullptr;          ///< null when its MD has ended, or it has none
  EventQueue* eq = nullptr;
  Submitter* submitter = nullptr;
  Nid want_src;  ///< ANY = choose
};

enum class OperationState : uint8_t {
  kFree,              ///< in the slab
  kReady,             ///< no lease is out; its next step follows within this call
  kParked,            ///< waits for control to look a peer up
  kSending,           ///< the lease is out, and no answer has come
  kSendingGivenUp,    ///< the lease is out; no ACK or REPLY counts: the MD was unlinked, or the deadline has passed
  kSendingReceiving,  ///< the lease is out; the REPLY is received into the MD
  kSendingAnswered,   ///< the lease is out; the ACK or REPLY is here, or the payload of the REPLY is lost (`status`)
  kAwaiting,          ///< the lease is back; an ACK or REPLY is to come
  kReceiving,         ///< the lease is back; the REPLY is received into the MD
  kFinishing          ///< over: the event is posted, or waits for room in its queue
};

/// The NIDs of an ACK or REPLY, and the bytes that were moved.
struct Response {
  Nid initiator;  ///< these four as in Event
  Nid source;
  Nid sender;
  Nid target;
  uint32_t initiator_pid = 0;
  uint32_t mlength = 0;
};

/// A put() or get() of this node.
struct Operation : UserMessage, Timer {
  Operation() : UserMessage(MessageKind::kOperation, Of::kOperation) {}
  OperationState state = OperationState::kFree;
  EventKind end = EventKind::kSend;  ///< the event that ends it: kReply of a get; kAck or kSend of a put
  bool portal0 = false;              ///< for the reserved portal: affects the path
  bool recovery = false;             ///< recovery ping: goes to exactly its NID, and is never sent again
  bool answer_known = false;         ///< `answer` is filled
  bool copied = false;               ///< the lease is of a copy, and the requests before it may still be answered
  uint8_t copies = 0;                ///< that were sent
  bool path_failed : 1 = false;      ///< its path has had a fault while it waited (stages/copies.h)
  bool path_gone : 1 = false;        ///< the path of its last attempt after the first was down when that left
  bool stuck : 1 = false;            ///< a driver has it, or receives its REPLY, on a path that is or was just down
  bool path_back : 1 = false;        ///< stuck, and the last look found the path up
  int32_t status = 0;                ///< first error; that of the final event
  uint64_t user_data = 0;            ///< given to put() or get()
  Instant issued = kNever;
  Response answer;
  [[nodiscard]] bool is_get() const { return end == EventKind::kReply; }
  [[nodiscard]] bool awaits_answer() const { return end != EventKind::kSend; }
};
// All that a put without ACK touches at home between submit and event. The Tx is apart: while it is leased, another
// worker writes it.
static_assert(sizeof(Operation) - sizeof(Tx) - sizeof(Receiving) - sizeof(Parking) - sizeof(Attempts) -
                  sizeof(Response) <=
              192);

enum class IncomingState : uint8_t {
  kFree,       ///< in the slab
  kReady,      ///< its next step follows within this call
  kReceiving,  ///< a PUT: its payload is received into the MD
  kParked,     ///< the ACK or REPLY waits for control to look a peer up
  kSending,    ///< the lease of the ACK or REPLY is out
  kFinishing   ///< no ACK or REPLY is under way; the event is posted, or waits for room in its queue
};

/// A PUT or GET for this node. The event of a PUT may wait for room while the ACK is parked or sent.
struct Incoming : UserMessage {
  Incoming() : UserMessage(MessageKind::kIncoming, Of::kIncoming) {}
  IncomingState state = IncomingState::kFree;
  IncomingShare* share = nullptr;  ///< counts the message while it depends on its peer; else null
  Instant came = kNever;           ///< a PUT: when its header came
  uint32_t seen = UINT32_MAX;      ///< a PUT: its place in Worker::requests_seen; all ones: none
  Nid via;                         ///< preferred next hop of the ACK or REPLY; ANY = none
  Event event;                     ///< filled at the match, but for `status`
  List<RxSlot, RxTag> copies;      ///< of the request, held while the request is received (stages/match.h)
  [[nodiscard]] bool is_put() const { return event.kind == EventKind::kPut; }
};

enum class TransitState : uint8_t {
  kFree,       ///< its buffer is in the pool
  kReady,      ///< its next step follows within this call
  kReceiving,  ///< its payload is received into the buffer
  kParked,     ///< waits for control to look a peer up
  kSending     ///< the lease is out
};

/// A message between other nodes, through this router. Part of its buffer.
struct Transit : Receiving, Sending {
  Transit() : Receiving(MessageKind::kTransit), Sending(MessageKind::kTransit) {}
  using Sending::kind;
  TransitState state = TransitState::kFree;
  RouterBuffer* buffer = nullptr;
  PeerSlice* from = nullptr;  ///< holds a router credit there; null: has passed it on
  PeerLocal* hop = nullptr;   ///< counted in its buffers_held
  ChosenHop chosen;           ///< for its first attempt
};

/// The message that this Sending, Receiving or UserMessage is a part of. Requires: it is of this kind.
template <class Part>
[[nodiscard]] Operation& as_operation(Part& part) {
  ULNET_CHECK(part.kind == MessageKind::kOperation);
  return static_cast<Operation&>(part);
}
template <class Part>
[[nodiscard]] Incoming& as_incoming(Part& part) {
  ULNET_CHECK(part.kind == MessageKind::kIncoming);
  return static_cast<Incoming&>(part);
}
template <class Part>
[[nodiscard]] Transit& as_transit(Part& part) {
  ULNET_CHECK(part.kind == MessageKind::kTransit);
  return static_cast<Transit&>(part);
}

}  // namespace ulnet
