// One TCP connection and one connection set, as the worker half keeps them: state only, the rules are in conn_rx,
// conn_tx, conn_set and timers. Objects are allocated by the control half, lent to one worker, and given back
// (messages.h). The first block of each struct is written by control before the loan and is constant after.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "dataplane/base/gauge.h"
#include "dataplane/base/list.h"
#include "dataplane/base/wheel.h"
#include "dataplane/state/payload.h"
#include "lnd/lnd.h"
#include "lnd/socklnd/config.h"
#include "lnd/socklnd/proto/frame.h"
#include "lnd/socklnd/proto/zc.h"
#include "lnd/socklnd/stream.h"
#include "lnd/socklnd/zc.h"

namespace ulnet::socklnd {

struct Conn;
struct ConnSet;

struct SiblingTag {};
struct DirtyTag {};
struct ReadyTag {};
struct SetTag {};
struct TakenTag {};

/// Where a Tx is while socklnd owns it (Tx::lnd, see TxState).
enum class TxPlace : uint8_t {
  kOrphan,   ///< in SockWorker::orphans: its set does not exist yet
  kWaiting,  ///< in ConnSet::waiting: no suitable connection
  kQueued,   ///< in ConnTx::queue: no byte has been handed over
  kBegun,    ///< in ConnTx::ring: (partly) with the transport
  kZcWait    ///< in ConnSet::zc_wait: sent by a connection that is up, the peer's zero-copy ack is missing
};

/// The view that socklnd has of Tx::lnd.
class TxState {
 public:
  explicit TxState(Tx& tx) : tx_(tx) {}
  void place(TxPlace where, void* holder) {
    tx_.lnd[0] = (tx_.lnd[0] & kLends) | uint64_t(where);
    tx_.lnd[1] = reinterpret_cast<uint64_t>(holder);
  }
  [[nodiscard]] TxPlace place() const { return TxPlace(tx_.lnd[0] & 0xFF); }
  [[nodiscard]] Conn* conn() const { return reinterpret_cast<Conn*>(tx_.lnd[1]); }
  [[nodiscard]] ConnSet* set() const { return reinterpret_cast<ConnSet*>(tx_.lnd[1]); }
  /// The transport may read the payload in its memory, until the cookie is acknowledged.
  [[nodiscard]] bool lends() const { return (tx_.lnd[0] & kLends) != 0; }
  void lend() { tx_.lnd[0] |= kLends; }
  /// 0: the message has none.
  [[nodiscard]] uint64_t cookie() const { return tx_.lnd[2]; }
  void cookie(uint64_t value) { tx_.lnd[2] = value; }
  /// The peer has acknowledged the cookie: it has the message, although the send may not be reported yet.
  [[nodiscard]] bool acknowledged() const { return tx_.lnd[2] == kAcknowledged; }
  void acknowledge() { tx_.lnd[2] = kAcknowledged; }
  [[nodiscard]] Instant expires() const { return Instant{Duration{int64_t(tx_.lnd[3])}}; }
  void expires(Instant at) { tx_.lnd[3] = uint64_t(at.time_since_epoch().count()); }

