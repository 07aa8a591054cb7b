// The parts of the field table; schema.cc joins them with the rows of the drivers (driver_fields). Only for schema*.cc:
// everyone else uses schema.h.
#pragma once
#include <cstdint>
#include <span>

#include "config/schema.h"
#include "dataplane/base/limits.h"

namespace ulnet::config {

inline constexpr int64_t kInt32Max = INT32_MAX;
inline constexpr int64_t kCount16 = 65535;

// Where a value lives: a captureless lambda, so that the table stays constant and defaults come from model.h.
#define AT(member) [](Slots& s) -> FieldRef { return &s.member; }

std::span<const Field> lnet_fields();
std::span<const Field> ulnet_fields();

}  // namespace ulnet::config
