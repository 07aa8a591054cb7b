// The one interface between LNet's core and a network driver (LND). An LND has two halves: the worker half (`Lnd`, one
// instance per worker and Node, no locks inside) moves messages; the control half (`LndControl`, one per Node) starts
// and stops NIs, sets connections up, decides races, and places each connection on the worker that serves its peer NI.
//
// Words: *Tx* a message under way out; *RxSlot* a message coming in; *connection set* everything between one local NI
// and one peer NID. Time is handed in; nothing here reads a clock.
//
// Who owns what, after each call:
//   Lnd::submit(tx)         the LND, until it calls core.tx_done(tx) or core.get_done(tx) - one of them, exactly once,
//                           also after cancel() and close. Until then tx.payload and tx.sink are the LND's
//   core.rx_header(slot)
//     = kReceive            the LND receives into slot.into, discards what goes beyond, then core.rx_done(slot) once
//     = kHold               the core; the LND reads no further there and keeps the slot's memory until the core calls
//                           Lnd::resume(slot) - exactly once, also when the connection has died meanwhile
//     = kTaken              (movable slots only) the core, with the payload in slot.arrived; the LND goes on with the
//                           next message, in another slot, and keeps both until the core calls Lnd::release(slot) -
//                           exactly once, also when the connection has died meanwhile; there is no rx_done
//     = kRefused            (slots with a token only) the LND: it answers the peer with slot.refused, then
//                           core.rx_done(slot) once; no REPLY follows
//     = kProtocolError      nobody: the LND closes the connection, no rx_done
//   Lnd::resume(slot)       as after rx_header; slot.verdict is kReceive, kRefused or kProtocolError; the LND may call
//                           rx_done from within
//   Lnd::release(slot)      the LND: the slot and slot.arrived are free again
//   core.rx_done(slot)      the LND: the slot and its buffer are free again; slot.into is not touched any more.
//                           The core: slot.kept or slot.piped, until it calls give_back() on the same worker
//   core.tx_done(tx)        the core: the LND and the transport have let go of header, payload and sink
//   core.get_done(tx)       the same, for a GET whose answer lies in tx.sink, or that the peer refused
//
// A GET with remote writes. tx.sink is a window of the MD's memory, and empty if the GET must go as a message. With a
// sink the LND may show the window to the peer, which writes the answer there. The LND keeps the Tx until the peer is
// through, and no remote write can land in the sink after get_done() or tx_done(). That holds for each end:
//   the peer is through     get_done(tx, bytes), or get_done with the errno of its refusal
//   connection lost         tx_done with that error; the core may send the GET again over another connection
//   MD unlinked             cancel(tx, force = false): a GET that has begun goes on, and its MD ends with the Tx
//   deadline, NI stops      cancel(tx, force = true), ni_stop(): the connection closes, which ends all remote writes
// An LND that sends the GET as a message lets go of the sink with tx_done(); the REPLY comes as a message then.
//
// A GET_REQ of a peer comes as a slot with rdma_request and a token. If its verdict is kReceive, the core submits
// exactly one Tx with that token, on the same worker, after rx_header or resume has returned. That Tx is the REPLY of
// the request. The LND writes its payload over the connection of the request only. If that connection is gone, tx_done
// reports an error. Such a Tx holds no credits, because the GETs of the peer hold theirs until it is done.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/base/ids.h"
#include "dataplane/base/link_speed.h"
#include "dataplane/base/list.h"
#include "dataplane/base/nid.h"
#include "dataplane/base/result.h"
#include "dataplane/base/rng.h"
#include "dataplane/base/time.h"
#include "dataplane/base/wheel.h"
#include "dataplane/base/worker_memory.h"
#include "dataplane/state/chosen_hop.h"
#include "dataplane/state/kept.h"
#include "dataplane/state/payload.h"
#include "dataplane/state/posted.h"
#include "dataplane/state/ring_messages.h"
#include "dataplane/wire/header.h"

