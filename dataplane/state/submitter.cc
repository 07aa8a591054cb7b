// Application side of a submitter: slots, checks, and the ring to the worker. Thread: the owner of the submitter. A
// slot belongs to the application until its call is pushed. Then the slot belongs to the worker, until its number comes
// back in `freed_`. Nothing here allocates but the constructor and eq_open() of a polled queue (start-up).
#include "dataplane/state/submitter.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "dataplane/base/limits.h"

namespace ulnet {
namespace {

constexpr uint32_t kKnownOptions =
    kMdPut | kMdGet | kMdTruncate | kMdManageRemote | kMdAckDisable | kMdNoTrack | kMdTrack;
constexpr size_t kOwnSegments = std::tuple_size_v<decltype(Md::own_segments)>;
static_assert(kSubmitterSlotsMax <= UINT32_MAX, "all ones is no event queue");
static_assert(kSubmitterBlocksMax <= INT32_MAX, "-1 is no segment block");
// Sentences below name these bounds.
static_assert(kSubmitterSlotsMax == 1048576 && kSubmitterBlocksMax == 65536 && kEqEventsMax == 1048576);
static_assert(kMaxSegments == 256 && kPortalCount == 64 && kMaxPayload == 1 << 20);

/// Generation 0 is never valid.
uint32_t next_generation(uint32_t generation) {
  return generation == UINT32_MAX ? 1 : generation + 1;
}

/// Sum of the segments, or why they cannot be an MD.
Result<uint32_t> segments_length(std::span<const Segment> segments) {
  if (segments.empty()) return fail(EINVAL, "an MD needs at least one segment");
  if (segments.size() > kMaxSegments) return fail(EINVAL, "more than 256 segments in one MD", segments.size());
  uint64_t length = 0;
  for (size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].base == nullptr && segments[i].bytes != 0) return fail(EINVAL, "segment without memory", i);
    length += segments[i].bytes;
  }
  if (length > UINT32_MAX) return fail(EINVAL, "an MD is at most 4 GiB - 1 long", length);
  return uint32_t(length);
}

}  // namespace

Result<void> submitter_size_check(const SubmitterSize& size) {
  for (const uint32_t slots : {size.ops, size.mds, size.eqs}) {
    if (slots == 0) return fail(EINVAL, "a submitter needs ops, MDs and event queues");
    if (slots > kSubmitterSlotsMax) return fail(EINVAL, "a submitter has at most 1048576 of each kind", slots);
  }
  if (size.segment_blocks > kSubmitterBlocksMax)
    return fail(EINVAL, "a submitter has at most 65536 segment lists", size.segment_blocks);
  return {};
}

Submitter::Submitter(WorkerId home, uint16_t number, const SubmitterSize& size, IdleGate* worker_gate)
    : home_(home),
      number_(number),
      reserve_(size.reserve),
      gate_(worker_gate),
      calls_(size.ops),
      freed_(size.mds + size.eqs),
      mds_(size.mds),
      eqs_(size.eqs),
      md_state_(size.mds),
      eq_state_(size.eqs),
      blocks_(size.segment_blocks) {
  // The lowest number is on top, so that the first slots in use lie together.
  for (uint32_t i = size.mds; i-- > 0;) md_free_.push_back(i);
  for (uint32_t i = size.eqs; i-- > 0;) eq_free_.push_back(i);
  for (uint32_t i = size.segment_blocks; i-- > 0;) block_free_.push_back(int32_t(i));
}

Result<CallMsg*> Submitter::next_call() {
  CallMsg* call = calls_.back();
  if (call == nullptr) return fail(EAGAIN, "the ring to the worker is full: poll events, then try again");
  return call;
}

void Submitter::send_next() {
  calls_.push_back();
  if (gate_ != nullptr) gate_->notify(calls_);
}

Result<void> Submitter::send(const CallMsg& call) {
  auto next = next_call();
  if (!next) return tl::unexpected(next.error());
  **next = call;
  send_next();
  return {};
}

void Submitter::collect_freed() {
  Freed freed;
  while (freed_.pop(freed)) {
    if (!freed.is_md) {
      eq_state_[freed.index].used = false;
      eq_free_.push_back(freed.index);
      continue;
    }
    SlotState& state = md_state_[freed.index];
    ULNET_CHECK(state.used);
    state.used = false;
    if (state.block >= 0) block_free_.push_back(state.block);
    state.block = -1;
    md_free_.push_back(freed.index);
  }
}

