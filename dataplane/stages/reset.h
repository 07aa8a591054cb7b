// Minima and maxima start anew when control says so (`stats reset`): their owner resets them, as a baseline cannot.
// Thread: the worker.
#pragma once
#include "dataplane/stages/worker.h"

namespace ulnet {

/// All of this worker: NI, peer and router credits, router buffers, latencies, messages in being. Walks the peer table
/// once: for a command, not for the data path.
void reset_extremes(Worker& w);
/// The least of the router buffers alone.
void reset_pool_minima(Worker& w);
/// Messages of this worker that are in being, forwarded ones aside.
[[nodiscard]] inline uint64_t messages_in_being(const Worker& w) {
  return w.operations.out() + w.incoming.out();
}

}  // namespace ulnet
