// One connection, and the connections to one peer NI, as the worker half keeps them. State only: the rules are in
// conn_tx, conn_rx, transfer, conn_end and peer. Control makes a Conn, lends it to one worker and gets it back
// (messages.h); the worker makes a Peer.
//
// The tables of a connection with depth Q: at most Q messages of each side hold a credit. A request of this side keeps
// its place until its end was posted, a message of the peer until the core is through. A peer that goes beyond its
// credits ends the connection.
#pragma once
#include <array>
#include <cstdint>

#include "dataplane/base/gauge.h"
#include "dataplane/base/list.h"
#include "dataplane/base/ring.h"
#include "dataplane/base/wheel.h"
#include "dataplane/base/worker_memory.h"
#include "dataplane/state/payload.h"
#include "lnd/lnd.h"
#include "lnd/o2iblnd/peer_fault.h"
#include "lnd/o2iblnd/proto/credits.h"
#include "lnd/o2iblnd/proto/message.h"
#include "lnd/rc/rc.h"

namespace ulnet::o2iblnd {

struct Conn;
struct IbWorker;
struct Peer;

struct SiblingTag {};
struct DirtyTag {};
struct PeerTag {};
struct UnsettledTag {};
struct FreeTag {};
struct StepTag {};
struct StagingTag {};

/// Where a Tx is while o2iblnd owns it (Tx::lnd, see TxState).
enum class TxPlace : uint8_t {
  kWaiting,  ///< in Peer::waiting: no connection
  kQueued,   ///< in Conn::queue: nothing of it was sent
  kBegun     ///< a message of it was posted, or it is a REPLY: in a Request, a Serving, or an Out
};

/// The view that o2iblnd has of Tx::lnd.
class TxState {
 public:
  explicit TxState(Tx& tx) : tx_(tx) {}
  void place(TxPlace where, void* holder) {
    tx_.lnd[0] = uint64_t(where);
    tx_.lnd[1] = reinterpret_cast<uint64_t>(holder);
  }
  [[nodiscard]] TxPlace place() const { return TxPlace(tx_.lnd[0]); }
  [[nodiscard]] Conn* conn() const { return reinterpret_cast<Conn*>(tx_.lnd[1]); }
  [[nodiscard]] Peer* peer() const { return reinterpret_cast<Peer*>(tx_.lnd[1]); }
  [[nodiscard]] Instant since() const { return Instant{Duration{int64_t(tx_.lnd[2])}}; }
  void since(Instant at) { tx_.lnd[2] = uint64_t(at.time_since_epoch().count()); }