void Submitter::worker_free(bool is_md, uint32_t index) {
  ULNET_CHECK(freed_.push({is_md, index}));
}

uint32_t Submitter::mds_in_use() {
  collect_freed();
  return uint32_t(mds_.size() - md_free_.size());
}

// --- event queues ---

Result<EqHandle> Submitter::eq_open(uint32_t size) {
  if (size == 0 || size > kEqEventsMax) return fail(EINVAL, "an event queue holds 1 to 1048576 events", size);
  return eq_take(size, nullptr, nullptr);
}

Result<EqHandle> Submitter::eq_open(EventCallback callback, void* context) {
  if (callback == nullptr) return fail(EINVAL, "an event queue needs a callback or a size");
  return eq_take(0, callback, context);
}

Result<EqHandle> Submitter::eq_take(uint32_t ring_size, EventCallback callback, void* context) {
  collect_freed();
  if (eq_free_.empty()) return fail(ENOSPC, "all event queues of the submitter are in use", eqs_.size());
  if (calls_.full()) return fail(EAGAIN, "the ring to the worker is full: poll events, then try again");
  const uint32_t index = eq_free_.back();
  EventQueue& eq = eqs_[index];
  SlotState& state = eq_state_[index];
  if (ring_size == 0) {
    eq.ring.reset();
  } else if (eq.ring == nullptr || eq.ring->capacity() != std::bit_ceil(ring_size < 2 ? 2u : ring_size)) {
    eq.ring = std::make_unique<SpscRing<Event>>(ring_size);
  } else {
    for (Event stale; eq.ring->pop(stale);) {
    }  // events that the last user did not poll
  }
  if (std::exchange(state.armed, false)) eq.gate.disarm();
  eq.callback = callback;
  eq.context = context;
  state.generation = next_generation(state.generation);
  eq.generation = state.generation;
  state.used = true;
  state.unlinked = false;
  eq_free_.pop_back();
  const Result<void> sent = send(EqOpenCall{index});
  ULNET_CHECK(sent.has_value());  // the ring had room, and there is no other producer
  return EqHandle{home_.value, number_, index, state.generation};
}

/// The queue, or null for a callback queue or a stale handle. A closed queue can be polled until eq_open() takes its
/// slot again: it may hold the last kUnlink events.
EventQueue* Submitter::polled_queue(EqHandle handle) {
  if (handle.worker != home_.value || handle.submitter != number_ || handle.index >= eqs_.size()) return nullptr;
  if (!handle.valid() || eq_state_[handle.index].generation != handle.generation) return nullptr;
  EventQueue& eq = eqs_[handle.index];
  return eq.ring == nullptr ? nullptr : &eq;
}

unsigned Submitter::eq_poll(EqHandle handle, std::span<Event> out) {
  EventQueue* eq = polled_queue(handle);
  if (eq == nullptr) return 0;
  if (std::exchange(eq_state_[handle.index].armed, false)) eq->gate.disarm();
  unsigned count = 0;
  while (count < out.size() && eq->ring->pop(out[count])) ++count;
  return count;
}

Result<int> Submitter::eq_fd(EqHandle handle) {
  EventQueue* eq = polled_queue(handle);
  if (eq == nullptr) {
    if (auto usable = eq_usable(handle); !usable) return tl::unexpected(usable.error());
    return fail(EINVAL, "a queue with a callback has no descriptor: the callback is called", handle.index);
  }
  if (eq->gate.fd() < 0) {
    if (auto opened = eq->gate.open(); !opened) return tl::unexpected(opened.error());
  }
  return eq->gate.fd();
}

bool Submitter::eq_empty(EqHandle handle) {
  const EventQueue* eq = polled_queue(handle);
  return eq == nullptr || eq->ring->empty();
}

bool Submitter::eq_arm(EqHandle handle) {
  EventQueue* eq = polled_queue(handle);
  if (eq == nullptr || eq->gate.fd() < 0) return false;
  bool& armed = eq_state_[handle.index].armed;
  if (!armed) eq->gate.arm();  // twice without eq_poll(): a wake-up in between stays
  armed = eq->ring->empty();
  if (!armed) eq->gate.disarm();
  return armed;
}

