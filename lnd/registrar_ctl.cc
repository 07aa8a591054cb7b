#include "lnd/registrar_ctl.h"

#include <cerrno>
#include <utility>

#include "dataplane/base/check.h"

namespace ulnet {

Registrar::~Registrar() {
  if (needed() && helper_ != nullptr) helper_->close();
}

std::optional<RegionId> Registrar::take(bool shared) {
  Numbers& numbers = shared ? shared_ : others_;
  if (numbers.next < numbers.end) return RegionId{numbers.next++};
  if (numbers.back.empty()) return std::nullopt;
  const RegionId id{numbers.back.front().value + kRegionSlots};  // the same slot, used once more
  numbers.back.pop_front();
  return id;
}

void Registrar::give(RegionId id) {
  (region_is_shared(id) ? shared_ : others_).back.push_back(id);
}

void Registrar::segments_add(std::span<Segment> segments, Done done) {
  std::vector<MemoryRange> ranges;
  for (Segment& segment : segments) {
    if (segment.bytes == 0 || segment.region != RegionId{}) continue;
    ranges.push_back({{}, {segment.base, segment.bytes}});
    const auto id = take(false);
    if (!id) break;
    ranges.back().id = segment.region = *id;
  }
  const auto ended = [segments, done = std::move(done)](const Checked<void>& result, const MemoryRange& refused) {
    for (Segment& segment : segments)
      if (!result && !region_is_shared(segment.region)) segment.region = {};
    done(result, refused);
  };
  if (ranges.empty() || ranges.back().id != RegionId{}) return add(std::move(ranges), ended);
  const MemoryRange refused = ranges.back();
  ranges.pop_back();
  for (const MemoryRange& range : ranges) give(range.id);
  const Error error{-ENOSPC, "too many segments lie outside each region: add regions for their memory"};
  steps_.push_back({true, {}, ended, error, refused});
}

void Registrar::segments_remove(std::span<const Segment> segments, std::function<void()> done) {
  std::vector<MemoryRange> ranges;
  for (const Segment& segment : segments)
    if (!region_is_shared(segment.region)) ranges.push_back({segment.region, {segment.base, segment.bytes}});
  remove(std::move(ranges), [done = std::move(done)](const auto&, const auto&) { done(); });
}

/// On the helper. Each driver gets each range. If one refuses, all that was done is undone.
void Registrar::run() {
  Step& step = *job_;
  const size_t users = users_.size();
  const auto remove = [&](size_t call) { users_[call % users].control->region_remove(step.ranges[call / users].id); };
  for (size_t call = 0; call < step.ranges.size() * users; ++call) {
    if (!step.add) {
      remove(call);
      continue;
    }
    const MemoryRange& range = step.ranges[call / users];
    const User& user = users_[call % users];
    const auto added = user.control->region_add(range.id, range.memory);
    if (added) continue;
    step.error = added.error();
    step.refused = range;
    step.driver = user.driver;
    while (call > 0) remove(--call);
    return;
  }
}

void Registrar::end_step() {
  const Step step = std::move(*std::exchange(job_, nullptr));
  steps_.pop_front();
  const bool failed = step.error.code != 0;
  if (failed || !step.add)
    for (const MemoryRange& range : step.ranges) give(range.id);
  if (!step.add) {
    ULNET_CHECK(registered_ >= step.ranges.size());
    registered_ -= step.ranges.size();
  }
  if (step.add && !failed) registered_ += step.ranges.size();
  if (!failed) return step.done({}, step.refused);
  const std::string driver = step.driver.empty() ? "" : std::string(step.driver) + ": ";
  step.done(tl::unexpected(Problem{.what = driver + step.error.what, .code = step.error.code}), step.refused);
}

unsigned Registrar::turn(Instant now) {
  unsigned done = 0;
  if (job_ != nullptr && helper_->ended(now)) {
    end_step();
    ++done;
  }
  if (job_ == nullptr && !steps_.empty()) {
    job_ = &steps_.front();  // stays in its place while others come behind it
    helper_->start(*this, now);
    ++done;
  }
  return done;
}

Instant Registrar::next_deadline() const {
  if (job_ != nullptr) return helper_->next_deadline();
  return steps_.empty() ? kForever : kNever;
}

}  // namespace ulnet
