#include "perf/generator/shares.h"

#include <algorithm>

namespace ulnet::perf {
namespace {

template <class Share>
void shares_set(std::vector<Share>& of) {
  uint64_t sum = 0;
  for (const Share& one : of) sum += one.messages;
  for (Share& one : of) one.share = sum == 0 ? 0 : double(one.messages) / double(sum);
}

}  // namespace

std::vector<RailShare> rail_shares(const NodeCounts& before, const NodeCounts& after, Operation operation,
                                   uint32_t size) {
  const auto payload = operation == Operation::kPut ? &RailCounts::puts_sent : &RailCounts::replies_come;
  std::vector<RailShare> rails;
  for (size_t i = 0; i < std::min(before.rails.size(), after.rails.size()); ++i) {
    const RailCounts &then = before.rails[i], &now = after.rails[i];
    const uint64_t messages = now.*payload - then.*payload;
    rails.push_back({.nid = now.nid,
                     .messages = messages,
                     .bytes = messages * size,
                     .sent = now.sent - then.sent,
                     .received = now.received - then.received,
                     .dropped = now.dropped - then.dropped});
  }
  shares_set(rails);
  return rails;
}

std::vector<WorkerShare> worker_shares(const NodeCounts& before, const NodeCounts& after) {
  std::vector<WorkerShare> workers;
  for (size_t i = 0; i < std::min(before.workers.size(), after.workers.size()); ++i) {
    const WorkerCounts &then = before.workers[i], &now = after.workers[i];
    const uint64_t sent = now.sent - then.sent, received = now.received - then.received;
    workers.push_back({.messages = sent + received,
                       .bytes = now.sent_bytes - then.sent_bytes + now.received_bytes - then.received_bytes,
                       .sent = sent,
                       .received = received});
  }
  shares_set(workers);
  return workers;
}

ResendCounts resends_between(const ResendCounts& before, const ResendCounts& after) {
  return {after.resent - before.resent, after.successful - before.successful, after.failed - before.failed};
}

}  // namespace ulnet::perf
