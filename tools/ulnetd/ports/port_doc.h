// What `port show` shows. Pure. Thread: control.
#pragma once
#include "config/doc.h"
#include "lnd/net/dpdk/live_port.h"

namespace ulnet {

/// Verbosity 0: the port and its sums; 1: drops by reason and the device's own counts; 2: queues with packets per
/// burst, buffers and the workers' cycles.
[[nodiscard]] config::Doc port_doc(LivePort& port, int verbosity);

}  // namespace ulnet
