// Whether a configuration can run here, found out without starting anything: `ulnetd --check`, and each start before it
// begins, so that both judge alike. Thread: control, at start.
#pragma once
#include "config/change.h"
#include "lnd/net/kernel/devices.h"

namespace ulnet {

/// Mistakes in a configuration file: those against its own rules (config/apply.h), and those against this build and
/// this machine. The machine may lack drivers, worker groups, cores or devices. If an interface or an address is
/// missing, this is no error: the NI waits for it. A rule of ip2nets that fits nothing is an error. `devices` may be
/// null: then rules of ip2nets are not checked.
[[nodiscard]] config::Problems check_configuration(const config::ChangeList& changes, Devices* devices);

}  // namespace ulnet
