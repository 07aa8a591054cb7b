// Handles that a user of the library holds. They name the worker that owns the object, so that an operation sent to
// another worker can be refused (EXDEV) without asking anybody.
#pragma once
#include <compare>
#include <cstdint>

namespace ulnet {

/// A user-visible handle. Generation 0 is never valid. `submitter` numbers the submitter on its worker whose slots
/// these are.
template <class Tag>
struct PtlHandle {
  uint16_t worker = 0xFFFF;
  uint16_t submitter = 0;
  uint32_t index = 0;
  uint32_t generation = 0;
  constexpr auto operator<=>(const PtlHandle&) const = default;
  [[nodiscard]] constexpr bool valid() const { return generation != 0; }
};
/// A memory descriptor: memory, how often and how it may be used, and where its events go.
using MdHandle = PtlHandle<struct MdTag>;
/// An event queue.
using EqHandle = PtlHandle<struct EqTag>;

}  // namespace ulnet