 private:
  Tx& tx_;
};

struct Request;
struct Serving;
/// Memory of a peer, copied from its message.
using Sink = std::array<Fragment, kFragmentsMax>;

/// A payload on its way into memory of the peer, and the message that reports it.
struct Transfer : Linked<StepTag>, Linked<StagingTag> {
  Conn* conn = nullptr;
  Tx* tx = nullptr;
  Request* request = nullptr;        ///< of a PUT
  Serving* serving = nullptr;        ///< of a REPLY
  uint64_t cookie = 0;               ///< for PUT_DONE or GET_DONE
  uint32_t key = 0;                  ///< of the peer's memory
  Sink* sink = nullptr;              ///< the connection's
  uint32_t fragments = 0;            ///< how many of `sink`
  uint32_t fragment = 0, inner = 0;  ///< place there
  uint32_t room = 0;                 ///< bytes of all fragments, at most kMaxPayload
  uint32_t bytes = 0;                ///< of the whole transfer
  uint32_t left = 0;                 ///< bytes to be written
  PayloadCursor from;
  Segment staged;  ///< the block that `from` walks, if the payload lies in no region
  Completion how;  ///< an error: the payload cannot be written
};

enum class RequestState : uint8_t {
  kFree,
  kAsked,    ///< PUT_REQ or GET_REQ posted: the answer is to come
  kWriting,  ///< a PUT whose PUT_ACK has come: in Conn::transfers, until PUT_DONE is posted
  kClosing   ///< GET_DONE has come; the key of the sink is being closed
};
/// A PUT_REQ or GET_REQ of this side.
struct Request : Linked<FreeTag>, Linked<StepTag> {
  RequestState state = RequestState::kFree;
  uint32_t generation = 0;
  Tx* tx = nullptr;
  Instant since = kNever;  ///< when its state began
  rc::RemoteKey key;       ///< of a GET's sink
  int32_t status = 0;      ///< of GET_DONE
  Transfer transfer;       ///< of a PUT
};

enum class InState : uint8_t {
  kFree,
  kOpening,    ///< the core decides
  kHeld,       ///< the core holds it
  kTaken,      ///< the core has taken it along, with its receive buffer
  kOffering,   ///< waits for room to open a key, or for a block of staging memory
  kAnswering,  ///< its key is open, and PUT_ACK waits to be posted
  kOffered,    ///< PUT_ACK is posted: the peer writes
  kClosing     ///< PUT_DONE has come; the key is being closed
};
/// A message of the peer that holds a credit.
struct In : RxSlot, Linked<FreeTag>, Linked<StepTag>, Linked<StagingTag> {
  Conn* conn = nullptr;
  InState state = InState::kFree;
  bool diverted = false;  ///< the core has taken its memory back
  uint32_t generation = 0;
  MessageType type = MessageType::kImmediate;
  int32_t buffer = -1;       ///< of an IMMEDIATE: the receive buffer that it keeps; -1: none
  uint64_t peer_cookie = 0;  ///< of PUT_REQ, GET_REQ
  rc::RemoteKey key;         ///< of slot.into, or of `staged`
  Segment staged;            ///< the block that the peer writes into, if no key covers slot.into
  int32_t status = 0;        ///< of PUT_DONE
  Instant since = kNever;    ///< when its state began; from kOffering on
};

/// Where the peer writes the payload of this message.
[[nodiscard]] inline Payload sink_of(const In& in) {
  return in.staged.base == nullptr ? in.into : Payload{&in.staged, 1, 0, in.into.length};
}

enum class ServingState : uint8_t {
  kFree,
  kOwed,    ///< the core has the GET_REQ; its REPLY is to come
  kWriting  ///< in Conn::transfers, until GET_DONE is posted
};
/// A GET_REQ of the peer that the core serves with a REPLY. RxSlot::token is its address.
struct Serving : Linked<FreeTag> {
  Conn* conn = nullptr;
  ServingState state = ServingState::kFree;
  Instant since = kNever;  ///< kWriting: when that began
  Transfer transfer;
};

/// An answer that needs no credit: PUT_ACK, PUT_NAK, or a GET_DONE without data.
struct Answer {
  MessageType type = MessageType::kPutNak;
  uint64_t cookie = 0;
  int32_t status = 0;
  In* in = nullptr;  ///< of PUT_ACK
};

/// A send buffer of the queue pair.
struct Out : Linked<FreeTag> {
  bool used = false;
  MessageType type = MessageType::kNoop;
  Instant since = kNever;
  Tx* tx = nullptr;                   ///< ends with the message: IMMEDIATE, PUT_DONE, GET_DONE with data
  Completion how;                     ///< of `tx`
  const std::byte* staged = nullptr;  ///< a block of staging memory, in use until the end of the message is reported
};

enum class ConnPhase : uint8_t {
  kNew,  ///< adopted; messages wait in `early` until the limits are known
  kUp,
  kBroken,  ///< ended: nothing is sent any more; control has the news
  kDrained  ///< the queue pair has handed all back
};

/// Limits and names, known when the connection is established.
struct ConnFacts {
  Ends ends;           ///< of own messages
  uint16_t depth = 0;  ///< Q
  uint16_t high_water = 0;
  uint16_t sends_max = UINT16_MAX;  ///< messages that are posted and not reported
};

/// A message that came before the limits were known.
struct Early {
  uint32_t buffer = 0, bytes = 0;
};

/// Numbers of a connection, for `peer show`. worker: w, control: r.
struct alignas(kCacheLine) ConnGauges {
  Gauge credits, reserved, owed;  ///< as in Credits
  Gauge sends;                    ///< messages that are posted and not reported
  Gauge waiting;                  ///< messages that wait for a credit
  // Since the connection was made. Bytes: of messages, and of payloads that were written.
  Gauge messages_sent, messages_received, bytes_sent, bytes_received;
};

/// Thread: one worker, between ConnAdoptMsg and ConnDeadMsg.
struct Conn final : Timer, Linked<SiblingTag>, Linked<DirtyTag>, rc::QpUser {
  /// `most`: the depth that was offered; the queue pair has room for it.
  Conn(unsigned most, unsigned sends, WorkerMemory* near);
  // From control, constant.
  const unsigned depth_max;
  rc::ConnId id = 0;
  rc::Qp* qp = nullptr;
  NiId ni{};
  NiSlice* ni_slice = nullptr;
  PeerNiId peer_ni{};
  PeerSlice* peer_slice = nullptr;
  Nid nid;  ///< the peer's

