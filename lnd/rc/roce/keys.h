// The keys of a queue pair: which windows of memory its peer may write into. A value is not used again for a long time,
// so a late write by an old key is refused. Thread: the worker of the queue pair.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dataplane/base/rng.h"

namespace ulnet::rc::roce {

inline constexpr uint32_t kKeysMax = 1u << 12;  ///< of one queue pair; the other 20 bits of a value count uses

class KeptList;
struct KeyWindow {
  std::span<std::byte> memory;
  KeptList* list = nullptr;  ///< of what the peer writes; null: that goes into the memory
};

class KeyTable {
 public:
  /// Allocates: made on the control thread. `places`: at most kKeysMax. Values start at random.
  KeyTable(uint32_t places, Rng& rng);

  /// Nothing if all places are in use.
  [[nodiscard]] std::optional<uint32_t> open(std::span<std::byte> memory, KeptList* list = nullptr);
  /// Requires: the key is open.
  void close(uint32_t value);
  /// The window of an open key; null: there is none.
  [[nodiscard]] const KeyWindow* find(uint32_t value) const;
  /// Calls `use` for the window of each open key.
  template <class F>
  void each_open(F&& use) {
    for (Place& place : places_)
      if (place.is_open) use(place.window);
  }
  [[nodiscard]] uint32_t free_count() const { return uint32_t(free_.size()); }

 private:
  struct Place {
    KeyWindow window;
    uint32_t uses = 0;
    bool is_open = false;
  };
  [[nodiscard]] static uint32_t place_of(uint32_t value) { return value % kKeysMax; }
  [[nodiscard]] bool holds(uint32_t value) const {
    const uint32_t place = place_of(value);
    return place < places_.size() && places_[place].is_open && value_of(place) == value;
  }
  [[nodiscard]] uint32_t value_of(uint32_t place) const { return places_[place].uses * kKeysMax + place; }

  std::vector<Place> places_;
  std::vector<uint32_t> free_;  ///< never more than `places_` has
};

}  // namespace ulnet::rc::roce
