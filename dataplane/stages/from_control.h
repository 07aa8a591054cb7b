// The messages of control, carried out by a worker. Thread: one worker.
#pragma once
#include "dataplane/stages/worker.h"

namespace ulnet {

/// Carries out one message of control. Requires: the view of this turn is loaded.
void run_control(Worker& w, const ControlMsg& msg);

}  // namespace ulnet
