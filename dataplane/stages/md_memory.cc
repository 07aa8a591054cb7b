#include "dataplane/stages/md_memory.h"

#include <span>
#include <utility>

#include "dataplane/stages/md_end.h"
#include "dataplane/stages/post.h"

namespace ulnet {
namespace {

/// A driver copies what is at most `regions_above` bytes long. Only an MD that truncates receives of longer messages.
bool needs_regions(const Worker& w, const Md& md) {
  const bool truncates = (md.options & kMdTruncate) != 0 && (md.options & kMdPut) != 0;
  return truncates || md.length > w.view->node.regions_above;
}

}  // namespace

bool md_memory_ready(Worker& w, Submitter& submitter, uint32_t index) {
  if (w.view->node.regions_above == UINT32_MAX) return true;
  Md& md = submitter.md_slot(index);
  if (md.memory != MdMemory::kNone || submitter.closing || !needs_regions(w, md)) return true;
  bool all = true;
  for (Segment& segment : std::span(md.segments, md.segment_count)) {
    if (segment.bytes == 0) continue;
    segment.region = w.view->regions->find(segment.base, segment.bytes);
    if (segment.region == RegionId{})
      all = false;
    else
      w.region_users[region_slot(segment.region)].add(1);
  }
  md.memory = MdMemory::kInRegions;
  if (all) return true;
  submitter.registering = true;
  post_control(w, md.to_control, MdRegisterMsg{&submitter, index});
  return false;
}

void md_memory_registered(Submitter& submitter, uint32_t index, int32_t error) {
  ULNET_CHECK(submitter.registering);
  submitter.registering = false;
  submitter.calls_looked = 0;  // a call that waits for an operation looks for unlinks behind it
  submitter.md_slot(index).memory_error = error;
}

bool md_memory_free(Worker& w, Md& md) {
  if (md.memory != MdMemory::kInRegions) return md.memory == MdMemory::kNone;
  bool own = false;
  for (Segment& segment : std::span(md.segments, md.segment_count)) {
    if (segment.region == RegionId{}) continue;
    if (region_is_shared(segment.region))
      w.region_users[region_slot(std::exchange(segment.region, {}))].add_release(-1);
    else
      own = true;
  }
  md.memory = own ? MdMemory::kReleasing : MdMemory::kNone;
  if (own) post_control(w, md.to_control, MdReleaseMsg{w.submitters[md.handle.submitter], md.handle.index});
  return !own;
}

void md_memory_released(Worker& w, Submitter& submitter, uint32_t index) {
  Md& md = submitter.md_slot(index);
  ULNET_CHECK(md.memory == MdMemory::kReleasing);
  md.memory = MdMemory::kNone;
  md_retire_if_done(w, md);
}

}  // namespace ulnet
