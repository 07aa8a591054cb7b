#include "control/outbox.h"

#include <algorithm>

#include "dataplane/base/idle_gate.h"

namespace ulnet {

void Outbox::send(WorkerId to, const ControlMsg& msg) {
  ULNET_CHECK(to.value < mesh_.worker_count);
  auto& waiting = waiting_[to.value];
  if (waiting.empty() && mesh_.to_worker[to.value]->push(msg)) {
    mesh_.gates[to.value]->notify(*mesh_.to_worker[to.value]);
    return;
  }
  waiting.push_back(msg);
  retry_.retry(true);
}

void Outbox::send_all(const ControlMsg& msg) {
  for (unsigned worker = 0; worker < mesh_.worker_count; ++worker) send(WorkerId{uint16_t(worker)}, msg);
}

unsigned Outbox::flush() {
  unsigned sent = 0;
  for (unsigned worker = 0; worker < mesh_.worker_count; ++worker) {
    auto& waiting = waiting_[worker];
    const unsigned before = sent;
    for (; !waiting.empty() && mesh_.to_worker[worker]->push(waiting.front()); ++sent) waiting.pop_front();
    if (sent > before) mesh_.gates[worker]->notify(*mesh_.to_worker[worker]);
  }
  retry_.retry(waiting());
  return sent;
}

bool Outbox::waiting() const {
  return std::any_of(waiting_.begin(), waiting_.end(), [](const auto& queue) { return !queue.empty(); });
}

}  // namespace ulnet