Result<void> Submitter::eq_usable(EqHandle eq) const {
  if (eq.worker != home_.value || eq.submitter != number_) {
    return fail(EXDEV, "the event queue belongs to another submitter", eq.submitter);
  }
  if (!eq.valid() || eq.index >= eqs_.size()) return fail(ENOENT, "no such event queue", eq.index);
  const SlotState& state = eq_state_[eq.index];
  if (!state.used || state.unlinked || state.generation != eq.generation) {
    return fail(ENOENT, "the event queue is not open", eq.index);
  }
  return {};
}

Result<void> Submitter::eq_close(EqHandle eq) {
  if (auto usable = eq_usable(eq); !usable) return usable;
  auto sent = send(EqCloseCall{eq.index});
  if (sent) eq_state_[eq.index].unlinked = true;
  return sent;
}

// --- memory descriptors ---

Result<MdHandle> Submitter::md_bind(const MdSpec& spec) {
  const auto length = segments_length(spec.segments);
  if (!length) return tl::unexpected(length.error());
  if ((spec.options & ~kKnownOptions) != 0) return fail(EINVAL, "unknown MD option", spec.options & ~kKnownOptions);
  if (spec.threshold == 0) return fail(EINVAL, "threshold 0: nothing could ever use the MD");
  if (spec.max_size > *length) return fail(EINVAL, "max_size is larger than the MD", spec.max_size);
  if (spec.eq != EqHandle{}) {
    if (auto usable = eq_usable(spec.eq); !usable) return tl::unexpected(usable.error());
  }
  collect_freed();
  if (md_free_.empty()) return fail(ENOSPC, "all MDs of the submitter are in use", mds_.size());
  const bool needs_block = spec.segments.size() > kOwnSegments;
  if (needs_block && block_free_.empty()) return fail(ENOSPC, "all segment lists are in use", blocks_.size());
  if (calls_.full()) return fail(EAGAIN, "the ring to the worker is full: poll events, then try again");

  const uint32_t index = md_free_.back();
  md_free_.pop_back();
  SlotState& state = md_state_[index];
  state = {.generation = next_generation(state.generation),
           .used = true,
           .length = *length,
           .eq = spec.eq.valid() ? spec.eq.index : UINT32_MAX};
  if (needs_block) {
    state.block = block_free_.back();
    block_free_.pop_back();
  }
  md_fill(index, spec);
  const MdHandle handle = mds_[index].handle;
  const Result<void> sent = send(BindCall{index});
  ULNET_CHECK(sent.has_value());
  return handle;
}

/// Writes the slot, which is still the application's. `bound` is the worker's to set.
void Submitter::md_fill(uint32_t index, const MdSpec& spec) {
  const SlotState& state = md_state_[index];
  Md& md = mds_[index];
  Segment* list = state.block >= 0 ? blocks_[size_t(state.block)].data() : md.own_segments.data();
  std::transform(spec.segments.begin(), spec.segments.end(), list, [](const Segment& one) {
    return Segment{one.base, one.bytes, {}};
  });  // a region is the worker's
  md.segments = list;
  md.segment_count = uint32_t(spec.segments.size());
  md.length = state.length;
  md.threshold = spec.threshold;
  md.max_size = spec.max_size;
  md.options = spec.options;
  md.local_offset = 0;
  md.user_ptr = spec.user_ptr;
  const bool look = spec.numa == UINT32_MAX && spec.accelerator == UINT32_MAX && locator_ != nullptr;
  md.numa = look ? locator_->numa_of(spec.segments.front().base) : spec.numa;
  md.accelerator = spec.accelerator;
  md.eq = spec.eq.valid() ? &eqs_[spec.eq.index] : nullptr;
  md.handle = {home_.value, number_, index, state.generation};
  md.match = {};
  md.unlink_status = 0;
  md.gate_closed = false;
  md.memory = MdMemory::kNone;
  md.memory_error = 0;
}

