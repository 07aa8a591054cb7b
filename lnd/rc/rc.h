// Reliable connections (RC): the part of RDMA that o2iblnd needs. Connections are set up with private data. Messages go
// into posted buffers, writes into memory for which the peer has given a key. There is no shared receive queue, no RDMA
// READ and no atomic operation. Providers: sim/ for tests, verbs/ over rdma-core, roce/ over packet ports. All pass one
// test (tests/unit/rc). Time is handed in.
//
// A provider has two halves, as a driver (lnd/lnd.h). `Control` sets connections up on the control thread. Each worker
// has a `Worker`, which moves messages over the queue pairs that it has adopted. One queue pair is on one worker.
//
// A connection, step by step:
//   active                               passive
//   dial()                               kRequest comes, with the private data of the REQ
//                                        prepare(), or reject() and the connection is gone
//   kReady comes, with the Qp            kReady comes, with the Qp
//   The worker adopts the Qp and posts receive buffers. Only then:
//   proceed() sends the REQ              proceed() sends the REP
//   kEstablished, with the REP's data    kEstablished (the RTU came, or a message)
//   or kFailed                           or kFailed, also if neither comes within kAnswerMax
// The peer may send as soon as it has the REP, so messages may come before kEstablished.
//
// The end: kFailed, kClosed, or Control::disconnect() ends a connection; QpUser::broken() says so on the worker. If the
// worker sees the failure of an established connection first, its owner calls disconnect(). Each attempt gets
// kEstablished or kFailed, also if the worker sees its failure first: kFailed has the cause, and the data of a reject.
// After disconnect(), the queue pair hands everything back. After QpUser::drained(), no write of the peer lands any
// more, and no memory is in use. The worker releases the Qp, and control destroys the connection.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/ids.h"
#include "dataplane/base/link_speed.h"
#include "dataplane/base/result.h"
#include "dataplane/base/time.h"
#include "dataplane/state/kept.h"
#include "dataplane/state/payload.h"
#include "lnd/net/packet/net_address.h"

namespace ulnet::rc {

using dpdk::IpAddress;

struct Endpoint {
  IpAddress address;
  uint16_t port = 0;
  constexpr auto operator<=>(const Endpoint&) const = default;
};

using ConnId = uint64_t;      ///< never 0, not used again by one Control
using ListenerId = uint32_t;  ///< the same

/// Why a connection ended, or did not come about.
enum class Cause : uint8_t {
  kNone,
  kClosed,         ///< by disconnect() of this side
  kPeerClosed,     ///< the peer's DREQ came
  kNoListener,     ///< nobody listens at the peer's port (CM reject reason 8)
  kStale,          ///< the peer still has an earlier connection (CM reject reason 10)
  kRejected,       ///< the peer's consumer refused (CM reject reason 28), with private data
  kRefused,        ///< the peer's CM refused for another reason
  kUnreachable,    ///< no way to the address
  kNoAnswer,       ///< the peer's CM does not answer
  kRetryExceeded,  ///< the peer does not acknowledge
  kRnrExceeded,    ///< the peer has no receive buffer
  kRemoteAccess,   ///< the peer refused an operation, or has sent one that this side refused
  kLocal,          ///< this side's own operation was wrong: memory, length
  kResources,      ///< the device has no queue pair or memory left
  kDevice          ///< the device or its port is gone
};
inline constexpr unsigned kCauses = unsigned(Cause::kDevice) + 1;
/// A few words for logs; "" for kNone.
[[nodiscard]] const char* cause_text(Cause cause);

// --- Queue pairs -----------------------------------------------------------------------------------------------------

/// The needs of a queue pair. A device may give less (Qp).
struct QpNeeds {
  WorkerId worker{};
  uint32_t receives = 0;      ///< receive buffers
  uint32_t sends = 0;         ///< send buffers
  uint32_t buffer_bytes = 0;  ///< of each of them
  uint32_t work = 0;          ///< operations under way at once: sends, writes, keys
  uint32_t keys = 0;          ///< keys that are open at once
  uint32_t pieces = 1;        ///< segments of one write
  uint8_t retry_count = 5;
  uint8_t rnr_retry_count = 6;
  int16_t tos = -1;  ///< -1: not set
};

class QpUser;
/// One end of a connection. Providers derive from it. Control makes it, then it belongs to its worker from adopt() to
/// release().
class Qp {
 public:
  // Constant: as the device could give it.
  ConnId conn = 0;
  WorkerId worker{};
  uint32_t receives = 0, sends = 0, buffer_bytes = 0, work = 0, keys = 0, pieces = 0;
  std::byte* receive_memory = nullptr;  ///< `receives` buffers; the peer's messages come here
  std::byte* send_memory = nullptr;     ///< `sends` buffers, for messages
  [[nodiscard]] std::span<std::byte> receive_buffer(uint32_t index) const {
    return {receive_memory + size_t{index} * buffer_bytes, buffer_bytes};
  }
  [[nodiscard]] std::span<std::byte> send_buffer(uint32_t index) const {
    return {send_memory + size_t{index} * buffer_bytes, buffer_bytes};
  }

