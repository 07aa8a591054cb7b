// The machine and the program that measured, for reports.
#pragma once
#include <nlohmann/json_fwd.hpp>

namespace ulnet::perf {

/// {"ulnet", "host", "kernel", "cpu", "cpus", "cpus_allowed"}: version, names, and numbers of CPUs: those of the
/// machine, and those that this process may use. A fact that the machine does not give is null.
[[nodiscard]] nlohmann::ordered_json machine_json();

}  // namespace ulnet::perf
