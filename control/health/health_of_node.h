// Health as a part of one node: views, ping info, peers and the journal follow each change of a value. Thread: control.
#pragma once
#include "control/control.h"
#include "control/health/cut_off.h"
#include "control/health/health.h"
#include "control/health/rail_probes.h"

namespace ulnet {

/// Makes Control::health, Control::rail_probes and Control::cut_off. Requires: the node has its self_submitter.
void make_health(Control& c);

}  // namespace ulnet
