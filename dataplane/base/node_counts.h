// Counters of a node as plain numbers, for a thread beside control and the workers: messages by local NI (rail) and by
// worker, and resends. They count since the start of the node or NI, and a reset does not change them.
#pragma once
#include <cstdint>
#include <vector>

#include "dataplane/base/nid.h"

namespace ulnet {

/// Messages of one local NI, over all workers.
struct RailCounts {
  Nid nid;
  uint64_t sent = 0, received = 0;
  uint64_t dropped = 0;       ///< sends that failed, and messages dropped on receive
  uint64_t puts_sent = 0;     ///< of `sent`; an ACK counts as a PUT (docs/wire/lnet.md §13)
  uint64_t replies_come = 0;  ///< of `received`
};

/// Messages of this node itself, without forwarded ones, and their payload.
struct WorkerCounts {
  uint64_t sent = 0, received = 0;
  uint64_t sent_bytes = 0, received_bytes = 0;
};

struct ResendCounts {
  uint64_t resent = 0;      ///< messages sent again on another path; one for each time
  uint64_t successful = 0;  ///< messages that went through after that
  uint64_t failed = 0;      ///< messages given up after that
};

struct NodeCounts {
  std::vector<RailCounts> rails;      ///< in the same order in each reading
  std::vector<WorkerCounts> workers;  ///< by number
  ResendCounts resends;
};

}  // namespace ulnet
