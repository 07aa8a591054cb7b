// Set-up of o2iblnd connections. Each check of judge_request() stands at its place in docs/wire/o2iblnd.md §6.3.
#include "lnd/o2iblnd/proto/connect.h"

#include <cerrno>

#include "dataplane/base/check.h"
#include "dataplane/wire/bytes.h"
#include "lnd/o2iblnd/proto/credits.h"

namespace ulnet::o2iblnd {
namespace {

using wire::load;
using wire::store;

// Offsets in a reject block (§6.2).
constexpr size_t kRejectVersionAt = 4, kReasonAt = 6, kReasonEnd = 8, kStampAt = 8;
constexpr size_t kRejectDepthAt = 16, kRejectFragmentsAt = 18, kRejectMessageMaxAt = 20;
static_assert(kRejectMessageMaxAt + 4 == kRejectBytes);

struct Judgement {
  RejectReason reason;
  const char* why;
};
constexpr Judgement kFine{RejectReason::kNone, ""};

/// Checks 1 to 6: the bytes, and the NI.
Judgement judge_ni(std::span<const std::byte> bytes, const Message& request, MessageFault fault,
                   const PassiveSide& here) {
  if (here.privileged_required && !here.privileged)
    return {RejectReason::kFatal, "the source port of the request is not privileged"};
  if (bytes.size() < kVersionBytes) return {RejectReason::kFatal, "the request is too short for a version"};
  if (fault != MessageFault::kNone) return {RejectReason::kFatal, message_fault_text(fault)};
  if (request.ends.src.is_any() || request.ends.dst.is_any())
    return {RejectReason::kFatal, "the request names no NID as its source or target"};
  if (!here.ni_found) return {RejectReason::kFatal, "the request is for a NID that is not here"};
  if (!here.ni_ready) return {RejectReason::kEarly, "the NI is not ready yet"};
  if (request.ends.dst_stamp != 0 && request.ends.dst_stamp != here.stamp)
    return {RejectReason::kConnStale, "the request is for a former life of this NI"};
  return kFine;
}

/// Checks 7 to 10: the parameters.
Judgement judge_params(const Message& request, const PassiveSide& here) {
  const ConnParams& params = request.params;
  if (request.type != MessageType::kConnReq) return {RejectReason::kFatal, "the message is not a CONNREQ"};
  if (params.queue_depth > here.params.queue_depth)
    return {RejectReason::kMsgQueueSize, "the queue depth in the request is larger than that of this NI"};
  if (params.queue_depth < kDepthLeast) return {RejectReason::kFatal, "the queue depth in the request is too small"};
  if (params.fragments > here.params.fragments || params.fragments == 0)
    return {RejectReason::kRdmaFrags, "the number of fragments in the request is out of range"};
  if (params.fragments < here.params.fragments && !here.joins_fragments)
    return {RejectReason::kRdmaFrags, "the device needs more fragments than the request allows"};
  if (params.message_max > kMessageMax) return {RejectReason::kFatal, "the messages of the peer are too large"};
  return kFine;
}

/// Checks 11 and 12: the peer.
Judgement judge_peer(const Message& request, const PassiveSide& here) {
  if (here.peer_stamp != 0 && here.peer_stamp != request.ends.src_stamp)
    return {RejectReason::kConnStale, "the peer has connections of another life"};
  if (here.connecting && here.races < kRacesMax && loses_race(request.ends.src, request.ends.dst))
    return {RejectReason::kConnRace, "this node's own attempt goes first"};
  return kFine;
}

/// May the next attempt have this lower limit of the peer?
bool is_lower(uint32_t theirs, uint32_t offered, uint32_t least) {
  return theirs < offered && theirs >= least;
}

/// The table of §6.2, for a reject block.
Reaction react_to_block(const Reject& reject, const ConnParams& offered) {
  Reaction reaction{.error = -ECONNREFUSED, .params = offered, .stamp = reject.stamp, .reason = reject.reason};
  const auto reconnect_if = [&](bool possible) {
    if (possible) reaction.kind = Reaction::Kind::kReconnect;
  };
  switch (reject.reason) {
    case RejectReason::kConnRace:
    case RejectReason::kConnStale: reconnect_if(true); break;
    case RejectReason::kConnUncompat: reconnect_if(reject.version == kVersion); break;
    case RejectReason::kRdmaFrags:
      reaction.params.fragments = reject.params.fragments;
      reconnect_if(is_lower(reject.params.fragments, offered.fragments, 1));
      break;
    case RejectReason::kMsgQueueSize:
      reaction.params.queue_depth = reject.params.queue_depth;
      reconnect_if(is_lower(reject.params.queue_depth, offered.queue_depth, kDepthLeast));
      break;
    case RejectReason::kNone:
    case RejectReason::kNoResources:
    case RejectReason::kFatal:  // also of a peer that has version 1 only: this node does not speak it
    case RejectReason::kInvalidSrvId:
    case RejectReason::kEarly: break;
  }
  return reaction;
}

Reaction react_to_cm(uint16_t cm_reason, const ConnParams& offered) {
  Reaction reaction{.error = -ECONNREFUSED, .params = offered};
  if (cm_reason == kCmInvalidService) reaction.error = -EHOSTUNREACH;
  if (cm_reason == kCmStaleConnection) reaction.kind = Reaction::Kind::kReconnect;
  return reaction;
}

}  // namespace

const char* reject_reason_text(RejectReason reason) {
  switch (reason) {
    case RejectReason::kNone: break;
    case RejectReason::kConnRace: return "CONN_RACE";
    case RejectReason::kNoResources: return "NO_RESOURCES";
    case RejectReason::kFatal: return "FATAL";
    case RejectReason::kConnUncompat: return "CONN_UNCOMPAT";
    case RejectReason::kConnStale: return "CONN_STALE";
    case RejectReason::kRdmaFrags: return "RDMA_FRAGS";
    case RejectReason::kMsgQueueSize: return "MSG_QUEUE_SIZE";
    case RejectReason::kInvalidSrvId: return "INVALID_SRV_ID";
    case RejectReason::kEarly: return "EARLY";
  }
  return "?";
}

void reject_encode(const Reject& reject, std::span<std::byte, kRejectBytes> out) {
  std::byte* at = out.data();
  store(at, kMagic);
  store(at + kRejectVersionAt, reject.version);
  store(at + kReasonAt, reject.reason);
  store(at + kReasonAt + 1, uint8_t{0});
  store(at + kStampAt, reject.stamp);
  store(at + kRejectDepthAt, reject.params.queue_depth);
  store(at + kRejectFragmentsAt, reject.params.fragments);
  store(at + kRejectMessageMaxAt, reject.params.message_max);
}

bool reject_decode(std::span<const std::byte> bytes, Reject& out) {
  out = Reject{};
  if (bytes.size() < kReasonEnd) return false;
  const std::byte* at = bytes.data();
  const bool flip = load<uint32_t>(at) == wire::byte_swap(kMagic);
  if (load<uint32_t>(at, flip) != kMagic) return false;
  out.version = load<uint16_t>(at + kRejectVersionAt, flip);
  out.reason = load<RejectReason>(at + kReasonAt);
  if (out.version < kVersion) return true;
  if (bytes.size() < kRejectBytes) return false;
  out.stamp = load<uint64_t>(at + kStampAt, flip);
  out.params = {load<uint16_t>(at + kRejectDepthAt, flip), load<uint16_t>(at + kRejectFragmentsAt, flip),
                load<uint32_t>(at + kRejectMessageMaxAt, flip)};
  return true;
}

PassiveVerdict judge_request(std::span<const std::byte> bytes, const Message& request, MessageFault fault,
                             const PassiveSide& here) {
  PassiveVerdict verdict;
  if (here.ni_found && fault == MessageFault::kNone) {
    verdict.reject.stamp = here.stamp;
    verdict.reject.params = here.params;
  }
  Judgement found = judge_ni(bytes, request, fault, here);
  if (found.reason == RejectReason::kNone) found = judge_params(request, here);
  if (found.reason == RejectReason::kNone) {
    found = judge_peer(request, here);
    verdict.close_old = found.reason == RejectReason::kConnStale;
  }
  verdict.reject.reason = found.reason;
  verdict.why = found.why;
  if (verdict.accepted()) verdict.params = {request.params.queue_depth, request.params.fragments, kMessageMax};
  return verdict;
}

Ends ends_of_answer(const Message& received, uint64_t own_stamp) {
  return {received.ends.dst, received.ends.src, own_stamp, received.ends.src_stamp};
}

const char* answer_fault_text(AnswerFault fault) {
  switch (fault) {
    case AnswerFault::kNone: return "";
    case AnswerFault::kMessage: return "the answer of the peer cannot be decoded";
    case AnswerFault::kType: return "the answer of the peer is not a CONNACK";
    case AnswerFault::kQueueSize: return "the queue depth in the CONNACK was not offered";
    case AnswerFault::kFragments: return "the number of fragments in the CONNACK was not offered";
    case AnswerFault::kSize: return "the size of messages in the CONNACK is not 4096";
    case AnswerFault::kTarget: return "the CONNACK is for another NI, or for a former life of this NI";
    case AnswerFault::kSource: return "the CONNACK is from another NI than the request was sent to";
  }
  return "";
}

AnswerFault judge_answer(const Message& answer, MessageFault fault, const Ends& sent, const ConnParams& offered) {
  if (fault != MessageFault::kNone) return AnswerFault::kMessage;
  if (answer.type != MessageType::kConnAck) return AnswerFault::kType;
  const ConnParams& params = answer.params;
  if (params.queue_depth > offered.queue_depth || params.queue_depth < kDepthLeast) return AnswerFault::kQueueSize;
  if (params.fragments > offered.fragments || params.fragments == 0) return AnswerFault::kFragments;
  if (params.message_max != kMessageMax) return AnswerFault::kSize;
  if (answer.ends.dst != sent.src || answer.ends.dst_stamp != sent.src_stamp) return AnswerFault::kTarget;
  if (answer.ends.src != sent.dst) return AnswerFault::kSource;
  return AnswerFault::kNone;
}

Reaction react(uint16_t cm_reason, std::span<const std::byte> private_data, const ActiveSide& here) {
  Reject reject;
  const bool block = cm_reason == kCmConsumer && reject_decode(private_data, reject);
  Reaction reaction = block ? react_to_block(reject, here.offered) : react_to_cm(cm_reason, here.offered);
  const bool pointless = !here.messages_wait || here.passive_in_progress;
  if (reaction.kind == Reaction::Kind::kReconnect && pointless) reaction.kind = Reaction::Kind::kNothing;
  if (reaction.kind != Reaction::Kind::kFail) reaction.error = 0;
  return reaction;
}

uint32_t race_hash(const Nid& nid) {
  ULNET_CHECK(nid.fits_u64() && !nid.is_any());
  return nid.net().value ^ wire::byte_swap(nid.address_v4());
}

}  // namespace ulnet::o2iblnd