namespace ulnet {

struct NiSlice;    // dataplane/state/slices.h: one worker's part of a local NI
struct PeerLocal;  // dataplane/state/slices.h: the part of a next hop that each worker keeps
struct PeerSlice;  // dataplane/state/slices.h: the serving worker's part of a peer NI
struct Receiving;  // dataplane/state/message.h: a message that a payload is received for
struct Sending;    // dataplane/state/message.h: a message that a Tx is a part of

/// Whose fault a failure was: decides health and resends (docs/wire/lnet.md §9). Values are those of fault rules there.
enum class LndStatus : uint8_t {
  kOk = 0,
  kLocalInterrupt,
  kLocalDropped,
  kLocalAborted,
  kLocalNoRoute,
  kLocalError,
  kLocalTimeout,
  kRemoteError,
  kRemoteDropped,
  kRemoteTimeout,
  kNetworkTimeout,
  kCount
};
inline constexpr unsigned kLndStatuses = unsigned(LndStatus::kCount);

/// How a send or receive ended: 0 or a negative errno, and whose fault.
struct Completion {
  int32_t error = 0;
  LndStatus health = LndStatus::kOk;
};

/// How a GET ended that needs no REPLY message.
struct GetAnswer {
  bool come = false;
  uint32_t bytes = 0;  ///< in the sink, from its begin
  int32_t error = 0;   ///< 0, or the negative errno with which the peer refused it
};

/// A message that a delay rule holds, or has held (dataplane/stages/fault.h).
struct FaultDelay {
  Instant until = kNever;  ///< kNever: no rule has held it
  uint32_t rule = 0;       ///< FaultRule::id
};

/// The place of a Tx on the serving worker (dataplane/stages/egress.cc). If the Tx has no peer (loopback), or has a
/// token, its lease begins with kInLnd.
enum class TxStage : uint8_t {
  kNew,          ///< at home, or on its way to the serving worker or back
  kWaitsPeer,    ///< waits for a peer credit: in PeerSlice::credits
  kHasPeer,      ///< holds a peer credit, and needs an NI credit next
  kWaitsNi,      ///< holds a peer credit, waits for an NI credit: in NiSlice::credits
  kHasBoth,      ///< holds both credits: to be submitted
  kDelayed,      ///< holds both credits; a delay rule holds it: in Worker::delayed_sends
  kInLnd,        ///< the LND's; holds its peer credit, and the NI credit unless that was taken back
  kNoConnection  ///< the LND's, which had no connection for it in time: requested back
};

struct TxTag {};
struct NiCreditTag {};
struct NiTxTag {};
/// One message on its way out over one hop. Filled by the core, constant for the LND but for `lnd` and the link.
struct Tx : Linked<TxTag>, Linked<NiCreditTag>, Linked<NiTxTag>, Posted, Timer {
  wire::Header header;
  Payload payload;                ///< header.payload_length bytes
  PipedPayload* piped = nullptr;  ///< a part of them lies there, and not in `payload`: filled by the driver of `ni`
  Payload sink;                   ///< of a GET: where a remote write may put its answer; empty: none may (top of file)
  NiId ni{};                      ///< local NI to send from
  NiSlice* ni_slice = nullptr;
  PeerNiId peer_ni{};  ///< next hop
  PeerSlice* peer = nullptr;
  Nid next_hop;                 ///< the next hop's NID (header.dest_nid is the final destination)
  Instant deadline = kForever;  ///< not worth sending after this; the LND need not watch it before it has a connection
  bool routed = false;          ///< forwarded for another node: header.src_nid is not ours
  bool is_copied = false;       ///< at most Lnd::copied_bytes() of payload
  bool last_credit = false;     ///< holds the last credit of its kind, so that a message may wait for its end
  uint64_t token = 0;           ///< of a REPLY: RxSlot::token of the request that it answers; 0: a message of its own
  uint64_t lnd[4] = {};         ///< the LND's own while it owns the Tx
  // The serving worker's own.
  Instant started = kNever;       ///< when it came to the serving worker
  Instant ni_credit_at = kNever;  ///< when it got its NI credit
  Completion result;              ///< how it ended
  GetAnswer answer;               ///< of get_done()
  TxStage stage = TxStage::kNew;
  bool stays = false;          ///< goes over this pair of NIs, even if the worker avoids one of them
  bool rails = false;          ///< a request that another rail could carry: it does not wait long for a connection
  bool recovery = false;       ///< a recovery ping, or a probe of a rail
  bool moving = false;         ///< requested back from the LND, to take another path
  bool moved = false;          ///< ended for that: it was not sent, and nothing has failed
  bool no_connection = false;  ///< for a time, there was none for it, or for those before it
  FaultDelay delay;            ///< in this lease
  Sending* message = nullptr;  ///< that it is a part of; the serving worker reads Sending::recall only
  uint16_t home = 0;           ///< worker that gets it back
  static_assert(kWorkersMax - 1 <= std::numeric_limits<decltype(home)>::max());

