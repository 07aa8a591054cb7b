#include "dataplane/select/path.h"

#include "dataplane/select/chooser.h"

namespace ulnet {
namespace {

/// The numbers as the worker that chooses has them. A gauge of another worker
/// is read once per turn, and from then on the own note of it counts.
class WorkerReader {
 public:
  explicit WorkerReader(const PathContext& context) : context_(context) {}
  [[nodiscard]] int64_t peer_sequence(const PeerNiView& ni) const {
    return ni.locals[context_.worker.value]->sequence.get();
  }
  [[nodiscard]] int64_t ni_sequence(const NiView& ni) const { return ni.slices[context_.worker.value]->sequence.get(); }
  /// Free credits of the NI at the worker `server`, less the messages that wait
  /// for a credit there.
  [[nodiscard]] int32_t ni_credits(const NiView& ni, WorkerId server) const {
    const Gauge& gauge = ni.slices[server.value]->credits.gauge();
    if (context_.turn == 0) return int32_t(gauge.get());
    NiLoad& load = ni.slices[context_.worker.value]->loads[server.value];
    if (load.turn != context_.turn) load = {context_.turn, int32_t(gauge.get())};
    return load.credits;
  }
  /// The numbers of a peer NI lie in two objects of their own, each in another cache line. The loads of all candidates
  /// start before the first result is used.
  void prefetch(const PeerNiView& ni) const {
    __builtin_prefetch(&ni.locals[context_.worker.value]->load, 1);
    __builtin_prefetch(&ni.slice->credits.gauge());
  }
  [[nodiscard]] int32_t peer_credits(const PeerNiView& ni) const { return load_of(ni).credits; }
  /// The same of a peer NI, and the bytes that are on their way to it.
  [[nodiscard]] PeerLoad load_of(const PeerNiView& ni) const {
    if (context_.turn == 0) return load_now(*ni.slice, 0);
    PeerLoad& load = ni.locals[context_.worker.value]->load;
    if (load.turn != context_.turn) load = load_now(*ni.slice, context_.turn);
    return load;
  }
  [[nodiscard]] int64_t route_sequence(const RouteView& route) const {
    return context_.rotation == nullptr ? 0 : context_.rotation->route(route.id);
  }

 private:
  const PathContext context_;
};

}  // namespace

PathChoice choose_path(const ViewSet& view, const PathRequest& request, const PathContext& context) {
  return Chooser<WorkerReader, NoRecorder>(view, request, WorkerReader(context), NoRecorder{}).choose();
}

PathChoice path_over(const ViewSet& view, const PathRequest& request, const PathContext& context, const Nid& hop) {
  return Chooser<WorkerReader, NoRecorder>(view, request, WorkerReader(context), NoRecorder{}).over_hop(hop);
}

}  // namespace ulnet
