// Single operations of a generator: binding, starting, events, checking data.
#include <algorithm>
#include <array>

#include "perf/generator/generator.h"
#include "perf/generator/pattern.h"

namespace ulnet::perf {
namespace {

constexpr unsigned kIssueBudget = 64;       // operations started in one turn
constexpr Duration kRestAfterError = 10ms;  // a slot whose operation failed: a dead peer is not hammered
constexpr Duration kSlotsBackIn = 1s;       // MDs of the run before are on their way back
constexpr unsigned kIndexBits = 16;         // of a tag: which slot
constexpr std::array<std::byte, 4> kPingMagic{std::byte{0x67}, std::byte{0x6E}, std::byte{0x69}, std::byte{0x70}};

static_assert(kConcurrencyMax < (1u << kIndexBits));

}  // namespace

std::span<std::byte> Generator::memory_of(uint32_t index) const {
  const size_t bytes = size_t{slot_bytes_} * (reads_back() ? 2 : 1);
  return {memory_.get() + bytes * index, bytes};
}

/// Operations under way at once use different parts of the target where they fit: needed when a put is read back.
uint32_t Generator::remote_offset(uint32_t index) const {
  if (job_.operation == Operation::kPing || slot_bytes_ == 0) return 0;
  return (index % (kTargetBytes / slot_bytes_)) * slot_bytes_;
}

void Generator::bind_slots(Instant now) {
  for (uint32_t i = 0; i < now_.concurrency; ++i) {
    Slot& slot = slots_[i];
    if (slot.state != SlotState::kUnbound) continue;
    const std::span<std::byte> memory = memory_of(i);
    const Segment segment{memory.data(), uint32_t(memory.size())};
    const auto md = submitter_.md_bind({.segments = {&segment, 1},
                                        .options = kMdTruncate,
                                        .user_ptr = reinterpret_cast<void*>(uintptr_t{i}),
                                        .eq = eq_});
    if (!md) {
      const bool transient =
          md.error().code == -EAGAIN || (md.error().code == -ENOSPC && now - phase_since_ < kSlotsBackIn);
      if (!transient) fail_run(md.error().code, now);
      return;
    }
    slot = Slot{.state = SlotState::kIdle, .md = *md};
    ready_.push_back(i);
    ++bound_;
  }
}

void Generator::unlink_slots() {
  ready_.clear();
  resting_.clear();
  back_.clear();
  for (Slot& slot : slots_) {
    if (slot.state == SlotState::kUnbound || slot.unlinking) continue;
    const auto sent = submitter_.unlink(slot.md);
    if (!sent && sent.error().code == -EAGAIN) return;
    slot.unlinking = true;  // ENOENT: it has ended by itself, its kUnlink is on the way
  }
}

bool Generator::may_issue() const {
  if (phase_ == Phase::kWarmup) return true;
  return phase_ == Phase::kMeasure && (job_.count == 0 || issued_measured_ < job_.count);
}

Result<void> Generator::start(Slot& slot, uint32_t index, bool back) {
  PutSpec spec{.md = slot.md, .self = job_.self, .target = job_.target, .length = slot_bytes_};
  spec.user_data = (next_tag_ << kIndexBits) | index;
  if (job_.operation == Operation::kPing) {
    spec.portal = 0;
    spec.match_bits = kPingBits;
  } else {
    spec.portal = kTargetPortal;
    spec.match_bits = job_.operation == Operation::kPut ? kSinkBits : kSourceBits;
    spec.offset = remote_offset(index);
  }
  if (back) spec.md_offset = slot_bytes_;
  if (reads_back() && !back) {
    slot.seed = spec.user_data;
    pattern_fill(memory_of(index).first(slot_bytes_), slot.seed);
  }
  const bool is_put = job_.operation == Operation::kPut && !back;
  auto taken = is_put ? submitter_.put(spec) : submitter_.get(spec);
  if (!taken) return taken;
  slot.tag = spec.user_data;
  ++next_tag_;
  ++now_.accepted;
  ++in_flight_;
  return taken;
}

unsigned Generator::issue_ready(Instant now) {
  unsigned started = 0;
  while (!resting_.empty() && slots_[resting_.front()].not_before <= now) {
    ready_.push_back(resting_.front());
    resting_.pop_front();
  }
  while (!back_.empty() && phase_ != Phase::kCancel && started < kIssueBudget) {
    const uint32_t index = back_.back();
    const auto taken = start(slots_[index], index, true);
    if (!taken) {
      if (taken.error().code != -EAGAIN) {
        back_.pop_back();
        fail_run(taken.error().code, now);
      }
      return started;
    }
    back_.pop_back();
    ++started;
  }
  const Instant until = phase_ == Phase::kMeasure ? std::min(now, measure_until() - 1ns) : now;
  while (!ready_.empty() && may_issue() && next_due() <= until && started < kIssueBudget) {
    const uint32_t index = ready_.back();
    Slot& slot = slots_[index];
    const auto taken = start(slot, index, false);
    if (!taken) {
      if (taken.error().code != -EAGAIN) fail_run(taken.error().code, now);
      return started;
    }
    ready_.pop_back();
    slot.state = SlotState::kBusy;
    slot.issued = job_.rate == 0 ? now : next_due();
    ++scheduled_;
    slot.measured = phase_ == Phase::kMeasure;
    issued_measured_ += slot.measured;
    ++started;
  }
  return started;
}

void Generator::on_event(const Event& event, Instant now) {
  if (event.final) return on_final(event, now);
  if (event.kind != EventKind::kUnlink) return;
  const uintptr_t index = reinterpret_cast<uintptr_t>(event.user_ptr);
  if (index >= slots_.size() || slots_[index].md != event.md || slots_[index].state == SlotState::kUnbound) return;
  Slot& slot = slots_[index];
  const bool expected = slot.unlinking;
  slot.state = SlotState::kUnbound;
  slot.unlinking = false;
  --bound_;
  if (!expected) fail_run(event.status != 0 ? event.status : -ECANCELED, now);
}

/// An operation has ended well. By duration, all that end within the measurement count, whenever they began; by count,
/// those that began within it. By a rate, those that were due within it, and the latency of late ones counts, too.
void Generator::note_latency(const Slot& slot, uint32_t bytes, Instant now) {
  const bool in_time = phase_ == Phase::kMeasure && now < measure_until();
  const bool counts = job_.rate == 0 && job_.count == 0 ? in_time : slot.measured && (in_time || job_.rate != 0);
  if (!counts) return;
  latencies_->record(now - slot.issued);
  if (!in_time) {
    ++now_.late;
    return;
  }
  ++now_.completed;
  now_.bytes += bytes;
  now_.longest_pause = std::max(now_.longest_pause, now - ended_well_);
  ended_well_ = now;
}

void Generator::on_final(const Event& event, Instant now) {
  const uint32_t index = uint32_t(event.user_data & ((1u << kIndexBits) - 1));
  if (index >= slots_.size() || slots_[index].tag != event.user_data) {
    ++now_.duplicates;
    return;
  }
  Slot& slot = slots_[index];
  slot.tag = 0;
  ++now_.ended;
  --in_flight_;
  int32_t error = event.status;
  if (error == 0 && job_.operation != Operation::kPing && event.mlength != slot_bytes_) error = -EMSGSIZE;
  timeline_.ended(now, now - slot.issued, error);
  if (error != 0) {
    ++now_.failed;
    ++now_.errors[error];
    return slot_idle(slot, index, now, true);
  }
  if (slot.state == SlotState::kBusy) {
    note_latency(slot, event.mlength, now);
    if (reads_back()) {
      slot.state = SlotState::kReadBack;
      back_.push_back(index);
      return;
    }
  }
  if (job_.verify) check_data(slot, index, event.mlength);
  slot_idle(slot, index, now, false);
}

void Generator::slot_idle(Slot& slot, uint32_t index, Instant now, bool rest) {
  slot.state = SlotState::kIdle;
  if (slot.measured) ++ended_measured_;
  slot.measured = false;
  if (phase_ == Phase::kCancel) return;
  if (!rest) return ready_.push_back(index);
  slot.not_before = now + kRestAfterError;
  resting_.push_back(index);
}

void Generator::check_data(Slot& slot, uint32_t index, uint32_t bytes) {
  const std::span<std::byte> memory = memory_of(index);
  bool right = false;
  switch (job_.operation) {
    case Operation::kPing:
      right = bytes >= 16 && std::equal(kPingMagic.begin(), kPingMagic.end(), memory.begin());
      break;
    case Operation::kPut: right = pattern_match(memory.last(slot_bytes_), slot.seed) == slot_bytes_; break;
    case Operation::kGet: right = pattern_match(memory, kSourceSeed, remote_offset(index)) == slot_bytes_; break;
  }
  ++now_.verified;
  now_.mismatched += !right;
  // If the next transfer does not overwrite these bytes, its check finds a mismatch.
  const std::span<std::byte> filled = reads_back() ? memory.last(slot_bytes_) : memory.first(bytes);
  std::fill(filled.begin(), filled.end(), std::byte{0xEE});
}

}  // namespace ulnet::perf