  /// For the core: a new lease. Nothing of the one before is left in the fields that describe it.
  void lease_reset(const Payload& sink_of_get, uint64_t request_token) {
    sink = sink_of_get;
    token = request_token;
    result = {};
    answer = {};
    stage = TxStage::kNew;
    stays = rails = recovery = moving = moved = no_connection = false;
    delay.until = kNever;
  }
};

enum class RxVerdict : uint8_t { kReceive, kHold, kTaken, kRefused, kProtocolError };

/// How far the core has admitted a receive.
enum class Admission : uint8_t {
  kOpen,     ///< nothing is against it so far; home decides, or an MD receives it
  kDropped,  ///< the payload is discarded, and counts as dropped
  // To be forwarded (dataplane/stages/forward.cc); the next hop is chosen.
  kWantsCredit,  ///< needs a router credit of its sender next
  kWaitsCredit,  ///< waits for a router credit: in PeerSlice::rtr
  kHasCredit,    ///< holds a router credit, and needs a buffer next
  kWaitsHop,     ///< holds a router credit; its next hop has its share of the pool: in PeerLocal::waiting
  kWaitsBuffer,  ///< holds a router credit; the pool is empty: in RouterPool::waiting
  kHasBuffer     ///< holds a router credit and a buffer: the payload goes into the buffer
};

struct RxTag {};
struct HeldTag {};
struct ReceivingTag {};
/// One message coming in. Lives in the LND's connection or receive buffer; one per message that can be under way at
/// once.
struct RxSlot : Linked<RxTag>, Linked<HeldTag>, Linked<ReceivingTag>, Posted {
  // Set by the LND before rx_header, constant until rx_done.
  wire::Header header;
  NiId ni{};  ///< local NI of the connection that it came over
  NiSlice* ni_slice = nullptr;
  PeerNiId from_ni{};  ///< the immediate sender
  PeerSlice* from = nullptr;
  Nid from_nid;
  bool rdma_request = false;  ///< o2iblnd PUT_REQ / GET_REQ: the payload has not been sent yet; never movable
  uint64_t token = 0;         ///< of a GET_REQ: the LND's name for it, for the REPLY's Tx; 0: the REPLY is a message
  bool movable = false;   ///< all of the message is here, and the LND can read on without this slot: kTaken may come
  Payload arrived;        ///< the payload of a movable one, in memory of the LND, in the pieces that it came in
  Segment arrived_piece;  ///< the LND's, for a payload in one piece: see arrived_whole()
  // Set by the core: the verdict before the slot leaves its worker, or comes back; the window for kReceive.
  RxVerdict verdict = RxVerdict::kReceive;
  Payload into;           ///< where the first into.length bytes go; the rest of payload_length is discarded
  bool may_keep = false;  ///< the payload may stay where it arrives: the LND may use `kept` instead of `into`
  bool may_pipe = false;  ///< a part may stay in the kernel: the LND may use `piped`, and `into` for the rest
  int32_t refused = 0;    ///< kRefused: the negative errno for the peer
  // Set by the LND for rx_done() without an error: the core's from then on.
  KeptPayload* kept = nullptr;
  PipedPayload* piped = nullptr;
  // The core's own from rx_header to rx_done.
  Admission admission = Admission::kOpen;
  uint16_t conn_worker = 0;      ///< worker of the connection, to which a verdict goes back
  Receiving* message = nullptr;  ///< the payload is received for it; null: the payload is discarded
  Tx* reply = nullptr;           ///< the REPLY to a slot with a token; sent when the LND has the verdict
  PeerLocal* hop = nullptr;      ///< next hop of a receive to be forwarded; else null
  ChosenHop chosen;              ///< valid while `hop` is set
  Instant held_since = kNever;   ///< since when it has been in Worker::held_router
  Instant came = kNever;         ///< when its header came
  FaultDelay delay;
  static_assert(kWorkersMax - 1 <= std::numeric_limits<decltype(conn_worker)>::max());

