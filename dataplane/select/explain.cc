#include "dataplane/select/explain.h"

#include <algorithm>

#include "dataplane/select/chooser.h"

namespace ulnet {
namespace {

class TraceRecorder {
 public:
  static constexpr bool kOn = true;
  using Step = size_t;
  struct Verdict {
    bool better = false;
    Criterion by{};
    int64_t a = 0, b = 0;
    static Verdict higher(Criterion by, int64_t a, int64_t b) { return {a > b, by, a, b}; }
    static Verdict lower(Criterion by, int64_t a, int64_t b) { return {a < b, by, a, b}; }
  };
  explicit TraceRecorder(Trace& trace) : trace_(trace) {}

  Step begin(StepKind kind, const RouteView* route = nullptr) {
    trace_.steps.push_back({kind, route, {}});
    return trace_.steps.size() - 1;
  }
  template <class T>
  void excluded(Step step, const T& object, Exclusion reason) {
    candidate(step, object).excluded = reason;
  }
  template <class T>
  void considered(Step step, const T& object) {
    (void)index(step, object);
  }
  template <class T>
  void compared(Step step, const T& a, const T& b, const Verdict& verdict) {
    const size_t a_index = index(step, a), b_index = index(step, b);
    note(step, a_index, b_index, verdict.better, verdict.by, verdict.a, verdict.b);
    note(step, b_index, a_index, !verdict.better, verdict.by, verdict.b, verdict.a);
  }
  template <class T>
  void chosen(Step step, const T& object, Criterion by = Criterion::kOnly) {
    Trace::Candidate& winner = candidate(step, object);
    winner.won = true;
    if (winner.against == Trace::kNobody) winner.by = by;
  }

 private:
  template <class T>
  size_t index(Step step, const T& object) {
    auto& all = trace_.steps[step].candidates;
    const Trace::Object wanted = &object;
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.object == wanted; });
    if (found != all.end()) return size_t(found - all.begin());
    all.push_back({wanted});
    return all.size() - 1;
  }
  template <class T>
  Trace::Candidate& candidate(Step step, const T& object) {
    return trace_.steps[step].candidates[index(step, object)];
  }
  /// A candidate that wins keeps the comparison that was decided last in the order of criteria.
  void note(Step step, size_t of, size_t against, bool won, Criterion by, int64_t value, int64_t other) {
    Trace::Candidate& one = trace_.steps[step].candidates[of];
    if (won && one.against != Trace::kNobody && by < one.by) return;
    one.by = by;
    one.against = against;
    one.value = value;
    one.other = other;
  }
  Trace& trace_;
};

template <class Map, class Key>
typename Map::mapped_type value_or(const Map& map, const Key& key, typename Map::mapped_type fallback) {
  const auto found = map.find(key);
  return found == map.end() ? fallback : found->second;
}

}  // namespace

const Trace::Candidate* Trace::Step::winner() const {
  const auto found = std::find_if(candidates.begin(), candidates.end(), [](const Candidate& one) { return one.won; });
  return found == candidates.end() ? nullptr : &*found;
}

const Trace::Step* Trace::step(StepKind kind) const {
  const auto found = std::find_if(steps.rbegin(), steps.rend(), [&](const Step& one) { return one.kind == kind; });
  return found == steps.rend() ? nullptr : &*found;
}

SendOverlay::SendOverlay(const PathContext& context)
    : context_{context.worker, context.rotation, 0},
      choices_(context.rotation == nullptr ? 0 : context.rotation->choices.get()),
      route_choices_(context.rotation == nullptr ? 0 : context.rotation->route_choices.get()) {}

int64_t SendOverlay::ni_sequence(const NiView& ni) const {
  const NiSlice* slice = ni.slices[context_.worker.value];
  return value_or(nis_, slice, slice->sequence.get());
}
int64_t SendOverlay::peer_sequence(const PeerNiView& ni) const {
  const PeerLocal* local = ni.locals[context_.worker.value];
  return value_or(peer_nis_, local, local->sequence.get());
}
int64_t SendOverlay::route_sequence(const RouteView& route) const {
  return value_or(routes_, route.id, context_.rotation == nullptr ? 0 : context_.rotation->route(route.id));
}
int32_t SendOverlay::ni_credits(const NiView& ni, WorkerId server) const {
  const NiSlice* slice = ni.slices[server.value];
  return int32_t(slice->credits.gauge().get()) - value_or(ni_taken_, slice, 0);
}
PeerLoad SendOverlay::load_of(const PeerNiView& ni) const {
  PeerLoad load = load_now(*ni.slice, 0);
  const Taken taken = value_or(peer_taken_, ni.slice, {});
  load.credits -= taken.credits;
  load.queued_bytes += taken.bytes;
  return load;
}

void SendOverlay::ni_chosen(const NiView& ni, int64_t number) {
  nis_[ni.slices[context_.worker.value]] = number;
}
void SendOverlay::peer_ni_chosen(const PeerNiView& ni, int64_t number) {
  peer_nis_[ni.locals[context_.worker.value]] = number;
}
void SendOverlay::credits_taken(const NiView& ni, const PeerNiView& hop, uint32_t bytes) {
  ++ni_taken_[ni.slices[hop.server.value]];
  Taken& taken = peer_taken_[hop.slice];
  ++taken.credits;
  taken.bytes += bytes;
}

PathChoice explain_path(const ViewSet& view, const PathRequest& request, const SendOverlay& overlay, Trace& trace) {
  return Chooser<const SendOverlay&, TraceRecorder>(view, request, overlay, TraceRecorder(trace)).choose();
}

PathChoice explain_path(const ViewSet& view, const PathRequest& request, const PathContext& context, Trace& trace) {
  return explain_path(view, request, SendOverlay(context), trace);
}

}  // namespace ulnet
