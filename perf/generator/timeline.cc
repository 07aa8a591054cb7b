#include "perf/generator/timeline.h"

#include <algorithm>

#include "dataplane/base/check.h"

namespace ulnet::perf {

Timeline::Timeline(Duration slice) : slice_(slice) {
  ULNET_CHECK(slice == Duration{0} || slice >= kTimelineSliceMin);
  if (slice == Duration{0}) return;
  slices_.resize(kTimelineSlicesMax);
  failures_.reserve(kTimelineFailuresMax);
}

void Timeline::begin(Instant now) {
  since_ = now;
  slices_begun_ = 0;
  failures_.clear();
}

void Timeline::ended(Instant now, Duration latency, int32_t error) {
  if (slice_ == Duration{0} || since_ == kNever) return;
  ULNET_CHECK(now >= since_ && error <= 0);
  const uint32_t index = uint32_t(std::min<uint64_t>(uint64_t((now - since_) / slice_), UINT32_MAX));
  if (slices_begun_ == 0 || slices_[(slices_begun_ - 1) % kTimelineSlicesMax].index != index) {
    slices_[slices_begun_++ % kTimelineSlicesMax] = TimelineSlice{.index = index};
  }
  TimelineSlice& slice = slices_[(slices_begun_ - 1) % kTimelineSlicesMax];
  ++slice.ended;
  slice.longest = std::max(slice.longest, latency);
  if (error == 0) return;
  ++slice.failed;
  if (failures_.size() < kTimelineFailuresMax) failures_.push_back({now, latency, error});
}

TimelineResult Timeline::result() const {
  TimelineResult result{.slice = slice_, .since = since_, .failures = failures_};
  result.dropped = slices_begun_ > kTimelineSlicesMax ? slices_begun_ - kTimelineSlicesMax : 0;
  result.slices.reserve(slices_begun_ - result.dropped);
  for (uint64_t i = result.dropped; i < slices_begun_; ++i) result.slices.push_back(slices_[i % kTimelineSlicesMax]);
  return result;
}

}  // namespace ulnet::perf
