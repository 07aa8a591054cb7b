#include "control/portals.h"

#include <algorithm>

#include "dataplane/stages/worker.h"

namespace ulnet {

Result<void> Portals::check_open(PortalIndex portal) const {
  if (portal.value >= kPortalCount) return fail(EINVAL, "portals are 0..63", portal.value);
  if (table_.portals[portal.value].mode == PortalMode::kClosed)
    return fail(ENOENT, "the portal is not open", portal.value);
  return {};
}

Result<void> Portals::open(PortalIndex portal, WorkerId home, PortalMode mode, bool lazy) {
  if (portal.value >= kPortalCount) return fail(EINVAL, "portals are 0..63", portal.value);
  PortalView& view = table_.portals[portal.value];
  if (view.mode != PortalMode::kClosed) return fail(EBUSY, "the portal is open already", portal.value);
  view = {mode, home, lazy};
  ++revision_;
  return {};
}

Result<void> Portals::close(PortalIndex portal) {
  if (auto open = check_open(portal); !open) return open;
  PortalView& view = table_.portals[portal.value];
  const bool lazy = view.lazy;
  view = {};
  ++revision_;
  if (lazy) lazy_again_.push_back(portal.value);
  return {};
}

void Portals::close_all() {
  for (uint32_t i = 0; i < kPortalCount; ++i) (void)close(PortalIndex{i});
}

void Portals::retry_lazy() {
  for (uint32_t i = 0; i < kPortalCount; ++i)
    if (table_.portals[i].lazy) lazy_again_.push_back(i);
}

void Portals::published() {
  for (uint32_t portal : lazy_again_) outbox_.send_all(PortalRetryMsg{PortalIndex{portal}});
  lazy_again_.clear();
}

Result<Submitter*> Submitters::open(WorkerId worker, const SubmitterSize& size) {
  if (worker.value >= mesh_.worker_count) return fail(EINVAL, "there is no such worker", worker.value);
  if (auto good = submitter_size_check(size); !good) return tl::unexpected(good.error());
  uint16_t number = 0;
  const auto taken = [&](uint16_t candidate) {
    return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      return entry.submitter->home() == worker && entry.submitter->number() == candidate;
    });
  };
  while (number < kSubmittersMax && taken(number)) ++number;
  if (number == kSubmittersMax) {
    const bool soon = std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      return entry.submitter->home() == worker && entry.state == State::kClosing;
    });
    return soon ? fail(EAGAIN, "submitters of this worker are still being closed: try again", kSubmittersMax)
                : fail(ENOSPC, "too many submitters on this worker", kSubmittersMax);
  }
  Entry& entry = entries_.emplace_back();
  entry.submitter = std::make_unique<Submitter>(worker, number, size, mesh_.gates[worker.value]);
  outbox_.send(worker, SubmitterOpenMsg{entry.submitter.get()});
  return entry.submitter.get();
}

void Submitters::ask_close(Entry& entry) {
  if (entry.state != State::kOpen) return;
  entry.state = State::kClosing;
  outbox_.send(entry.submitter->home(), SubmitterCloseMsg{entry.submitter.get()});
}

void Submitters::forget(std::vector<Entry>::iterator entry) {
  const auto freed = std::move(entry->freed);
  entries_.erase(entry);
  if (freed) freed();
}

void Submitters::close(Submitter& submitter, std::function<void()> freed) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.submitter.get() == &submitter; });
  if (found == entries_.end()) return;
  found->given_up = true;
  found->freed = std::move(freed);
  if (found->state == State::kClosed) {
    forget(found);
  } else {
    ask_close(*found);
  }
}

void Submitters::close_all_but(const Submitter* kept) {
  for (Entry& entry : entries_)
    if (entry.submitter.get() != kept) ask_close(entry);
}

// Closed by close_all_but() only: its user may still hold it, so it stays until close() or the end of the node.
void Submitters::closed(Submitter& submitter) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.submitter.get() == &submitter; });
  if (found == entries_.end()) return;
  found->state = State::kClosed;
  if (found->given_up) forget(found);
}

size_t Submitters::open_count() const {
  return size_t(std::count_if(entries_.begin(), entries_.end(),
                              [](const Entry& entry) { return entry.state != State::kClosed; }));
}

}  // namespace ulnet
