#include "dataplane/state/peer_blocks.h"

namespace ulnet {

Near<PeerBlocks> PeerBlocks::make(PeerNiId id, const Nid& nid, int32_t tx_credits, int32_t rtr_credits, WorkerId server,
                                  const std::vector<WorkerMemory*>& near, const std::vector<Tallies*>& tallies,
                                  uint32_t tally_slot) {
  WorkerMemory* const at_server = near[server.value];
  Near<PeerBlocks> blocks(near_new<PeerBlocks>(at_server, id, tx_credits, rtr_credits), {at_server});
  blocks->slice.slot = tally_slot;
  blocks->locals.reserve(near.size());
  blocks->by_worker.reserve(near.size());
  for (size_t worker = 0; worker < near.size(); ++worker) {
    WorkerMemory* const memory = near[worker];
    PeerLocal& local = *blocks->locals.emplace_back(near_new<PeerLocal>(memory, id), NearDelete<PeerLocal>{memory});
    local.nid = nid;
    blocks->by_worker.push_back(&local);
    if (tallies.empty()) continue;
    tallies[worker]->ensure(tally_slot, memory);
    local.tally = &tallies[worker]->peer_ni(tally_slot).tally();
  }
  blocks->slice.locals = blocks->by_worker.data();
  return blocks;
}

}  // namespace ulnet