 private:
  static constexpr uint64_t kLends = 0x100;                    ///< of lnd[0]
  static constexpr uint64_t kAcknowledged = kKeepaliveCookie;  ///< no message has this cookie
  static_assert(kAcknowledged != 0 && kAcknowledged < kFirstZcCookie);
  Tx& tx_;
};

/// A receive slot that knows its connection.
struct SockSlot : RxSlot, Linked<TakenTag> {
  Conn* conn = nullptr;
  bool lap = false;  ///< ConnRx::lap when it was taken along
};

enum class RxState : uint8_t {
  kHeader,   ///< between messages, or inside the headers
  kHeld,     ///< the core holds the slot: nothing is read
  kPayload,  ///< bytes go to slot->into
  kDiscard   ///< bytes beyond slot->into go nowhere
};

struct ConnRx {
  RxState state = RxState::kHeader;
  bool receiving = false;   ///< the engine has a receive of ours
  bool slot_busy = false;   ///< rx_done is owed
  bool diverted = false;    ///< divert() waits for the engine to let go of slot->into
  bool may_pipe = false;    ///< the rest of the payload under way may go to `pipe`
  bool piping = false;      ///< the receive under way fills `pipe`
  bool after_pipe = false;  ///< the last payload went to a pipe, and the next may follow it there
  bool full = false;        ///< no receive is posted: `buffer` is full of what the core took along
  bool lap = false;         ///< changes when reading goes back to the begin of `buffer`
  /// Slots that the core took along, oldest first. Their payloads lie in `buffer`: those of this lap before `end`,
  /// those of the lap before, if there are any, behind it.
  List<SockSlot, TakenTag> taken;
  FrameDecoder decoder;
  SockSlot own;                ///< for messages that stop the stream until they are received
  SockSlot* slot = &own;       ///< of the message under way: `own`, or one of SockWorker::slots
  StreamPipe* pipe = nullptr;  ///< has a part of the payload under way, if it has any
  PayloadCursor cursor;        ///< into slot->into
  uint32_t discard_bytes = 0;  ///< payload bytes behind those of `cursor`
  uint32_t direct_bytes = 0;   ///< of the receive under way: how many go straight to slot->into
  uint32_t csum = 0;
  Instant last_byte = kNever;
  uint32_t begin = 0, end = 0;  ///< unread part of `buffer`
  std::array<std::byte, kRecvBufferBytes> buffer;
};

/// A message that was begun: its encoded prefix must stay until all bytes are sent. `tx` is null for a NOOP.
struct OutEntry {
  std::array<std::byte, kFramePrefixMaxBytes> prefix;
  uint32_t prefix_bytes = 0;
  Tx* tx = nullptr;
  [[nodiscard]] uint32_t bytes() const { return prefix_bytes + (tx == nullptr ? 0 : tx->payload.length); }
};

struct ConnTx {
  bool sending = false;  ///< the engine has a send of ours
  List<Tx, TxTag> queue;
  std::array<FrameHeader, kAcksQueuedMax> noops;  ///< acks and keepalives, FIFO from noop_head
  uint32_t noop_head = 0, noop_count = 0;
  std::array<OutEntry, kBatchMessages> ring;
  uint32_t ring_head = 0, ring_count = 0;
  uint32_t front_sent = 0;     ///< bytes sent of the first entry of the ring
  PayloadCursor front_cursor;  ///< its payload, from the first unsent byte
  uint64_t queued_bytes = 0;   ///< queued or begun, not reported sent
  uint64_t sent_bytes = 0;     ///< reported sent, ever
  uint64_t acked_bytes = 0;    ///< of them taken by the peer's machine, as of the last look
  uint64_t unsent_bytes = 0;   ///< still in the transport, as of the last look
  bool watched = false;        ///< bytes may be on their way: progress_at is valid
  Instant progress_at = kNever;
  Instant stalled_since = kNever;  ///< the look before progress_at: a stall may be as old
  Instant looked_at = kNever;
  bool failed_lends = false;    ///< closing: memory of the message whose send failed is lent
  bool lent = false;            ///< memory was lent since the last look at losses
  uint64_t judged_sent = 0;     ///< sent_bytes as of that look
  uint64_t judged_lost = 0;     ///< StreamEngine::resent_bytes() as of that look
  Instant lends_from = kNever;  ///< until then, payloads are copied
  bool resends_soon = false;    ///< StreamEngine::resend_within() is in force
  uint64_t last_used = 0;       ///< ConnSet::use_sequence when it was last chosen
};

enum class ConnPhase : uint8_t { kNew, kUp, kClosing, kClosed };

/// Thread: one worker, between ConnAddMsg and ConnDeadMsg.
struct Conn : Timer, Linked<SiblingTag>, Linked<DirtyTag>, Linked<ReadyTag> {
  ConnSet* set = nullptr;
  ConnType type = ConnType::kAny;
  uint32_t version = kVersion3;
  bool flip = false;
  bool rewrite_source = false;  ///< USERFLAG peer: headers say what we say (docs/wire/socklnd.md §4)
  bool on_wire = false;         ///< packets cross hardware (SockDevices::on_wire())

  ConnPhase phase = ConnPhase::kNew;
  bool reset = false;              ///< closing: at once, without the bytes that the peer's machine has not taken
  bool ended = false;              ///< closing: what the engine and the core do not hold has been completed
  int error = 0;                   ///< why it was closed: negative errno
  Owed closed, dead;               ///< ConnClosedMsg, ConnDeadMsg
  WorkerMemory* memory = nullptr;  ///< that it lies in
  StreamId stream;
  ConnRx rx;
  ConnTx tx;
};

/// Thread: one worker, between SetOpenMsg and SetGoneMsg.
struct ConnSet : Timer, Linked<SetTag> {
  explicit ConnSet(uint32_t zc_outstanding_max, WorkerMemory* near_memory = nullptr)
      : zc_book(zc_outstanding_max, near_memory), memory(near_memory) {}
  void received(Instant now) {
    last_received = now;
    used_ns.set(now.time_since_epoch().count());
  }
  uint64_t id = 0;  ///< control's number of it
  NiId ni{};
  NiSlice* ni_slice = nullptr;
  PeerNiId peer_ni{};
  PeerSlice* peer = nullptr;
  Nid nid;  ///< the peer's
  uint32_t pid = kLnetPid;
  Duration timeout = 50s;  ///< SetTimeoutMsg changes it

  List<Conn, SiblingTag> conns;  ///< phase kUp
  List<Conn, SiblingTag> dying;  ///< kClosing and kClosed
  List<Tx, TxTag> waiting;
  List<Tx, TxTag> zc_wait;
  ZcBook zc_book;
  bool asked = false;  ///< ConnsWantedMsg is out and not answered
  Owed wanted, gone;   ///< ConnsWantedMsg, SetGoneMsg
  uint64_t use_sequence = 0;
  Instant last_received = kNever;
  Gauge used_ns;  ///< when it last received anything or was given a message, ns. worker: w, control: r
  Instant last_keepalive = kNever;
  Instant last_probe = kNever;
  WorkerMemory* const memory;  ///< that it lies in
};

}  // namespace ulnet::socklnd
