// The messages between control and a worker, both ways. Each kind is a struct of its own, copied into the ring. The
// reader visits the variant: a kind without a handler does not compile (dataplane/stages/from_control.cc,
// control/turn.cc). How drivers put messages of their own into a ring: LndMsg.
#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <variant>

#include "dataplane/base/check.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/list.h"
#include "dataplane/base/nid.h"
#include "dataplane/base/time.h"

namespace ulnet {

struct NiSlice;
struct PeerLocal;
struct PeerSlice;
struct RouterBlock;
class Submitter;

inline constexpr unsigned kLndMsgBytes = 52;  ///< of a driver's own struct

/// A driver's own message: a struct with a constant `kKind` that no other struct of the driver has.
template <class T>
concept LndMsgBody = std::is_trivially_copyable_v<T> &&
                     sizeof(T) <= kLndMsgBytes&& std::is_enum_v<std::remove_cv_t<decltype(T::kKind)>>;

/// A message between the halves of one LND, by way of the node's rings: a struct of the driver, with its kind. Converts
/// from each such struct; the driver switches over the kind and reads the struct back with as().
class LndMsg {
 public:
  LndMsg() = default;
  template <LndMsgBody T>
  LndMsg(const T& body) : kind_(uint16_t(T::kKind)) {  // converts, so that a call names the struct alone
    std::memcpy(body_.data(), &body, sizeof(T));
  }
  [[nodiscard]] uint16_t kind() const { return kind_; }
  /// The struct. Requires: the message was made of a T.
  template <LndMsgBody T>
  [[nodiscard]] T as() const {
    ULNET_CHECK(kind_ == uint16_t(T::kKind));
    std::array<std::byte, sizeof(T)> bytes;
    std::memcpy(bytes.data(), body_.data(), sizeof(T));
    return std::bit_cast<T>(bytes);
  }

  uint16_t lnd = 0;  ///< set by the core: which registered LND

 private:
  uint16_t kind_ = 0;
  std::array<std::byte, kLndMsgBytes> body_{};
};

// --- Control to worker ---

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
/// From now on (`avoid`), a Tx over the NI that has not begun goes home, once, so that it may take another path.
struct AvoidNiMsg {
  NiSlice* slice;
  bool avoid;
};
/// The same of a peer NI, to the worker that serves it.
struct AvoidPeerMsg {
  PeerSlice* slice;
  bool avoid;
};
/// When did bytes move last over this pair of NIs? The worker answers with MovedMsg, if there is room for it.
struct MovedAskMsg {
  NiId ni;
  PeerNiId peer_ni;
  uint16_t lnd;
};
/// Does the worker still use the memory of a peer NI that no view contains? The worker answers with PeerAnswerMsg.
struct PeerAskMsg {
  PeerNiId peer_ni;
  uint64_t question;       ///< returns in the answer
  PeerLocal* local;        ///< of this worker
  const PeerSlice* slice;  ///< null, unless this worker serves the peer NI
};
/// Receives that wait on this lazy portal are matched once more, then dropped: the portal is closed, or an NI leaves.
struct PortalRetryMsg {
  PortalIndex portal;
};
/// Fault rules are gone: messages that only these rules delay go on.
struct FaultsGoneMsg {};
/// All minima and maxima start again: credits, router buffers, latencies, messages in use.
struct ResetExtremesMsg {};
/// Only the minima of the router buffers start again.
struct ResetPoolsMsg {};

/// The answer to MdRegisterMsg: each segment of the MD has a region, or `error` says why not.
struct MdRegisteredMsg {
  Submitter* submitter;
  uint32_t md;
  int32_t error;  ///< 0 or a negative errno
};
/// The answer to MdReleaseMsg: no driver has the memory of the MD.
struct MdReleasedMsg {
  Submitter* submitter;
  uint32_t md;
};

using ControlMsg =
    std::variant<LndMsg, ResolvedMsg, SubmitterOpenMsg, SubmitterCloseMsg, RouterBlockMsg, RouterRetireMsg, NiCloseMsg,
                 PeerCreditsMsg, AvoidNiMsg, AvoidPeerMsg, MovedAskMsg, PeerAskMsg, PortalRetryMsg, FaultsGoneMsg,
                 ResetExtremesMsg, ResetPoolsMsg, MdRegisteredMsg, MdReleasedMsg>;
static_assert(std::is_trivially_copyable_v<ControlMsg> && sizeof(ControlMsg) <= kRingMessageMax);

// --- Worker to control ---

/// Messages wait for the peer of `nid`. Control looks it up and answers with ResolvedMsg.
struct ResolveMsg {
  Nid nid;
  bool discover;  ///< bring the peer up to date first
};
/// The submitter belongs to control again.
struct SubmitterClosedMsg {
  Submitter* submitter;
};
/// The block belongs to control again.
struct RouterRetiredMsg {
  RouterBlock* block;
};
/// The last message over the NI is gone.
struct NiDrainedMsg {
  const NiSlice* slice;
};
/// The answer to PeerAskMsg.
struct PeerAnswerMsg {
  PeerNiId peer_ni;
  uint64_t question;  ///< as in PeerAskMsg
  bool in_use;        ///< false is final: this worker does not use the memory until a view contains it
};

/// The MD in this slot is to be bound: control registers its segments without a region. The slot is control's until
/// MdRegisteredMsg.
struct MdRegisterMsg {
  Submitter* submitter;
  uint32_t md;
};
/// The MD in this slot has ended: control takes the regions of MdRegisterMsg from the drivers. The slot is control's
/// until MdReleasedMsg.
struct MdReleaseMsg {
  Submitter* submitter;
  uint32_t md;
};

/// Failures were charged to an NI or peer NI of this node: Charges::read() has the number.
struct ChargedMsg {
  uint32_t id;  ///< NiId, or PeerNiId if `of_peer`
  bool of_peer;
};
/// An operation over this pair of NIs has waited for its answer since then. Said again as long as that is so.
struct SilentMsg {
  NiId ni;
  PeerNiId peer_ni;
  Duration waited;
};
/// The answer to MovedAskMsg. By two answers in a row, control sees if bytes moved between them.
struct MovedMsg {
  NiId ni;
  PeerNiId peer_ni;
  int64_t moved_ns;  ///< Instant; the time of the answer if nothing is stuck; 0: the driver has no such time
};

using WorkerMsg = std::variant<LndMsg, ResolveMsg, SubmitterClosedMsg, RouterRetiredMsg, NiDrainedMsg, PeerAnswerMsg,
                               MdRegisterMsg, MdReleaseMsg, ChargedMsg, SilentMsg, MovedMsg>;
static_assert(std::is_trivially_copyable_v<WorkerMsg> && sizeof(WorkerMsg) <= kRingMessageMax);

struct OwedTag {};
/// Room for one message to control, in the object that sends it: if the ring is full, the message waits here. However
/// many objects send at one moment, none needs memory. Its content belongs to the worker.
struct Owed : Linked<OwedTag> {
  WorkerMsg msg;
  bool pooled = false;  ///< lies in Worker::control_asks
};

}  // namespace ulnet
