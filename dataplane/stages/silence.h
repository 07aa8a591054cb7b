// Operations that wait for an answer while the node has other rails. Control gets a message for each pair of NIs over
// which one has waited for long, and may probe that pair (control/health/rail_probes.h). Thread: the home worker of the
// operations.
#pragma once
#include "dataplane/stages/worker.h"

namespace ulnet {

/// Looks at the operations with a deadline, every kSilenceLook, if fast detection is on. Returns the number of pairs
/// that it reported to control, at most kSilentPairsMax.
unsigned silence_look(Worker& w);
/// When to look next; kForever if nothing waits.
[[nodiscard]] Instant silence_due(const Worker& w);

}  // namespace ulnet
