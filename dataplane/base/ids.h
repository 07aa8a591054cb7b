// The small vocabulary of identities. Each is a distinct type, so that a worker number cannot be passed where an NI
// number belongs. A new concept of the project gets its line here.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>

#include "dataplane/base/limits.h"

namespace ulnet {

/// A number that is not convertible to or from any other kind of number.
template <class Tag, class T>
struct Id {
  T value{};
  constexpr auto operator<=>(const Id&) const = default;
};

/// A worker of one Node, 0-based. Stable for the Node's life.
using WorkerId = Id<struct WorkerTag, uint16_t>;
/// A local NI. Given out by control, never reused in a Node's life.
using NiId = Id<struct NiTag, uint32_t>;
/// A peer NI. Given out by control, never reused in a Node's life.
using PeerNiId = Id<struct PeerNiTag, uint32_t>;
/// A connection set of an LND (one local NI and one peer NID), given out by the LND's control half.
using ConnSetId = Id<struct ConnSetTag, uint32_t>;
/// A portal, 0..63 (docs/wire/lnet.md §2.3). Portal 0 belongs to LNet itself.
using PortalIndex = Id<struct PortalTag, uint32_t>;
/// A range of registered memory: its slot, and above that the number of earlier uses of the slot (region_slot() in
/// state/payload.h). Control gives it out. 0: no region.
using RegionId = Id<struct RegionTag, uint32_t>;
/// A view epoch: grows by one with every publication.
using Epoch = Id<struct EpochTag, uint64_t>;

inline constexpr WorkerId kNoWorker{0xFFFF};
static_assert(kWorkersMax <= kNoWorker.value);

/// Slot of a slab together with the generation that it had when the handle was given out. Generation 0 is never valid.
struct Handle {
  uint32_t index = 0;
  uint32_t generation = 0;
  constexpr auto operator<=>(const Handle&) const = default;
  [[nodiscard]] constexpr bool valid() const { return generation != 0; }
};

}  // namespace ulnet

template <class Tag, class T>
struct std::hash<ulnet::Id<Tag, T>> {
  size_t operator()(const ulnet::Id<Tag, T>& id) const noexcept { return std::hash<T>{}(id.value); }
};
