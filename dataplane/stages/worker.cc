#include "dataplane/stages/worker.h"

namespace ulnet {

Mesh::Mesh(unsigned workers, uint32_t ring_size, uint32_t peer_nis_max, IdleGate* const* gates_,
           IdleGate* control_gate_, const std::vector<WorkerMemory*>& near)
    : worker_count(workers),
      gates(gates_, gates_ + workers),
      control_gate(control_gate_),
      states(std::make_unique<WorkerState[]>(workers)) {
  for (unsigned from = 0; from < workers; ++from) {
    WorkerMemory* const memory = from < near.size() ? near[from] : nullptr;
    tallies.push_back(Near<Tallies>(near_new<Tallies>(memory, peer_nis_max), NearDelete<Tallies>{memory}));
    for (unsigned to = 0; to < workers; ++to) pairs.push_back(std::make_unique<Pair>(from == to ? 2 : ring_size));
    to_worker.push_back(std::make_unique<SpscRing<ControlMsg>>(ring_size));
    to_control.push_back(std::make_unique<SpscRing<WorkerMsg>>(ring_size));
  }
}

Worker::Worker(WorkerId id_, Mesh& mesh_, const WorkerSize& size, uint64_t interface_cookie_, uint64_t seed,
               WorkerMemory* near_memory)
    : id(id_),
      mesh(mesh_),
      memory(near_memory),
      interface_cookie(interface_cookie_),
      rng(seed),
      operations(size.operations, memory),
      incoming(size.incoming, memory),
      requests_seen(size.incoming * kRequestsSeenFactor, memory),
      parked(size.parked_peers, memory),
      outbox_work(mesh_.worker_count),
      outbox_back(mesh_.worker_count),
      control_asks(size.parked_peers          // one for each peer that messages are parked for
                       + size.control_queue,  // drivers
                   memory),
      driver_asks_most(size.control_queue),
      tallies(*mesh_.tallies[id_.value]) {
  ULNET_CHECK(id.value < kWorkersMax && mesh.worker_count <= kWorkersMax);
  ULNET_CHECK(size.operations <= kMessagesPerWorkerMax);  // more have no place in object_cookie()
  batch.reserve(kBatchBack + kBatchWork);
}

Worker::~Worker() = default;

void Worker::add_lnd(unsigned number, std::unique_ptr<Lnd> lnd) {
  ULNET_CHECK(number == lnd_count && number < kLndsMax);
  lnds[lnd_count++] = std::move(lnd);
}

void Worker::note_asleep() {
  view = nullptr;
  counters.turn[size_t(TurnStat::kSleeps)].add();
  // release: control, which acquires it, frees what was read before.
  mesh.states[id.value].awake.store(false, std::memory_order_release);
}

}  // namespace ulnet
