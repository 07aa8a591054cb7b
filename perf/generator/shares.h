// How the messages of a measurement were spread over the rails and workers of the node, from two readings of its
// counters. Pure.
#pragma once
#include <vector>

#include "perf/generator/job.h"

namespace ulnet::perf {

/// The rails of `after` that are in `before`, too, in that order.
[[nodiscard]] std::vector<RailShare> rail_shares(const NodeCounts& before, const NodeCounts& after, Operation operation,
                                                 uint32_t size);
/// By number of the worker.
[[nodiscard]] std::vector<WorkerShare> worker_shares(const NodeCounts& before, const NodeCounts& after);
[[nodiscard]] ResendCounts resends_between(const ResendCounts& before, const ResendCounts& after);

}  // namespace ulnet::perf
