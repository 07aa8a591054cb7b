// The stages of one turn of the control thread, each with a budget; none of them blocks. Thread: control.
#pragma once
#include "control/control.h"

namespace ulnet {

/// Handles messages from workers: messages of drivers, questions about peers, confirmations.
unsigned run_worker_messages(Control& c);
/// Links and peers that come and go, NIs being deleted, routing states.
unsigned run_health(Control& c);
/// The control halves of the drivers: connection set-up.
unsigned run_connections(Control& c);
/// Events of this node's own operations: its ping target, pings.
unsigned run_pings(Control& c);
/// Publishes what changed, frees what no worker uses any more, sends what waits.
unsigned run_views(Control& c);

/// NIs changed: peers, routes, views and ping info follow.
void nis_changed(Control& c);
/// The peers that still lack this node's newest list of NIs.
[[nodiscard]] Untold untold(const Control& c);
/// Whether all router buffers are in their pools.
[[nodiscard]] bool router_buffers_idle(const Control& c);

}  // namespace ulnet
