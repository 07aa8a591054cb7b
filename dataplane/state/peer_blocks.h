// The memory of a peer NI that workers use. Control makes and frees it (control/peers).
#pragma once
#include <vector>

#include "dataplane/base/worker_memory.h"
#include "dataplane/state/slices.h"

namespace ulnet {

/// The slice of a peer NI on the serving worker, and a PeerLocal of each worker.
struct PeerBlocks {
  /// `near`: memory by worker, which outlives this; null: the heap. `tallies`: by worker; the tally in `tally_slot` is
  /// for this peer NI. Empty: nothing is ever sent to it.
  [[nodiscard]] static Near<PeerBlocks> make(PeerNiId id, const Nid& nid, int32_t tx_credits, int32_t rtr_credits,
                                             WorkerId server, const std::vector<WorkerMemory*>& near,
                                             const std::vector<Tallies*>& tallies, uint32_t tally_slot);
  PeerBlocks(PeerNiId id, int32_t tx_credits, int32_t rtr_credits) : slice(id, tx_credits, rtr_credits) {}
  PeerSlice slice;  ///< with all of this in the memory of its server
  std::vector<Near<PeerLocal>> locals;
  std::vector<PeerLocal*> by_worker;
};

}  // namespace ulnet
