#include "dataplane/state/self_submitter.h"

namespace ulnet {

Result<MdHandle> SelfSubmitter::bind(MdSpec spec, SelfSubmitterUser& user) {
  if (!eq_.valid()) {
    auto eq = submitter_.eq_open(&SelfSubmitter::on_event, this);
    if (!eq) return tl::unexpected(eq.error());
    eq_ = *eq;
  }
  spec.eq = eq_;
  spec.user_ptr = &user;
  return submitter_.md_bind(spec);
}

void SelfSubmitter::on_event(void* context, const Event& event) {
  auto& self = *static_cast<SelfSubmitter*>(context);
  const bool served = event.kind == EventKind::kGet;
  if (served && self.queued_.load(std::memory_order_relaxed) > kEvents / 2) return;
  self.queued_.fetch_add(1, std::memory_order_relaxed);
  ULNET_CHECK(self.events_.push(event));
  // That a ping was answered can wait until control turns anyway.
  if (!served) self.mesh_.control_gate->notify(self.events_);
}

unsigned SelfSubmitter::poll(unsigned budget, Instant now) {
  unsigned done = 0;
  for (Event event; done < budget && events_.pop(event); ++done) {
    queued_.fetch_sub(1, std::memory_order_relaxed);
    if (event.user_ptr != nullptr) static_cast<SelfSubmitterUser*>(event.user_ptr)->on_event(event, now);
  }
  return done;
}

}  // namespace ulnet
