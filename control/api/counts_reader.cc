#include "control/api/counts_reader.h"

#include <memory>
#include <numeric>
#include <vector>

namespace ulnet {
namespace {

struct Rail {
  Nid nid;
  std::vector<std::shared_ptr<const NiSlice>> slices;
};

RailCounts read(const Rail& rail) {
  RailCounts counts{.nid = rail.nid};
  for (const auto& slice : rail.slices) {
    const InterfaceCounters& counted = slice->counters;
    const auto sum = [&](NiTraffic which) {
      const auto& types = counted[which];
      return std::accumulate(types.begin(), types.end(), uint64_t{0},
                             [](uint64_t before, const Counter& one) { return before + one.get(); });
    };
    counts.sent += sum(NiTraffic::kSent);
    counts.received += sum(NiTraffic::kReceived);
    counts.dropped += sum(NiTraffic::kDropped);
    counts.puts_sent += counted[NiTraffic::kSent][size_t(wire::MsgType::kPut)].get();
    counts.replies_come += counted[NiTraffic::kReceived][size_t(wire::MsgType::kReply)].get();
  }
  return counts;
}

}  // namespace

std::function<NodeCounts()> counts_reader(const Control& c) {
  std::vector<Rail> rails;
  for (const LocalNi* ni : c.nis->all())
    if (!ni->closing) rails.push_back({ni->nid, {ni->slices.begin(), ni->slices.end()}});
  std::vector<const WorkerCounters*> workers;
  for (const auto& worker : c.workers) workers.push_back(&worker->counters);
  return [rails = std::move(rails), workers = std::move(workers)] {
    NodeCounts counts;
    for (const Rail& rail : rails) counts.rails.push_back(read(rail));
    for (const WorkerCounters* worker : workers) {
      const auto of = [&](Stat stat) { return worker->stats[size_t(stat)].get(); };
      counts.workers.push_back(
          {of(Stat::kSendCount), of(Stat::kRecvCount), of(Stat::kSendLength), of(Stat::kRecvLength)});
      counts.resends.resent += of(Stat::kResendCount);
      counts.resends.successful += of(Stat::kSuccessfulResends);
      counts.resends.failed += of(Stat::kFailedResends);
    }
    return counts;
  };
}

}  // namespace ulnet
