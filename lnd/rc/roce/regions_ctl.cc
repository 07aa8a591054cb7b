// The writing side of a table of regions.
#include "lnd/rc/roce/regions.h"

namespace ulnet::rc::roce {

RegionTable::~RegionTable() {
  for (uint32_t i = 0; i < kRegionSlots; ++i) delete slots_[i].load(std::memory_order_relaxed);
}

void RegionTable::add(RegionId region, std::span<std::byte> memory) {
  replace(region, new Region{region, memory});
}

void RegionTable::remove(RegionId region) {
  replace(region, nullptr);
}

void RegionTable::replace(RegionId region, const Region* by) {
  delete slots_[region_slot(region)].exchange(by, std::memory_order_acq_rel);
}

}  // namespace ulnet::rc::roce