  /// For the LND: begins a message that came over the connection of `peer`. Nothing of the one before is left, but for
  /// what is the core's own.
  void begin(const wire::Header& what, NiId at, NiSlice* slice, PeerNiId peer_ni, PeerSlice* peer,
             const Nid& peer_nid) {
    header = what;
    ni = at;
    ni_slice = slice;
    from_ni = peer_ni;
    from = peer;
    from_nid = peer_nid;
    rdma_request = movable = may_keep = may_pipe = false;
    kept = nullptr;
    piped = nullptr;
    token = 0;
    arrived = {};
    verdict = RxVerdict::kReceive;
    into = {};
  }
  /// For the LND: all of the payload is at `base`. The slot must not move from here on.
  void arrived_whole(std::byte* base, uint32_t bytes) {
    arrived_piece = {base, bytes};
    arrived = {&arrived_piece, 1, 0, bytes};
  }
};

/// Calls of an LND's worker half into the core, on its worker only. Implemented in dataplane/stages/driver_calls.h.
class LndCore {
 public:
  /// A header has been parsed. Fills slot.into and returns what to do with the payload (ownership: top of file).
  [[nodiscard]] virtual RxVerdict rx_header(RxSlot& slot, Instant now) = 0;
  /// The payload is in place, or the connection broke (error set). For messages without payload: right after rx_header.
  virtual void rx_done(RxSlot& slot, Completion how, Instant now) = 0;
  virtual void tx_done(Tx& tx, Completion how, Instant now) = 0;
  /// Ends a GET with its Tx: `bytes` of the sink are in place (error 0), or the peer refused it (a negative errno).
  /// Instead of tx_done. Requires bytes <= tx.sink.length: the LND checks the peer's number.
  virtual void get_done(Tx& tx, uint32_t bytes, int32_t error, Instant now) = 0;
  /// The Tx waits in the driver for a connection: it holds no NI credit from here on. May be said more than once.
  virtual void tx_waits(Tx& tx, Instant now) { (void)tx, (void)now; }
  /// A Tx that waited has a connection.
  virtual void tx_connected(Tx& tx, Instant now) { (void)tx, (void)now; }
  /// Sends `msg` to the control half. Never lost: if the ring is full, `msg` waits in `owed`. If one waits there
  /// already, `msg` replaces it and keeps its place. Control may act at once: an object that control frees upon `msg`
  /// must not be used after this call.
  virtual void to_control(Owed& owed, const LndMsg& msg) = 0;
  /// The same for a message that no object owes. False: as many such messages wait as there is room for; nothing was
  /// sent, and the caller fails what needed it.
  [[nodiscard]] virtual bool ask_control(const LndMsg& msg) = 0;
  [[nodiscard]] virtual WorkerId worker_id() const = 0;
  /// For the pools that a driver makes when it is made itself; outlives it. Null: the heap.
  [[nodiscard]] virtual WorkerMemory* worker_memory() const { return nullptr; }

