// Which drivers this program has. registry.cc is the one file that names concrete drivers, one line for each. A test
// program that brings a driver of its own has another such file.
#pragma once
#include <span>

#include "lnd/driver.h"

namespace ulnet {

/// The record of every driver, loopback first.
[[nodiscard]] std::span<const DriverType* const> driver_types();

/// Whether there is a driver for networks of this type.
[[nodiscard]] bool driver_serves(NetType type);

}  // namespace ulnet
