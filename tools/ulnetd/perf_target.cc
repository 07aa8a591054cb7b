#include "tools/ulnetd/perf_target.h"

namespace ulnet {

Result<void> PerfTarget::start() {
  if (!idle()) return fail(EBUSY, "the perf target is still there");
  constexpr WorkerId kHome{0};
  if (auto opened = node_.portal_open(PortalIndex{perf::kTargetPortal}, kHome, PortalMode::kSingle, false); !opened)
    return opened;
  auto submitter = node_.submitter_open(kHome, perf::Target::kSubmitterSize);
  if (!submitter) {
    (void)node_.portal_close(PortalIndex{perf::kTargetPortal});
    return tl::unexpected(submitter.error());
  }
  submitter_ = *submitter;
  target_ = std::make_unique<perf::Target>(*submitter_);
  running_ = true;
  asked_back_ = false;
  if (auto attached = target_->attach(); !attached) {
    stop();
    return attached;
  }
  return {};
}

void PerfTarget::stop() {
  if (!running_) return;
  running_ = false;
  (void)node_.portal_close(PortalIndex{perf::kTargetPortal});
  turn();
}

void PerfTarget::turn() {
  if (running_ || idle()) return;
  if (!asked_back_) asked_back_ = bool(target_->detach());
  if (!asked_back_ || !target_->detached()) return;
  target_.reset();
  node_.submitter_close(*submitter_);
  submitter_ = nullptr;
}

}  // namespace ulnet
