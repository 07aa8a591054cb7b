// Regions of memory at all devices. The node's helper registers them, which takes seconds for much memory, while the CM
// thread sets connections up. The CM thread alone decides which devices there are, and publishes keys.
#include <cerrno>

#include "lnd/rc/verbs/cm_ctl.h"

namespace ulnet::rc::verbs {

// --- The helper ------------------------------------------------------------------------------------------------------

void CmThread::pass(RegionJob& job, RegionStep step) {
  job.step = step;
  region_done_.store(false, std::memory_order_relaxed);
  ULNET_CHECK(region_job_.exchange(&job, std::memory_order_acq_rel) == nullptr);
  orders_signal_.raise();
  region_done_.wait(false, std::memory_order_acquire);
}

/// Devices that appear while others register are in the next answer of the CM thread.
Result<void> CmThread::region_add(RegionId region, std::span<std::byte> memory) {
  if (!start()) return fail(errno, "no thread is left for RDMA devices");
  RegionJob job;
  job.region = region;
  job.memory = memory;
  Result<void> how;
  for (pass(job, RegionStep::kPublish); !job.shares.empty(); pass(job, RegionStep::kPublish)) {
    for (RegionJob::Share& share : job.shares) {
      auto keys = share.hca->region_register(region, memory);
      if (keys)
        share.keys = std::move(*keys);
      else
        how = tl::unexpected(keys.error());
    }
  }
  if (!job.refused) return {};
  take_back(job);
  return how;
}

void CmThread::region_remove(RegionId region) {
  if (!start()) return;
  RegionJob job;
  job.region = region;
  take_back(job);
}

/// Takes the region from all devices.
void CmThread::take_back(RegionJob& job) {
  pass(job, RegionStep::kWithdraw);
  std::erase_if(job.shares, [](const RegionJob::Share& share) { return Hca::region_deregister(*share.keys); });
  pass(job, RegionStep::kEnd);
}

// --- The CM thread ---------------------------------------------------------------------------------------------------

void CmThread::run(RegionJob& job) {
  switch (job.step) {
    case RegionStep::kPublish: publish(job); break;
    case RegionStep::kWithdraw: withdraw(job); break;
    case RegionStep::kEnd:
      for (RegionJob::Share& share : job.shares) share.hca->region_keep(std::move(share.keys));
      region_under_way_ = false;
      break;
  }
  region_done_.store(true, std::memory_order_release);
  region_done_.notify_one();
}

void CmThread::publish(RegionJob& job) {
  for (RegionJob::Share& share : job.shares) {
    if (share.keys != nullptr)
      share.hca->region_publish(std::move(share.keys));
    else
      job.refused |= !share.hca->is_lost();  // a device that has gone meanwhile does not count
  }
  job.shares.clear();
  region_under_way_ = job.refused;
  if (job.refused) return;
  for (const auto& hca : hcas_)
    if (hca->is_ready() && !hca->has_region(job.region)) job.shares.push_back({hca.get(), nullptr});
  region_under_way_ = !job.shares.empty();
  if (job.shares.empty()) regions_[job.region] = job.memory;
}

void CmThread::withdraw(RegionJob& job) {
  regions_.erase(job.region);
  for (const auto& hca : hcas_)
    if (auto keys = hca->region_withdraw(job.region)) job.shares.push_back({hca.get(), std::move(keys)});
  region_under_way_ = true;
}

}  // namespace ulnet::rc::verbs
