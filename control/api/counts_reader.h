// Reads the counters of a node on any thread, without a wait: for the load generator, which runs on a worker's thread.
#pragma once
#include <functional>

#include "control/control.h"
#include "dataplane/base/node_counts.h"

namespace ulnet {

/// The result may be called on any thread, and reads the NIs that the node has now. An NI that is deleted later keeps
/// its last numbers; an NI that is added later is missing. Numbers that workers own are read while they change. The
/// result holds memory of the NIs: it is destroyed on the control thread, or when no thread turns the node, and before
/// the node. Thread: control.
[[nodiscard]] std::function<NodeCounts()> counts_reader(const Control& c);

}  // namespace ulnet
