// Whether a configuration can run here, found out without starting anything: `ulnetd --check`, and each start before it
// begins, so that both judge alike. Thread: control, at start.
#pragma once
#include "config/change.h"
#include "lnd/net/kernel/devices.h"

namespace ulnet {

/// What is wrong with a configuration file: its own rules (config/apply.h), and what this build and this machine do not
/// have: drivers, worker groups, cores, devices. An interface or an address that is not there is no error, since it is
/// waited for; a rule of ip2nets that fits nothing is one. `devices` may be null: then those rules are not judged.
[[nodiscard]] config::Problems check_configuration(const config::ChangeList& changes, Devices* devices);

}  // namespace ulnet
