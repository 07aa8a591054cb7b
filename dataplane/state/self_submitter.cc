#include "dataplane/state/self_submitter.h"

namespace ulnet {

Result<MdHandle> ControlPort::bind(MdSpec spec, PortUser& user) {
  if (!eq_.valid()) {
    auto eq = submitter_.eq_open(&ControlPort::on_event, this);
    if (!eq) return tl::unexpected(eq.error());
    eq_ = *eq;
  }
  spec.eq = eq_;
  spec.user_ptr = &user;
  return submitter_.md_bind(spec);
}

void ControlPort::on_event(void* context, const Event& event) {
  auto& port = *static_cast<ControlPort*>(context);
  const bool served = event.kind == EventKind::kGet;
  if (served && port.queued_.load(std::memory_order_relaxed) > kEvents / 2) return;
  port.queued_.fetch_add(1, std::memory_order_relaxed);
  ULNET_CHECK(port.events_.push(event));
  // That a ping was answered can wait until control turns anyway.
  if (!served) port.mesh_.control_gate->notify(port.events_);
}

unsigned ControlPort::poll(unsigned budget, Instant now) {
  unsigned done = 0;
  for (Event event; done < budget && events_.pop(event); ++done) {
    queued_.fetch_sub(1, std::memory_order_relaxed);
    if (event.user_ptr != nullptr) static_cast<PortUser*>(event.user_ptr)->on_event(event, now);
  }
  return done;
}

}  // namespace ulnet
