// The messages that control sends to a worker. Each kind is a struct of its own, copied into the ring; a pointer in one
// says to whom the object belongs while the message is under way. The reader visits the variant: a kind without a
// handler does not compile (dataplane/stages/from_control.cc).
#pragma once
#include <cstdint>
#include <type_traits>
#include <variant>

#include "dataplane/base/ids.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/nid.h"
#include "lnd/lnd.h"

namespace ulnet {

struct NiSlice;
struct PeerLocal;
struct PeerSlice;
struct RouterBlock;
class Submitter;

/// Control has looked `nid` up. A newer view contains its peer, or `error` says why there is none.
struct ResolvedMsg {
  Nid nid;
  int32_t error = 0;      ///< 0 or a negative errno
  bool as_given = false;  ///< the peer cannot be discovered: messages go to `nid` itself
};
/// The submitter belongs to the worker from here on.
struct SubmitterOpenMsg {
  Submitter* submitter;
};
/// The worker answers with SubmitterClosedMsg when the last MD of the submitter is gone.
struct SubmitterCloseMsg {
  Submitter* submitter;
};
/// Router buffers for the worker to use.
struct RouterBlockMsg {
  RouterBlock* block;
};
/// The worker answers with RouterRetiredMsg when the last buffer of the block is free.
struct RouterRetireMsg {
  RouterBlock* block;
};
/// The worker sends nothing new over the NI, and answers with NiDrainedMsg when its last message is gone.
struct NiCloseMsg {
  NiSlice* slice;
};
/// To the worker that serves the peer NI: its credits from now on.
struct PeerCreditsMsg {
  PeerSlice* slice;
  int32_t tx_credits, router_credits;
};
/// Does the worker still use the memory of a peer NI that no view contains? The worker answers with PeerAnswerMsg.
struct PeerAskMsg {
  PeerNiId peer_ni;
  uint64_t question;       ///< returns in the answer
  PeerLocal* local;        ///< of this worker
  const PeerSlice* slice;  ///< null, unless this worker serves the peer NI
};
/// The portal is no longer lazy: receives that wait on it are matched once more, then dropped.
struct PortalLazyOffMsg {
  PortalIndex portal;
};
/// All minima and maxima start again: credits, router buffers, latencies, messages in use.
struct ResetExtremesMsg {};
/// Only the minima of the router buffers start again.
struct ResetPoolsMsg {};

using ControlMsg =
    std::variant<LndMsg, ResolvedMsg, SubmitterOpenMsg, SubmitterCloseMsg, RouterBlockMsg, RouterRetireMsg, NiCloseMsg,
                 PeerCreditsMsg, PeerAskMsg, PortalLazyOffMsg, ResetExtremesMsg, ResetPoolsMsg>;
static_assert(std::is_trivially_copyable_v<ControlMsg> && sizeof(ControlMsg) <= kRingMessageMax);

}  // namespace ulnet
