// A queue pair with its work requests, and what a worker needs of its device. The CM thread makes them and frees them.
// From adopt() to release() a queue pair belongs to its worker, but for the atomic members.
#pragma once
#include <infiniband/verbs.h>

#include <atomic>
#include <memory>
#include <vector>

#include "dataplane/base/limits.h"
#include "dataplane/base/list.h"
#include "lnd/rc/rc.h"
#include "lnd/rc/wake_signal.h"

namespace ulnet::rc::verbs {

/// The keys of a region at one device.
struct RegionKeys {
  RegionId region{};
  std::span<std::byte> memory;
  ibv_mr* mr = nullptr;
};
/// Of a table by region_slot(). Written by the CM thread before anybody names the region, and after everybody has let
/// go.
using RegionSlot = std::atomic<const RegionKeys*>;

/// Completions of one worker at one device. Receives have a queue of their own, so that the ends of messages do not
/// wake the worker where nobody waits for them. Made by the CM thread when those before it have no room for another
/// queue pair, stays until the device is closed. All of one worker at one device share a channel.
struct CompletionQueue {
  ibv_comp_channel* channel = nullptr;
  ibv_cq* receives = nullptr;  ///< the context of both is the CompletionQueue
  ibv_cq* sends = nullptr;     ///< of all other requests
  // The CM thread's.
  uint32_t size = 0;      ///< of the shorter one
  uint32_t promised = 0;  ///< completions that its queue pairs can have at once, in each of the two
  // The worker's.
  bool receives_armed = false;
  bool sends_armed = false;
  bool waits = false;    ///< scratch of pending(): the worker waits for the end of a request
  bool silent = false;   ///< its channel has failed, so nothing will be heard from it
  uint32_t adopted = 0;  ///< queue pairs
};
inline constexpr unsigned kDevicesMax = 8;  ///< of one node
inline constexpr unsigned kQueuesMax = 16;  ///< completion queues of one worker at one device

enum class OpKind : uint8_t { kSend, kWrite, kKeyOpen, kKeyClose, kNudge };
inline constexpr uint32_t kNudgesMax = 2;  ///< under way, of one queue pair
/// An operation, from its post to its completion. Its work request has the same place.
struct Op {
  OpKind kind = OpKind::kSend;
  bool has_request = true;   ///< false: a key of a device without windows, where nothing is posted
  uint64_t token = 0;        ///< kSend, kWrite
  RemoteKey* key = nullptr;  ///< kKeyClose
};

/// A memory window (type 2). A window is bound to one transfer at a time.
struct Window {
  ibv_mw* mw = nullptr;
  uint32_t rkey = 0;  ///< of the last binding
};

struct AllTag {};
struct DirtyTag {};
struct ReadyTag {};
struct EndingTag {};
struct AwaitedTag {};
struct VerbsQp final : Qp, Linked<AllTag>, Linked<DirtyTag>, Linked<ReadyTag>, Linked<EndingTag>, Linked<AwaitedTag> {
  // Constant.
  ibv_qp* qp = nullptr;
  CompletionQueue* cq = nullptr;
  const RegionSlot* regions = nullptr;  ///< table of its device
  ibv_mr* buffers = nullptr;            ///< receive and send buffers
  size_t memory_bytes = 0;
  uint32_t index = 0;         ///< in the worker's table
  uint16_t generation = 0;    ///< of that place
  uint32_t inline_bytes = 0;  ///< messages up to this length go with their request
  bool windows = false;       ///< else the peer gets the key of the whole region
  /// The device may forget to go on with its requests, until another is posted (docs/wire/roce.md §10). So it closes a
  /// key when all before that has ended, and gets a nudge where nothing ends for long.
  bool forgetful = false;
  uint32_t ring = 0;  ///< places in `ops`: `work` and those for nudges

  // From the CM thread to the worker, with VerbsWorker::signal().
  std::atomic<Cause> cause{Cause::kNone};  ///< why the connection has ended, if the CM thread was first
  std::atomic<bool> disconnected{false};   ///< Control::disconnect() was called; the queue pair is in the error state
  std::atomic<bool> gone{false};           ///< the device has forgotten the queue pair
  // From the worker to the CM thread.
  std::atomic<bool> stuck{false};  ///< not all completions come: the queue pair has to go without them

  // The worker's.
  QpUser* user = nullptr;
  std::unique_ptr<Op[]> ops;                ///< `ring`
  std::unique_ptr<ibv_send_wr[]> requests;  ///< by place in `ops`
  std::unique_ptr<ibv_sge[]> sges;          ///< `pieces` for each
  std::vector<Window> window;               ///< made by the CM thread
  std::vector<uint32_t> free_windows;       ///< their numbers; never more than `window` has
  uint64_t head = 0, posted = 0, tail = 0;  ///< counts of operations: completed, handed to the device, taken
  uint64_t awaited = 0;                     ///< the worker waits for the end of the operations before this count
  uint64_t hurried = 0;                     ///< forgetful: closings before this count wait for nothing
  uint64_t head_seen = UINT64_MAX;          ///< forgetful: `head` when it was looked at with something under way
  uint32_t nudges = 0;                      ///< under way
  uint32_t keys_open = 0;
  std::unique_ptr<ibv_recv_wr[]> receive_requests;  ///< by buffer
  std::unique_ptr<ibv_sge[]> receive_sges;
  ibv_recv_wr* receives_first = nullptr;  ///< not handed to the device yet
  ibv_recv_wr* receives_last = nullptr;
  uint32_t receives_posted = 0;   ///< at the device
  bool live = false;              ///< something has come or was sent
  bool is_broken = false;         ///< the user knows
  bool is_drained = false;        ///< the same
  bool failed = false;            ///< a completion or a post has failed
  Cause seen = Cause::kNone;      ///< why, by completions
  Instant ending_since = kNever;  ///< since when `disconnected` is known
  uint32_t looks = 0;             ///< how often broken() was put off, because messages may be left

  [[nodiscard]] bool over() const { return failed || is_broken; }
  [[nodiscard]] Op& op(uint64_t count) { return ops[count % ring]; }
  [[nodiscard]] ibv_send_wr& request(uint64_t count) { return requests[count % ring]; }
};

[[nodiscard]] inline VerbsQp& verbs_qp(Qp& qp) {
  return static_cast<VerbsQp&>(qp);
}

/// Workers ring it for the CM thread: a queue pair is stuck.
struct StuckBell {
  Signal* signal = nullptr;
  std::atomic<bool> rung{false};
};

// --- Names of work requests (ibv_wc::wr_id) --------------------------------------------------------------------------

enum class RequestTag : uint8_t { kReceive = 0xA1, kSend = 0xB2 };
inline constexpr uint32_t kQpsMax = 1u << 14;       ///< of one worker
inline constexpr uint32_t kRequestsMax = 1u << 16;  ///< of one kind, of one queue pair
struct RequestName {
  RequestTag tag = RequestTag::kSend;
  uint16_t generation = 0;
  uint32_t index = 0;  ///< VerbsQp::index
  uint32_t place = 0;  ///< receive buffer, or place in the ring of operations
  [[nodiscard]] uint64_t pack() const {
    return uint64_t{uint8_t(tag)} << 56 | uint64_t{generation} << 32 | uint64_t{index} << 16 | place;
  }
  [[nodiscard]] static RequestName unpack(uint64_t id) {
    return {RequestTag(id >> 56), uint16_t(id >> 32), uint32_t(id >> 16) & 0xFFFF, uint32_t(id) & 0xFFFF};
  }
};
static_assert(kQpsMax <= 1u << 16);

}  // namespace ulnet::rc::verbs
