// The parts of the field table; schema.cc joins them. Only for schema*.cc: everyone else uses schema.h.
#pragma once
#include <span>

#include "config/schema.h"

namespace ulnet::config {

std::span<const Field> lnet_fields();
std::span<const Field> ulnet_fields();

}  // namespace ulnet::config
