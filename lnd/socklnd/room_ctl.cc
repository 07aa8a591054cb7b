#include "lnd/socklnd/room_ctl.h"

#include <algorithm>
#include <new>
#include <vector>

#include "dataplane/base/nid_text.h"
#include "lnd/socklnd/peer_ctl.h"

namespace ulnet::socklnd {
namespace {

constexpr size_t kSetsFree = 8;
constexpr Duration kIdleMin = 5s;
constexpr Duration kLookAgain = 100ms;    ///< after a look that found nothing to close
constexpr size_t kMemoryMin = 64 * 1024;  ///< beside the connection itself

/// A set that could give way.
struct Holder {
  Instant used;
  SetCtl* set;
};
/// The sets of one address, the longest idle one last.
using Holders = std::vector<Holder>;

Instant used_at(const SetCtl& set) {
  return std::max(set.made_at, Instant{Duration{set.object->used_ns.get()}});
}

/// Which of two addresses has to give way: the one with more sets, or the one with the set that is idle for longer.
bool before(const Holders* a, const Holders* b) {
  const size_t sets_a = std::max(a->size(), kSetsFree), sets_b = std::max(b->size(), kSetsFree);
  return sets_a != sets_b ? sets_a > sets_b : a->back().used < b->back().used;
}

std::map<IpAddress, Holders> holders_on(SockControl& control, WorkerId worker) {
  std::map<IpAddress, Holders> all;
  for (auto& [id, set] : control.sets)
    if (set.place.worker == worker && !set.live.empty() && set.accepting == 0)
      all[address_share(set.live.begin()->second.remote)].push_back({used_at(set), &set});
  for (auto& [address, holders] : all)
    std::sort(holders.begin(), holders.end(), [](const Holder& a, const Holder& b) { return a.used > b.used; });
  return all;
}

/// Closes sets until `wanted` connections are on their way out, or none may be closed. Returns how many are.
uint32_t make_room(SockControl& control, WorkerId worker, uint32_t wanted) {
  auto all = holders_on(control, worker);
  const auto later = [](const Holders* a, const Holders* b) { return before(b, a); };
  std::vector<Holders*> heap;
  for (auto& [address, holders] : all) heap.push_back(&holders);
  std::make_heap(heap.begin(), heap.end(), later);
  uint32_t closed = 0;
  while (closed < wanted && !heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    Holders& holders = *heap.back();
    const Holder holder = holders.back();
    const Duration idle = control.now - holder.used;
    if (holders.size() <= kSetsFree && idle < kIdleMin) break;
    closed += uint32_t(holder.set->live.size());
    control.log_limited(LogCause::kRoom, "socklnd: connections of " + nid_text(holder.set->nid) + ", idle for " +
                                             std::to_string(idle / 1s) + " s, are closed: others need room on worker " +
                                             std::to_string(worker.value) + " (ulnet.memory.connections_per_worker)");
    set_close_all(control, *holder.set, 0);
    holders.pop_back();
    if (holders.empty()) {
      heap.pop_back();
    } else {
      std::push_heap(heap.begin(), heap.end(), later);
    }
  }
  return closed;
}

}  // namespace

IpAddress address_share(const IpAddress& address) {
  IpAddress share = address;
  if (share.v6) std::fill(share.bytes.begin() + 8, share.bytes.end(), uint8_t{0});
  return share;
}

// Direct calls of the allocation functions: the compiler may leave out a new expression whose result is unused.
bool memory_for_conn(SockControl& control) {
  constexpr size_t kBytes = sizeof(Conn) + sizeof(ConnSet) + kMemoryMin;
  void* const block = ::operator new(kBytes, std::nothrow);
  if (block == nullptr) return false;
  ::operator delete(block);
  return !control.host.memory_low();  // after the block, which may have come from what control keeps back
}

bool room_for_conn(SockControl& control, const SetCtl& set) {
  const uint32_t most = control.config.conns_max;
  const uint32_t reserve = most / 8;
  SockControl::Slots& slots = control.slots_of(set);
  const uint32_t staying = slots.used - slots.closing;
  if (staying + reserve >= most && control.now >= slots.next_look) {
    const uint32_t wanted = staying + reserve - most + 1 + most / 64;
    slots.next_look = make_room(control, set.place.worker, wanted) == 0 ? control.now + kLookAgain : kNever;
  }
  if (slots.used >= most) {
    control.log_limited(LogCause::kRoom, "socklnd: no connection slot for " + nid_text(set.nid) + ": worker " +
                                             std::to_string(set.place.worker.value) + " serves " +
                                             std::to_string(slots.used) + " (ulnet.memory.connections_per_worker)");
    return false;
  }
  if (memory_for_conn(control)) return true;
  control.log_limited(LogCause::kMemory, "socklnd: no memory for a connection of " + nid_text(set.nid));
  return false;
}

}  // namespace ulnet::socklnd