 protected:
  Qp() = default;
  ~Qp() = default;
};

/// Right of the peer to write into a window of memory, over one queue pair. Belongs to the caller, and stays at its
/// place from key_open() until key_closed() or drained().
struct RemoteKey {
  uint64_t token = 0;  ///< the caller's own
  /// The caller's, for key_open(): the provider may keep what comes instead of putting it into the window.
  bool may_keep = false;
  uint32_t value = 0;  ///< for the peer
  bool open = false;
  /// Set by key_closed(), if the provider has kept something: the whole window as the peer wrote it. The caller gives
  /// it back. Null: the window has the bytes.
  KeptPayload* kept = nullptr;
  uint64_t provider[2] = {};
};

/// How key_open() and the posting calls ended.
enum class Posted : uint8_t {
  kYes,
  kNoRoom,     ///< too many operations or keys: try again after a call of sent() or key_closed()
  kImpossible  ///< key_open(): the window is not one piece of one region; write(): a segment has no region
};

/// Does the end of a message wake a worker that sleeps?
enum class Wake : uint8_t {
  kYes,
  kNo  ///< alone not: sent() comes when the worker turns anyway, at the latest with the next event of this queue pair
};

/// The events of a queue pair. Each call is made on its worker, from within Worker::poll() or Worker::timers().
class QpUser {
 public:
  /// A message has come into this receive buffer, which is the caller's until receive() posts it again. An answer may
  /// come before sent() of the message that it answers.
  virtual void received(Qp& qp, uint32_t buffer, uint32_t bytes, Instant now) = 0;
  /// The peer's device has acknowledged this operation and all before it. `token` is not 0.
  virtual void sent(Qp& qp, uint64_t token, Instant now) = 0;
  /// The peer cannot write by this key any more (but see Device::keys_end).
  virtual void key_closed(Qp& qp, RemoteKey& key, Instant now) = 0;
  /// The connection has ended: nothing more comes, and nothing can be posted. Once.
  virtual void broken(Qp& qp, Cause cause, Instant now) = 0;
  /// The last call, after broken() and Control::disconnect(): all memory is the caller's. Operations and keys that were
  /// not reported have failed.
  virtual void drained(Qp& qp, Instant now) = 0;

 protected:
  ~QpUser() = default;
};

/// The worker half. No call blocks; none but poll() and timers() calls a QpUser. After a queue pair has failed, posting
/// calls return kYes, and the operation is lost; broken() follows, if it has not come yet.
class Worker {
 public:
  virtual ~Worker() = default;
  /// The queue pair is this worker's from here on. Requires: kReady brought it, for this worker.
  virtual void adopt(Qp& qp, QpUser& user) = 0;
  /// Gives it back to control. Requires: drained().
  virtual void release(Qp& qp) = 0;

  /// Posts a receive buffer. No effect after broken().
  virtual void receive(Qp& qp, uint32_t buffer) = 0;
  /// Sends the first `bytes` of a send buffer, which is the provider's until sent() with this token, or a later one. A
  /// token of 0 is not reported. Requires: kEstablished, or a message has come.
  [[nodiscard]] virtual Posted send(Qp& qp, uint32_t buffer, uint32_t bytes, uint64_t token, Wake wake) = 0;
  /// Writes these segments, at most Qp::pieces, to `address` of the peer's memory. Operations of one queue pair take
  /// effect in order: a message that is sent later comes when the bytes are in place. The memory is the provider's
  /// until sent() of this token or a later one. Requires: as send(), and each segment names its region.
  [[nodiscard]] virtual Posted write(Qp& qp, std::span<const Segment> from, uint32_t key, uint64_t address,
                                     uint64_t token) = 0;
  /// Opens a key for a window, which has to lie in one piece in one region. A byte of it has its own address for the
  /// peer. The peer may use the key when a message that is sent later has come.
  [[nodiscard]] virtual Posted key_open(Qp& qp, RemoteKey& key, const Payload& window) = 0;
  /// Takes the right back; key_closed() follows. Requires: key.open.
  [[nodiscard]] virtual Posted key_close(Qp& qp, RemoteKey& key) = 0;
  /// Operations of this queue pair that may be posted now.
  [[nodiscard]] virtual uint32_t room(const Qp& qp) const = 0;