Result<void> Submitter::md_usable(MdHandle md) const {
  if (md.worker != home_.value || md.submitter != number_) {
    return fail(EXDEV, "the MD belongs to another submitter", md.submitter);
  }
  if (!md.valid() || md.index >= mds_.size()) return fail(ENOENT, "no such MD", md.index);
  const SlotState& state = md_state_[md.index];
  if (!state.used || state.unlinked || state.generation != md.generation) {
    return fail(ENOENT, "the MD is not bound, or was unlinked", md.index);
  }
  return {};
}

Result<void> Submitter::me_attach(PortalIndex portal, const ProcessId& initiator, uint64_t match_bits,
                                  uint64_t ignore_bits, MePosition position, MdHandle md) {
  collect_freed();
  if (auto usable = md_usable(md); !usable) return usable;
  SlotState& state = md_state_[md.index];
  if (portal.value >= kPortalCount) return fail(EINVAL, "portals are 0 to 63", portal.value);
  if (state.attached) return fail(EBUSY, "the MD is attached already", md.index);
  if ((mds_[md.index].options & (kMdPut | kMdGet)) == 0) {  // options are constant while the worker has the slot
    return fail(EINVAL, "an MD without kMdPut and kMdGet would match nothing", md.index);
  }
  auto sent = send(AttachCall{.md = {md.index, md.generation},
                              .portal = portal,
                              .position = position,
                              .initiator = initiator,
                              .match_bits = match_bits,
                              .ignore_bits = ignore_bits});
  if (sent) state.attached = true;
  return sent;
}

Result<void> Submitter::unlink(MdHandle md) {
  collect_freed();
  if (auto usable = md_usable(md); !usable) return usable;
  auto sent = send(UnlinkCall{{md.index, md.generation}});
  if (sent) md_state_[md.index].unlinked = true;
  return sent;
}

// --- puts and gets ---

/// The length of a put or get that may begin, or an error.
Result<uint32_t> Submitter::operation_length(const PutSpec& spec) const {
  if (auto usable = md_usable(spec.md); !usable) return tl::unexpected(usable.error());
  const SlotState& state = md_state_[spec.md.index];
  if (state.attached) return fail(EINVAL, "an MD on a portal cannot start a put or get", spec.md.index);
  if (spec.portal >= kPortalCount) return fail(EINVAL, "portals are 0 to 63", spec.portal);
  if (spec.target.nid.is_any()) return fail(EINVAL, "the target NID is ANY");
  if (spec.md_offset > state.length) return fail(EINVAL, "the offset lies beyond the MD", spec.md_offset);
  const uint32_t room = state.length - spec.md_offset;
  const uint32_t length = spec.length == kInfinite ? room : spec.length;
  if (length > room) return fail(EINVAL, "the range ends beyond the MD", length);
  if (length > kMaxPayload) return fail(EINVAL, "a message carries at most 1 MiB", length);
  return length;
}

/// Fills a call in its place in the ring. Field by field: a copy of the whole would wait for them.
void Submitter::operation_call(const PutSpec& spec, uint32_t length, OperationCall& out) const {
  out.md = {spec.md.index, spec.md.generation};
  out.eq = md_state_[spec.md.index].eq;
  out.portal = PortalIndex{spec.portal};
  out.self = spec.self;
  out.target.nid = spec.target.nid;
  out.target.pid = spec.target.pid == kAnyPid ? kLnetPid : spec.target.pid;
  out.offset = spec.offset;
  out.match_bits = spec.match_bits;
  out.user_data = spec.user_data;
  out.md_offset = spec.md_offset;
  out.length = length;
}

Result<void> Submitter::put(const PutSpec& spec) {
  collect_freed();
  const auto length = operation_length(spec);
  if (!length) return tl::unexpected(length.error());
  auto next = next_call();
  if (!next) return tl::unexpected(next.error());
  auto& call = (*next)->emplace<PutCall>();
  operation_call(spec, *length, call.operation);
  call.hdr_data = spec.hdr_data;
  call.ack = spec.ack;
  send_next();
  return {};
}

Result<void> Submitter::get(const PutSpec& spec) {
  collect_freed();
  const auto length = operation_length(spec);
  if (!length) return tl::unexpected(length.error());
  auto next = next_call();
  if (!next) return tl::unexpected(next.error());
  auto& call = (*next)->emplace<GetCall>();
  operation_call(spec, *length, call.operation);
  call.recovery = spec.recovery;
  send_next();
  return {};
}

}  // namespace ulnet