 protected:
  ~LndCore() = default;
};

/// Worker half of an LND.
class Lnd {
 public:
  virtual ~Lnd() = default;
  /// Sends. Takes the Tx in any case; a failure is reported by tx_done, which may come before submit returns.
  virtual void submit(Tx& tx, Instant now) = 0;
  /// Goes on with a held slot (see top of file).
  virtual void resume(RxSlot& slot, Instant now) = 0;
  /// The core is through with a slot that it took along (see top of file). Never from within rx_header.
  virtual void release(RxSlot& slot, Instant now) = 0;
  /// Wants slot.into back before the payload is complete: the LND discards what still comes and calls rx_done(slot,
  /// ECANCELED) as soon as the transport has let go of the memory. No effect when rx_done was called already.
  virtual void divert(RxSlot& slot, Instant now) = 0;
  /// Wants the payload memory back. Not begun: tx_done at once, with ECANCELED and kOk, past its deadline as expired.
  /// Begun: nothing, unless `force`: then the connection is closed and tx_done follows with an error.
  virtual void cancel(Tx& tx, bool force, Instant now) = 0;
  /// The last time when bytes moved over connections of this pair: some came, or the peer's machine acknowledged some.
  /// Compares with the last call. `now` if no bytes wait to be acknowledged; kNever: not known.
  [[nodiscard]] virtual Instant moved(NiId ni, PeerNiId peer_ni, Instant now) {
    (void)ni, (void)peer_ni, (void)now;
    return kNever;
  }
  /// Reaps at most `budget` completions; returns how many. One message is run to its end before the next. A driver may
  /// send here what it has gathered, instead of in flush().
  virtual unsigned poll(unsigned budget, Instant now) = 0;
  /// Expired deadlines; returns work done.
  virtual unsigned timers(Instant now) = 0;
  /// Hands everything gathered in this turn to the kernel or device.
  virtual void flush(Instant now) = 0;
  /// A message of the control half.
  virtual void from_control(const LndMsg& msg, Instant now) = 0;
  /// Earliest moment at which timers() has something to do; kForever if none.
  [[nodiscard]] virtual Instant next_deadline() = 0;
  /// True when poll() would find something now: the re-check before sleep.
  [[nodiscard]] virtual bool pending() = 0;
  /// File descriptors that become readable when poll() has work, for the blocking wait; none = this LND must be polled.
  virtual unsigned wait_fds(std::span<int> out) = 0;
  /// Waits until much of a large payload has come, which no spin makes faster: the worker may sleep at once.
  [[nodiscard]] virtual bool patient() const { return false; }
  /// True when no Tx, RxSlot or connection is left here.
  [[nodiscard]] virtual bool idle() const = 0;
  /// Largest payload that is copied into the transport at once, with no buffer of the peer behind its credit. With
  /// such payloads, kCopiedOverdraft more messages than there are peer credits may be under way. 0: none.
  [[nodiscard]] virtual uint32_t copied_bytes() const { return 0; }
};

/// A local NI as control starts it.
struct NiParams {
  NiId id{};
  Nid nid;
  std::string interface;       ///< "" when given by NID
  int32_t peer_timeout = 180;  ///< s
  int32_t peer_credits = 8;
  int32_t peer_buffer_credits = 0;
  int32_t credits = 256;
  uint32_t device_mbps = 0;       ///< link speed of the NI's device; 0 = unknown
  std::vector<int64_t> tunables;  ///< by row of DriverType::ni_tunables; rows beyond the last have their default
  std::vector<NiSlice*> slices;   ///< one per worker, owned by those workers
};

/// Where control put a peer NI.
struct PeerPlace {
  PeerNiId id{};
  WorkerId worker = kNoWorker;
  PeerSlice* slice = nullptr;  ///< owned by `worker`; alive as long as the LND names it (LndControl::names)
};

/// A peer that connected to us, and of whose NID there is only its own word.
struct Stranger {
  Nid address;                      ///< where it connected from, as a NID of the same net
  WorkerId arrives_at = kNoWorker;  ///< the worker at whose queue its packets arrive; kNoWorker: unknown
};

/// What an LND's control half may ask of control. Calls are made on the control thread only.
class LndControlHost {
 public:
  /// To the worker half. Never lost: waits in control when the ring is full.
  virtual void to_worker(WorkerId worker, const LndMsg& msg) = 0;
  /// Finds or creates the peer NI. Errors: ENOMEM when the bound on peers is reached.
  [[nodiscard]] virtual Result<PeerPlace> place_peer(const Nid& nid, NiId from) = 0;
  /// The same for a stranger. Errors: ENOMEM also when its address has brought too many NIDs.
  [[nodiscard]] virtual Result<PeerPlace> place_stranger(const Nid& nid, NiId from, const Stranger& stranger) {
    (void)stranger;
    return place_peer(nid, from);
  }
  /// The driver's half on the workers names the peer NI no longer: its last connection set is gone.
  virtual void peer_left(PeerNiId peer_ni) { (void)peer_ni; }
  /// Everything of this NI is gone from every worker (answer to ni_stop).
  virtual void ni_stopped(NiId ni) = 0;
  /// The device or link of the NI failed or came back (docs/wire/lnet.md §9.3).
  virtual void ni_fatal(NiId ni, bool fatal) = 0;
  /// The speed of the NI's link; may be said again. A link that is slower than its device can degrades the NI.
  virtual void ni_speed(NiId ni, LinkSpeed speed) { (void)ni, (void)speed; }
  /// A connection to the peer NI came up, or all attempts failed.
  virtual void peer_up(PeerNiId peer_ni) = 0;
  virtual void peer_down(PeerNiId peer_ni, int error) = 0;
  /// One line for the operator (journal); not per message.
  virtual void log(const std::string& line) = 0;
  /// Memory is short: what can be refused has to be refused, so that what has begun comes to its end.
  [[nodiscard]] virtual bool memory_low() { return false; }
  [[nodiscard]] virtual unsigned worker_count() const = 0;
  /// For what the control half makes and this worker uses; outlives the driver. Null: the heap.
  [[nodiscard]] virtual WorkerMemory* worker_memory(WorkerId worker) {
    (void)worker;
    return nullptr;
  }
  [[nodiscard]] virtual Rng& rng() = 0;

