// Registered memory of MDs, for drivers with remote writes (LndControl::regions_above). Before an MD is bound, each
// segment gets a region: one of the application's (RegionTable), or one of its own, which control registers on request.
// Thread: the home worker of the MD. Without such a driver nothing here runs.
#pragma once
#include "dataplane/stages/worker.h"

namespace ulnet {

/// The first call of the submitter binds this MD. False: control registers its memory first, and all calls of the
/// submitter wait (Submitter::registering).
[[nodiscard]] bool md_memory_ready(Worker& w, Submitter& submitter, uint32_t md);
/// Control has registered the memory of the MD, or `error` says why not.
void md_memory_registered(Submitter& submitter, uint32_t md, int32_t error);
/// The MD has ended: gives its regions back. False: control takes regions of its own from the drivers first, and the MD
/// retires with md_memory_released().
[[nodiscard]] bool md_memory_free(Worker& w, Md& md);
void md_memory_released(Worker& w, Submitter& submitter, uint32_t md);

}  // namespace ulnet