  /// Reaps at most `budget` completions; returns how many.
  virtual unsigned poll(unsigned budget, Instant now) = 0;
  virtual unsigned timers(Instant now) = 0;
  /// Hands what was posted to the device.
  virtual void flush(Instant now) = 0;
  [[nodiscard]] virtual Instant next_deadline() = 0;
  /// Would poll() find something? The re-check before sleep.
  [[nodiscard]] virtual bool pending() = 0;
  /// File descriptors that become readable when poll() has work.
  virtual unsigned wait_fds(std::span<int> out) = 0;
};

// --- Connections -----------------------------------------------------------------------------------------------------

inline constexpr size_t kRequestDataMax = 56;     ///< private data of a REQ, behind the header of the CM's IP service
inline constexpr size_t kReplyDataMax = 196;      ///< of a REP
inline constexpr size_t kRejectDataMax = 148;     ///< of a REJ
inline constexpr Duration kAnswerMax = 12'500ms;  ///< for the RTU of a peer; for its REP, if DialSpec does not say

struct DialSpec {
  IpAddress local;
  Endpoint remote;
  bool privileged_port = true;       ///< source port from 1023 downwards
  Duration resolve_max = 5s;         ///< for the address, and for the route
  Duration answer_max = kAnswerMax;  ///< for all of it, the peer's answer included
  QpNeeds needs;
};

enum class EventKind : uint8_t {
  kRequest,      ///< a REQ has come from a peer
  kReady,        ///< the queue pair is there: Event::qp
  kEstablished,  ///< Event::data: of the REP, at the active side
  kFailed,       ///< before kEstablished: Event::cause; data of a reject
  kClosed,       ///< after kEstablished, by the peer or the device
  kDevice        ///< a device of a listener, or its port, has changed: device() has its state
};

struct Event {
  EventKind kind = EventKind::kFailed;
  Cause cause = Cause::kNone;
  ConnId conn = 0;
  ListenerId listener = 0;          ///< kRequest, kDevice
  Endpoint remote;                  ///< kRequest: the source of the REQ
  WorkerId arrives_at = kNoWorker;  ///< kRequest: the worker at whose queue packets of the peer will arrive, if known
  Qp* qp = nullptr;                 ///< kReady
  uint8_t bytes = 0;                ///< of `data`
  std::array<std::byte, kReplyDataMax> data{};
  [[nodiscard]] std::span<const std::byte> private_data() const { return {data.data(), bytes}; }
};

/// A device as its listener sees it.
struct Device {
  std::string name;
  bool known = true;    ///< false: kDevice is to come, and nothing else here is right before
  bool usable = false;  ///< the device is there, and its port is active
  LinkSpeed speed;
  uint16_t path_mtu = 0;
  bool any_memory = false;   ///< write() takes segments of kKeptRegion
  bool keys_end = false;     ///< key_close() ends the right of the peer; else its memory stays exposed until drained()
  const char* why_not = "";  ///< static: why it is not usable, for another reason than its port
};

/// The control half. Only region_add() and region_remove() block; they run on the node's helper (lnd/lnd.h).
class Control {
 public:
  virtual ~Control() = default;
  /// Listens on exactly this address of an RDMA device. Errors: ENODEV (no such device), EINVAL (the device cannot do
  /// what this needs), EADDRINUSE, EADDRNOTAVAIL, EACCES.
  [[nodiscard]] virtual Result<ListenerId> listen(const Endpoint& at) = 0;
  virtual void unlisten(ListenerId id) = 0;
  /// Requires: the listener is open.
  [[nodiscard]] virtual Device device(ListenerId id) const = 0;

  /// Starts to connect; kReady or kFailed follows. Errors: EADDRNOTAVAIL (no device has `local`), EINVAL (nor can
  /// have this peer), EADDRINUSE (no source port is left), ENOMEM.
  [[nodiscard]] virtual Result<ConnId> dial(const DialSpec& spec, Instant now) = 0;
  /// Goes on with a kRequest; kReady or kFailed follows. A connection that failed stays until destroy().
  virtual void prepare(ConnId id, const QpNeeds& needs, Instant now) = 0;
  /// Refuses a kRequest. The connection is gone. Requires: at most kRejectDataMax bytes.
  virtual void reject(ConnId id, std::span<const std::byte> private_data, Instant now) = 0;
  /// After kReady: sends the REQ or the REP. If a REP has no answer within kAnswerMax, kFailed with kNoAnswer follows.
  /// Requires: the worker has posted its receive buffers; at most kRequestDataMax bytes, or kReplyDataMax.
  virtual void proceed(ConnId id, std::span<const std::byte> private_data, Instant now) = 0;
  /// Ends the connection in any state, with a DREQ where the peer has it; its queue pair drains. No event of it
  /// follows.
  virtual void disconnect(ConnId id, Instant now) = 0;
  /// Frees a connection. Requires: disconnect(), and its queue pair is not on a worker.
  virtual void destroy(ConnId id, Instant now) = 0;

  /// As LndControl::region_add().
  [[nodiscard]] virtual Result<void> region_add(RegionId region, std::span<std::byte> memory) = 0;
  virtual void region_remove(RegionId region) = 0;

  /// Fills `out`; returns how many.
  virtual unsigned poll(std::span<Event> out, Instant now) = 0;
  [[nodiscard]] virtual Instant next_deadline() = 0;
  /// File descriptors that become readable when poll() has work.
  virtual void wait_fds(std::vector<int>& out) = 0;
};

/// A provider of one node.
class Provider {
 public:
  virtual ~Provider() = default;
  /// Lives as long as the provider.
  [[nodiscard]] virtual Control& control() = 0;
  [[nodiscard]] virtual Worker& worker(WorkerId id) = 0;
};

}  // namespace ulnet::rc