 protected:
  ~LndControlHost() = default;
};

/// A connection as `peer show` shows it.
struct ConnectionShow {
  const char* state = "";                                ///< one word
  std::vector<std::pair<const char*, int64_t>> limits;   ///< the same as `numbers`, but a sum of them means nothing
  std::vector<std::pair<const char*, int64_t>> numbers;  ///< each with its name; the same names for all of a driver
};

/// Control half of an LND. Only region_add() and region_remove() may block.
class LndControl {
 public:
  virtual ~LndControl() = default;
  /// Opens what the NI needs (listener, device). Errors name what is missing: ENODEV, EADDRNOTAVAIL, EADDRINUSE,
  /// EACCES.
  [[nodiscard]] virtual Result<void> ni_start(const NiParams& params, Instant now) = 0;
  /// Stops listening and dialling and closes the NI's connections on every worker; host.ni_stopped() follows later.
  /// A Tx that is caught by it ends with ESHUTDOWN: with kLocalAborted, so that it may be sent again over another NI,
  /// unless the peer may have all of it already (kLocalError).
  virtual void ni_stop(NiId ni, Instant now) = 0;
  /// Gives a running NI other values of its settings, all of `tunables` or nothing: deadlines and connections made from
  /// now on follow them. A driver that can change nothing leaves this as it is. Errors: ENOENT (no such NI, or it is
  /// stopping), EOPNOTSUPP (the driver cannot change a setting that differs; the words say which).
  [[nodiscard]] virtual Result<void> ni_tune(NiId ni, std::span<const int64_t> tunables, Instant now) {
    (void)tunables;
    (void)now;
    return fail(EOPNOTSUPP, "this driver cannot change a running NI", ni.value);
  }
  /// The values in force, by row: where NiParams::tunables lets the driver choose, its choice. Empty: as given.
  [[nodiscard]] virtual std::vector<int64_t> ni_tunables(NiId ni) const {
    (void)ni;
    return {};
  }
  /// A recovery ping to this peer NI follows. If an attempt to connect has failed before, the next message starts
  /// another without a back-off. An attempt that has no answer yet is made again.
  virtual void connect_again(NiId ni, const Nid& peer, Instant now) { (void)ni, (void)peer, (void)now; }
  /// Connections of the NI, those that are being closed among them; 0 where the driver does not count.
  [[nodiscard]] virtual unsigned ni_connections(NiId ni) const {
    (void)ni;
    return 0;
  }
  /// Connections of the NI to this peer NI, or to all of them (kAnyNid). Empty where the driver shows none. Numbers of
  /// workers may be a turn old.
  [[nodiscard]] virtual std::vector<ConnectionShow> connections(NiId ni, const Nid& peer) const {
    (void)ni, (void)peer;
    return {};
  }
  /// How often peers of the NI broke the protocol, each kind with its name; the same names for all NIs of a driver.
  /// Empty where the driver does not count.
  [[nodiscard]] virtual std::vector<std::pair<const char*, int64_t>> peer_faults(NiId ni) const {
    (void)ni;
    return {};
  }
  /// True if a connection refers to this slice, also while the connection is made or closed. If false, only
  /// place_peer() or a message that the core submits makes another reference. Control calls this for peer NIs that were
  /// removed, and frees the memory when no driver refers to it.
  [[nodiscard]] virtual bool names(const PeerSlice& slice) const = 0;
  /// Up to this number of bytes the driver copies: a Tx's payload, a sink, and a message that comes. If one of them is
  /// longer, each segment of the payload, of the sink, or of the slot's window names its region. The window may be
  /// shorter than the message. UINT32_MAX: the driver needs no regions.
  [[nodiscard]] virtual uint32_t regions_above() const { return UINT32_MAX; }
  /// Does the driver send over this NI from any memory (kKeptRegion) without a copy? Constant while the NI runs.
  [[nodiscard]] virtual bool sends_any_memory(NiId ni) const {
    (void)ni;
    return regions_above() == UINT32_MAX;
  }
  /// Registers memory with each device that the driver uses. Segment::region names the region from then on, on each
  /// worker. A device that comes later, with an NI, gets all regions before that NI is up. May block: the call runs on
  /// the node's helper, one call at a time, while control's thread is in other functions of this half. Errors: the
  /// device's, for instance ENOMEM. The driver then has nothing of the memory.
  [[nodiscard]] virtual Result<void> region_add(RegionId region, std::span<std::byte> memory) {
    (void)region, (void)memory;
    return {};
  }
  /// No Tx or slot uses the region, and the memory goes back to its owner. Threads as region_add(). The destructor of
  /// this half releases the regions that are left.
  virtual void region_remove(RegionId region) { (void)region; }
  virtual void from_worker(WorkerId worker, const LndMsg& msg, Instant now) = 0;
  /// Runs what is due; returns work done.
  virtual unsigned turn(Instant now) = 0;
  [[nodiscard]] virtual Instant next_deadline() = 0;
  /// File descriptors that become readable when turn() has work.
  virtual void wait_fds(std::vector<int>& out) = 0;
};

}  // namespace ulnet
