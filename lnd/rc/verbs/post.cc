// Posting: receive buffers, messages, writes and keys.
#include <algorithm>

#include "lnd/rc/verbs/worker.h"

namespace ulnet::rc::verbs {
namespace {

/// The keys of the region of this segment; null: it names none, or is not in it.
const RegionKeys* keys_of(const VerbsQp& qp, const Segment& segment) {
  const RegionKeys* keys = qp.regions[region_slot(segment.region)].load(std::memory_order_acquire);
  if (keys == nullptr || keys->region != segment.region) return nullptr;
  const std::byte* begin = keys->memory.data();
  const bool inside = segment.base >= begin && segment.base + segment.bytes <= begin + keys->memory.size();
  return inside ? keys : nullptr;
}

/// The one piece that a window is; null keys: it is none.
struct OnePiece {
  const RegionKeys* keys = nullptr;
  std::byte* base = nullptr;
  uint64_t bytes = 0;
};
OnePiece one_piece(const VerbsQp& qp, const Payload& window) {
  OnePiece whole;
  PayloadCursor cursor(window);
  for (Segment piece; cursor.segments({&piece, 1}) == 1; cursor.advance(piece.bytes)) {
    const RegionKeys* keys = keys_of(qp, piece);
    if (keys == nullptr) return {};
    if (whole.keys == nullptr) whole = {keys, piece.base, 0};
    if (whole.keys != keys || piece.base != whole.base + whole.bytes) return {};
    whole.bytes += piece.bytes;
  }
  return whole;
}

uint64_t address_of(const std::byte* at) {
  return uint64_t(reinterpret_cast<uintptr_t>(at));
}

}  // namespace

void VerbsWorker::mark_dirty(VerbsQp& qp) {
  if (!static_cast<Linked<DirtyTag>&>(qp).linked()) dirty_.push_back(qp);
}

void VerbsWorker::receive(Qp& any, uint32_t buffer) {
  VerbsQp& qp = verbs_qp(any);
  ULNET_CHECK(buffer < qp.receives);
  if (qp.over()) return;
  ibv_sge& sge = qp.receive_sges[buffer];
  sge = {address_of(qp.receive_buffer(buffer).data()), qp.buffer_bytes, qp.buffers->lkey};
  ibv_recv_wr& request = qp.receive_requests[buffer];
  request.wr_id = RequestName{RequestTag::kReceive, qp.generation, qp.index, buffer}.pack();
  request.next = nullptr;
  request.sg_list = &sge;
  request.num_sge = 1;
  (qp.receives_first == nullptr ? qp.receives_first : qp.receives_last->next) = &request;
  qp.receives_last = &request;
  // The peer may send as soon as control hears that the buffers are posted.
  if (!qp.live) return post_receives(qp);
  mark_dirty(qp);
}

/// Takes the next place in the ring of operations. `request` is null if the operation is lost.
Posted VerbsWorker::begin(VerbsQp& qp, OpKind kind, uint64_t token, ibv_send_wr*& request) {
  request = nullptr;
  if (qp.over()) return Posted::kYes;
  if (qp.tail - qp.head - qp.nudges >= qp.work && kind != OpKind::kNudge) {
    await(qp, qp.tail);  // the caller waits for room
    return Posted::kNoRoom;
  }
  const auto place = uint32_t(qp.tail % qp.ring);
  qp.ops[place] = {.kind = kind, .token = token};
  request = &qp.requests[place];
  *request = {};
  request->wr_id = RequestName{RequestTag::kSend, qp.generation, qp.index, place}.pack();
  request->sg_list = &qp.sges[size_t{place} * qp.pieces];
  ++qp.tail;
  mark_dirty(qp);
  return Posted::kYes;
}

Posted VerbsWorker::send(Qp& any, uint32_t buffer, uint32_t bytes, uint64_t token, Wake wake) {
  VerbsQp& qp = verbs_qp(any);
  ULNET_CHECK(buffer < qp.sends && bytes <= qp.buffer_bytes);
  ibv_send_wr* request = nullptr;
  const Posted posted = begin(qp, OpKind::kSend, token, request);
  if (request == nullptr) return posted;
  request->opcode = IBV_WR_SEND;
  request->send_flags = bytes <= qp.inline_bytes ? unsigned(IBV_SEND_INLINE) : 0u;
  request->sg_list[0] = {address_of(qp.send_buffer(buffer).data()), bytes, qp.buffers->lkey};
  request->num_sge = bytes == 0 ? 0 : 1;
  if (wake == Wake::kYes) await(qp, qp.tail);
  return Posted::kYes;
}

Posted VerbsWorker::write(Qp& any, std::span<const Segment> from, uint32_t key, uint64_t address, uint64_t token) {
  VerbsQp& qp = verbs_qp(any);
  ULNET_CHECK(!from.empty() && from.size() <= qp.pieces);
  for (const Segment& one : from)
    if (keys_of(qp, one) == nullptr) return Posted::kImpossible;
  ibv_send_wr* request = nullptr;
  const Posted posted = begin(qp, OpKind::kWrite, token, request);
  if (request == nullptr) return posted;
  request->opcode = IBV_WR_RDMA_WRITE;
  for (const Segment& one : from)
    request->sg_list[request->num_sge++] = {address_of(one.base), one.bytes, keys_of(qp, one)->mr->lkey};
  request->wr.rdma.remote_addr = address;
  request->wr.rdma.rkey = key;
  await(qp, qp.tail);
  return Posted::kYes;
}

Posted VerbsWorker::key_open(Qp& any, RemoteKey& key, const Payload& window) {
  VerbsQp& qp = verbs_qp(any);
  ULNET_CHECK(!key.open && window.length > 0);
  const OnePiece piece = one_piece(qp, window);
  if (piece.keys == nullptr) return Posted::kImpossible;
  key.value = 0;
  if (qp.over()) {
    key.open = true;
    return Posted::kYes;
  }
  if (qp.keys_open >= qp.keys) return Posted::kNoRoom;
  if (qp.windows) {
    ibv_send_wr* request = nullptr;
    if (begin(qp, OpKind::kKeyOpen, 0, request) != Posted::kYes) return Posted::kNoRoom;
    const uint32_t number = qp.free_windows.back();
    qp.free_windows.pop_back();
    Window& bound = qp.window[number];
    bound.rkey = ibv_inc_rkey(bound.rkey);
    request->opcode = IBV_WR_BIND_MW;
    request->bind_mw.mw = bound.mw;
    request->bind_mw.rkey = bound.rkey;
    request->bind_mw.bind_info = {piece.keys->mr, address_of(piece.base), piece.bytes, IBV_ACCESS_REMOTE_WRITE};
    key.value = bound.rkey;
    key.provider[0] = number;
  } else {
    key.value = piece.keys->mr->rkey;
  }
  ++qp.keys_open;
  key.open = true;
  return Posted::kYes;
}

Posted VerbsWorker::key_close(Qp& any, RemoteKey& key) {
  VerbsQp& qp = verbs_qp(any);
  ULNET_CHECK(key.open);
  ibv_send_wr* request = nullptr;
  const Posted posted = begin(qp, OpKind::kKeyClose, 0, request);
  if (request == nullptr) return posted;
  Op& op = qp.op(qp.tail - 1);
  op.key = &key;
  op.has_request = qp.windows;
  request->opcode = IBV_WR_LOCAL_INV;
  request->invalidate_rkey = key.value;
  await(qp, qp.tail);
  return Posted::kYes;
}

uint32_t VerbsWorker::room(const Qp& any) const {
  const auto& qp = static_cast<const VerbsQp&>(any);
  return qp.over() ? 0 : qp.work - uint32_t(qp.tail - qp.head - qp.nudges);
}

// --- Lists of requests -----------------------------------------------------------------------------------------------

void VerbsWorker::post_failed(VerbsQp& qp) {
  qp.failed = true;
  if (qp.seen == Cause::kNone) qp.seen = Cause::kDevice;
  mark_ending(qp);
}

void VerbsWorker::post_receives(VerbsQp& qp) {
  ibv_recv_wr* first = std::exchange(qp.receives_first, nullptr);
  qp.receives_last = nullptr;
  if (first == nullptr || qp.over()) return;
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(qp.qp, first, &bad);
  for (const ibv_recv_wr* one = first; one != (error == 0 ? nullptr : bad); one = one->next) ++qp.receives_posted;
  if (error != 0) post_failed(qp);
}

/// Not to be posted yet. The completion of the operation before it marks the queue pair as dirty.
bool VerbsWorker::waits(VerbsQp& qp, uint64_t count) {
  const Op& op = qp.op(count);
  return qp.forgetful && op.kind == OpKind::kKeyClose && op.has_request && qp.head != count && count >= qp.hurried;
}

/// The last request of the list has a completion, which stands for those before it. In a long list, a quarter of the
/// ring is the most that waits for one.
void VerbsWorker::post_requests(VerbsQp& qp) {
  if (qp.over()) return;
  const uint32_t quarter = std::max(qp.ring / 4, 1u);
  ibv_send_wr *first = nullptr, *last = nullptr;
  uint64_t end = qp.posted;
  for (; end != qp.tail && !waits(qp, end); ++end) {
    if (!qp.op(end).has_request) continue;
    ibv_send_wr& request = qp.request(end);
    if (end % quarter == 0) request.send_flags |= IBV_SEND_SIGNALED;
    (first == nullptr ? first : last->next) = &request;
    last = &request;
  }
  if (first == nullptr) {
    qp.posted = end;
    if (qp.head != end && !qp.op(qp.head).has_request && !static_cast<Linked<ReadyTag>&>(qp).linked())
      ready_.push_back(qp);
    return;
  }
  last->next = nullptr;
  last->send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(qp.qp, first, &bad) == 0) {
    qp.posted = end;
    return;
  }
  while (qp.posted != end && &qp.request(qp.posted) != bad) ++qp.posted;
  post_failed(qp);
}

