#include "control/publish/publisher.h"

#include <algorithm>

#include "dataplane/state/fault_rules.h"

namespace ulnet {
namespace {

/// Control frees views in each turn. No worker wakes it for that: so it looks after this time, if it has no other work.
constexpr Duration kRetireLook = 1s;

}  // namespace

Publisher::Publisher(Mesh& mesh, Timers& timers)
    : mesh_(mesh), retry_(timers, TimerName::kViewRetry), look_(timers, TimerName::kViewRetire) {
  ViewParts empty;
  empty.local = std::make_shared<LocalView>();
  empty.peers = std::make_shared<PeerTable>();
  empty.routes = std::make_shared<RouteTable>();
  empty.portals = std::make_shared<PortalTable>();
  empty.regions = std::make_shared<RegionTable>();
  (void)publish(empty, true);
}

Publisher::~Publisher() {
  mesh_.view.store(nullptr, std::memory_order_seq_cst);
}

bool Publisher::publish(const ViewParts& parts, bool force) {
  if (!force && live_.size() > kViewsUnretiredMax) {
    retry_.retry(true);
    return false;
  }
  auto next = std::make_unique<Published>();
  next->parts = parts;
  next->set.epoch = Epoch{live_.empty() ? 1 : epoch().value + 1};
  next->set.local = parts.local.get();
  next->set.peers = parts.peers.get();
  next->set.routes = parts.routes.get();
  next->set.portals = parts.portals.get();
  next->set.regions = parts.regions.get();
  next->set.faults = parts.faults == nullptr || parts.faults->rules.empty() ? nullptr : parts.faults.get();
  next->set.node = parts.node;
  live_.push_back(std::move(next));
  // The exchange comes before the states are read (epoch_passed): a worker that is asleep then loads this view, or a
  // newer one, when it wakes.
  mesh_.view.exchange(&live_.back()->set, std::memory_order_seq_cst);
  retry_.stop();
  if (live_.size() > 1) look_.set_in(kRetireLook);
  return true;
}

// A worker that is awake may still use the view whose epoch it has stored, but none before it.
Epoch Publisher::epoch_passed() const {
  Epoch passed = epoch();
  for (unsigned worker = 0; worker < mesh_.worker_count; ++worker) {
    const WorkerState& state = mesh_.states[worker];
    if (!state.awake.load(std::memory_order_seq_cst)) continue;
    passed = std::min(passed, Epoch{state.epoch_seen.load(std::memory_order_seq_cst)});
  }
  return passed;
}

unsigned Publisher::retire() {
  look_.stop();
  if (live_.size() == 1) return 0;
  const Epoch passed = epoch_passed();
  unsigned freed = 0;
  for (; live_.size() > 1 && live_.front()->set.epoch < passed; ++freed) live_.pop_front();
  if (live_.size() > 1) look_.set_in(kRetireLook);
  return freed;
}

void Publisher::bury(std::shared_ptr<const void> block) {
  live_.back()->buried.push_back(std::move(block));
}

size_t Publisher::buried() const {
  size_t count = 0;
  for (const auto& one : live_) count += one->buried.size();
  return count;
}

}  // namespace ulnet