  Duration timeout = 50s;  ///< of the NI

  IbWorker* worker = nullptr;  ///< from adoption on
  ConnPhase phase = ConnPhase::kNew;
  bool let_go = false;   ///< ConnCloseMsg has come: control says nothing more about it
  Peer* peer = nullptr;  ///< while kUp
  ConnFacts facts;
  Credits credits;
  Completion how;                      ///< why it ended
  PeerFault fault = PeerFault::kNone;  ///< the same; constant from ConnEndedMsg on, control: r
  Owed told;                           ///< of adoption, then of the end
  Owed dead;

  List<Tx, TxTag> queue;  ///< wait for a credit
  NearArray<Request> requests;
  NearArray<Serving> serving;
  NearArray<In> ins;
  NearArray<Out> outs;
  NearArray<Sink> sinks;  ///< of requests, then of servings
  List<Request, FreeTag> free_requests;
  List<Serving, FreeTag> free_servings;
  List<In, FreeTag> free_ins;
  List<Out, FreeTag> free_outs;
  List<Transfer, StepTag> transfers;  ///< with bytes to write
  List<In, StepTag> offering;         ///< kOffering, but for those in IbWorker::staging_wanted
  // kClosing, while there is no room to close the key.
  List<In, StepTag> ins_closing;
  List<Request, StepTag> requests_closing;
  NearArray<Early> early;  ///< see Early
  uint32_t early_count = 0;
  NearArray<Answer> answers;  ///< FIFO from answer_head
  uint32_t answer_head = 0, answer_count = 0;
  uint32_t outs_used = 0, ins_used = 0;
  uint32_t servings_used = 0;  ///< kOwed or kWriting
  uint32_t begun = 0;          ///< Txs that are kBegun
  bool queue_first = false;    ///< messages of the queue and transfers take turns
  Instant last_sent = kNever, progress = kNever;
  ConnGauges gauges;
  WorkerMemory* const memory;

  void received(rc::Qp& qp, uint32_t buffer, uint32_t bytes, Instant now) override;
  void sent(rc::Qp& qp, uint64_t token, Instant now) override;
  void key_closed(rc::Qp& qp, rc::RemoteKey& key, Instant now) override;
  void broken(rc::Qp& qp, rc::Cause cause, Instant now) override;
  void drained(rc::Qp& qp, Instant now) override;
  [[nodiscard]] bool is_up() const { return phase == ConnPhase::kUp; }
};

/// The connections to one peer NI from one local NI.
struct Peer : Linked<PeerTag>, Linked<UnsettledTag> {
  NiId ni{};
  PeerNiId peer_ni{};
  Nid nid;
  List<Conn, SiblingTag> conns;  ///< kUp, the one to be used next first
  List<Tx, TxTag> waiting;
  bool asked = false;  ///< ConnWantedMsg is out, and neither answered nor withdrawn
  Owed wanted;         ///< ConnWantedMsg or ConnUnwantedMsg: the last word
  uint32_t holds = 0;  ///< callers that still use it (peer.cc)
};

}  // namespace ulnet::o2iblnd
