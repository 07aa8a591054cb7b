#include "dataplane/select/path.h"

#include "dataplane/select/chooser.h"

namespace ulnet {
namespace {

/// The numbers as the worker that chooses has them.
class WorkerReader {
 public:
  static constexpr bool kArrays = true;  ///< nis_from(), peer_nis_from()
  WorkerReader(const PathContext& context, const PathRequest& request)
      : worker_(context.worker), kind_(pace_kind(request.bytes)), tallies_(context.tallies) {}
  [[nodiscard]] WorkerId worker() const { return worker_; }
  [[nodiscard]] TallyNow ni(uint32_t slot) const { return tallies_.ni_now(slot, kind_); }
  [[nodiscard]] TallyNow peer_ni(uint32_t slot) const { return tallies_.peer_ni_now(slot, kind_); }
  [[nodiscard]] bool weighted() const { return tallies_.weighted(); }
  [[nodiscard]] const Tally* nis_from(uint32_t slot) const { return tallies_.nis_from(slot); }
  [[nodiscard]] const Tally* peer_nis_from(uint32_t slot) const { return tallies_.peer_nis_from(slot); }
  [[nodiscard]] int64_t route_sequence(const RouteView& route) const { return tallies_.route(route.id); }

 private:
  const WorkerId worker_;
  const PaceKind kind_;
  const Tallies& tallies_;
};

}  // namespace

PathChoice choose_path(const ViewSet& view, const PathRequest& request, const PathContext& context) {
  return Chooser<WorkerReader, NoRecorder>(view, request, WorkerReader(context, request), NoRecorder{}).choose();
}

PathChoice path_over(const ViewSet& view, const PathRequest& request, const PathContext& context, const Nid& hop) {
  return Chooser<WorkerReader, NoRecorder>(view, request, WorkerReader(context, request), NoRecorder{}).over_hop(hop);
}

PathChoice path_over(const ViewSet& view, const PathRequest& request, const PathContext& context,
                     const ChosenHop& hop) {
  return Chooser<WorkerReader, NoRecorder>(view, request, WorkerReader(context, request), NoRecorder{}).over_known(hop);
}

}  // namespace ulnet
