// Health as a part of one node: what a change of a value means for views, ping info, peers and the journal. Thread:
// control.
#pragma once
#include "control/control.h"
#include "control/health/health.h"
#include "control/health/rail_probes.h"

namespace ulnet {

/// Makes Control::health and Control::rail_probes. Requires: the node has its self_submitter.
void make_health(Control& c);

}  // namespace ulnet
