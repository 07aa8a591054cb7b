// The central object: one message while it exists on this node. Its *home* is the worker of its MD, or, when the
// message is forwarded, the worker that it came in on. Only the home holds deadline, retries, MD reference and the one
// final event. The worker that transmits the message holds `tx` on lease. The worker that receives into it holds a
// receive. Each returns what it holds exactly once.
#pragma once
#include <atomic>
#include <cstdint>
#include <limits>

#include "dataplane/base/ids.h"
#include "dataplane/base/list.h"
#include "dataplane/base/nid.h"
#include "dataplane/base/time.h"
#include "dataplane/base/wheel.h"
#include "dataplane/state/event.h"
#include "dataplane/state/md.h"
#include "dataplane/state/posted.h"
#include "lnd/lnd.h"

namespace ulnet {

class Submitter;
struct IncomingShare;
struct RouterBuffer;
struct PeerLocal;

enum class MsgKind : uint8_t {
  kPut,      ///< put() of this node; ends with ACK, or when sent
  kGet,      ///< get() of this node; ends with REPLY
  kInPut,    ///< a PUT for this node: received into an MD, then perhaps an ACK goes out
  kInGet,    ///< a GET for this node: a REPLY goes out from an MD
  kForward,  ///< a message between other nodes, through this router
};

enum class MsgPhase : uint8_t {
  kFree,
  kParked,     ///< waits for control to look the peer up
  kActive,     ///< a lease or a receive is out, or a response is awaited
  kFinishing,  ///< over; its event waits for room in the queue
};

struct MsgTag {};
struct Message : Linked<MsgTag>, Linked<MdOpsTag>, Timer, EventSource, Posted {
  Tx tx;                            ///< the lease holder's while lease_out
  Completion rx_result;             ///< the receiving worker's until kRxDone
  std::atomic<bool> divert{false};  ///< home: w, receiving worker: r - home requests the memory back
  /// home: w, lease holder: rw - home requests the lease back, if nothing of it has been sent
  std::atomic<bool> recall{false};
  MsgKind kind = MsgKind::kPut;
  MsgPhase phase = MsgPhase::kFree;
  bool want_ack = false;  ///< kPut: an ACK ends it; kInPut: one goes out
  bool lease_out = false;
  bool receiving = false;
  bool responded = false;    ///< ACK here, or REPLY begun or here
  bool ack_sending = false;  ///< kInPut: the ACK is under way; the event may still wait for room
  bool cancelled = false;    ///< its MD was unlinked: a response is not awaited any more
  uint8_t receive_worker = 0;
  uint8_t lease_worker = 0;
  static_assert(kWorkersMax - 1 <= std::numeric_limits<decltype(receive_worker)>::max());
  static_assert(kWorkersMax - 1 <= std::numeric_limits<decltype(lease_worker)>::max());
  uint32_t retries = 0;
  int32_t error = 0;  ///< first error; decides the final event's status
  Md* md = nullptr;   ///< null when its MD has ended, or it has none
  EventQueue* eq = nullptr;
  Submitter* submitter = nullptr;
  uint32_t md_offset = 0;  ///< window in the MD
  Event event;             ///< filled as it becomes known; posted at the end
  IncomingShare* share = nullptr;  ///< kInPut, kInGet: it counts there while it depends on its peer
  // Requested path, kept for resends (docs/wire/lnet.md §6).
  Nid want_src;  ///< ANY = choose
  Nid want_dst;
  Nid via;  ///< preferred next hop of a response; ANY = none
  Instant issued = kNever;
  // Forwarding.
  RouterBuffer* buffer = nullptr;  ///< the buffer that this message is a part of; null when not kForward
  PeerSlice* from = nullptr;       ///< holds a router credit there; null: has passed it on
  PeerLocal* hop = nullptr;        ///< counted in its buffers_held
  PeerLocal* leased = nullptr;     ///< counted in its leases while lease_out; null: loopback
  Nid parked_for;                  ///< kParked: the NID that control looks up
};

}  // namespace ulnet
