#include "dataplane/select/path.h"

#include "dataplane/select/chooser.h"

namespace ulnet {
namespace {

/// The numbers as the worker that chooses has them.
class WorkerReader {
 public:
  explicit WorkerReader(const PathContext& context) : worker_(context.worker), tallies_(context.tallies) {}
  [[nodiscard]] WorkerId worker() const { return worker_; }
  [[nodiscard]] TallyNow ni(uint32_t slot) const { return tallies_.nis[slot].now(); }
  [[nodiscard]] TallyNow peer_ni(uint32_t slot) const { return tallies_.peer_ni(slot).now(); }
  [[nodiscard]] int64_t route_sequence(const RouteView& route) const { return tallies_.route(route.id); }

 private:
  const WorkerId worker_;
  const Tallies& tallies_;
};

}  // namespace

PathChoice choose_path(const ViewSet& view, const PathRequest& request, const PathContext& context) {
  return Chooser<WorkerReader, NoRecorder>(view, request, WorkerReader(context), NoRecorder{}).choose();
}

PathChoice path_over(const ViewSet& view, const PathRequest& request, const PathContext& context, const Nid& hop) {
  return Chooser<WorkerReader, NoRecorder>(view, request, WorkerReader(context), NoRecorder{}).over_hop(hop);
}

}  // namespace ulnet
