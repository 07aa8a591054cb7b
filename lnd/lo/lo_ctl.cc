// Control half of the loopback LND (lo.h).
#include "lnd/lo/lo.h"

namespace ulnet {

Result<void> LoControl::ni_start(const NiParams& params, Instant) {
  if (!params.nid.is_lo()) return fail(EINVAL, "the loopback driver serves 0@lo only");
  return {};
}

void LoControl::ni_stop(NiId ni, Instant) {
  const unsigned workers = host_.worker_count();
  stopping_[ni] = workers;
  for (unsigned worker = 0; worker < workers; ++worker) host_.to_worker(WorkerId{uint16_t(worker)}, LoStopMsg{ni});
}

void LoControl::from_worker(WorkerId, const LndMsg& msg, Instant) {
  const NiId ni = msg.as<LoStoppedMsg>().ni;
  const auto found = stopping_.find(ni);
  if (found == stopping_.end() || --found->second > 0) return;
  stopping_.erase(found);
  host_.ni_stopped(ni);
}

}  // namespace ulnet
