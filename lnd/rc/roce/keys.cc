#include "lnd/rc/roce/keys.h"

#include "dataplane/base/check.h"

namespace ulnet::rc::roce {

std::optional<uint32_t> KeyTable::open(std::span<std::byte> memory, KeptList* list) {
  if (free_.empty()) return std::nullopt;
  const uint32_t place = free_.back();
  free_.pop_back();
  Place& one = places_[place];
  ++one.uses;
  one.window = {memory, list};
  one.is_open = true;
  return value_of(place);
}

void KeyTable::close(uint32_t value) {
  ULNET_CHECK(holds(value));
  places_[place_of(value)].is_open = false;
  free_.push_back(place_of(value));
}

const KeyWindow* KeyTable::find(uint32_t value) const {
  return holds(value) ? &places_[place_of(value)].window : nullptr;
}

}  // namespace ulnet::rc::roce