void VerbsWorker::flush(Instant now) {
  while (VerbsQp* qp = dirty_.pop_front()) {
    post_receives(*qp);  // first: a message may give the peer the credits for them
    post_requests(*qp);
    if (qp->forgetful) nudge_look_ = std::min(nudge_look_, now + kNudgeLook);
  }
}

// --- Devices that forget ---------------------------------------------------------------------------------------------

/// Any request lets the device go on. A closing that was held back will do. Else a write of no bytes, for which the
/// peer looks at neither key nor address.
void VerbsWorker::nudge(VerbsQp& qp) {
  if (qp.posted != qp.tail) {
    qp.hurried = qp.tail;
    return mark_dirty(qp);
  }
  ibv_send_wr* request = nullptr;
  if (qp.nudges == kNudgesMax || begin(qp, OpKind::kNudge, 0, request) != Posted::kYes || request == nullptr) return;
  ++qp.nudges;
  request->opcode = IBV_WR_RDMA_WRITE;
}

unsigned VerbsWorker::look_at_forgetful(Instant now) {
  if (now < nudge_look_) return 0;
  nudge_look_ = kForever;
  unsigned count = 0;
  for (VerbsQp* qp = all_.front(); qp != nullptr; qp = all_.after(*qp)) {
    if (!qp->forgetful || qp->over() || qp->head == qp->posted) continue;
    nudge_look_ = now + kNudgeLook;
    if (std::exchange(qp->head_seen, qp->head) != qp->head) continue;
    nudge(*qp);
    ++count;
  }
  return count;
}

}  // namespace ulnet::rc::verbs
