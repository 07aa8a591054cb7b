// The configuration keys of o2iblnd. Thread: control.
#pragma once
#include <span>
#include <vector>

#include "lnd/driver.h"
#include "lnd/o2iblnd/config.h"

namespace ulnet::o2iblnd {

[[nodiscard]] std::span<const DriverField> ib_setting_fields();
[[nodiscard]] std::span<const DriverField> ib_tunable_fields();
[[nodiscard]] IbConfig ib_config(std::span<const int64_t> settings);
/// An NI's settings from NiParams::tunables, and back.
[[nodiscard]] IbTunables ib_tunables(std::span<const int64_t> tunables);
[[nodiscard]] std::vector<int64_t> ib_tunable_numbers(const IbTunables& tunables);

}  // namespace ulnet::o2iblnd
