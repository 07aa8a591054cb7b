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

TallyNow changed(TallyNow now, const std::map<uint32_t, TallyNow>& changes, uint32_t slot) {
  const auto found = changes.find(slot);
  if (found == changes.end()) return now;
  const TallyNow& change = found->second;
  return {now.under_way + change.under_way, now.bytes + change.bytes,
          change.sequence == 0 ? now.sequence : change.sequence, now.weight};
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

SendOverlay::SendOverlay(const PathContext& context, const PathRequest& request)
    : context_(context),
      kind_(pace_kind(request.bytes)),
      choices_(context.tallies.choices.get()),
      route_choices_(context.tallies.route_choices.get()) {}

TallyNow SendOverlay::ni(uint32_t slot) const {
  return changed(context_.tallies.ni_now(slot, kind_), nis_, slot);
}
TallyNow SendOverlay::peer_ni(uint32_t slot) const {
  return changed(context_.tallies.peer_ni_now(slot, kind_), peer_nis_, slot);
}
int64_t SendOverlay::route_sequence(const RouteView& route) const {
  const auto found = routes_.find(route.id);
  return found == routes_.end() ? context_.tallies.route(route.id) : found->second;
}
void SendOverlay::taken(const NiView& ni, const PeerNiView& hop, uint64_t bytes) {
  for (TallyNow* one : {&nis_[ni.slot], &peer_nis_[hop.slot]}) {
    ++one->under_way;
    one->bytes += int64_t{Tally::kib_of(bytes)} << 10;
  }
}

PathChoice explain_path(const ViewSet& view, const PathRequest& request, const SendOverlay& overlay, Trace& trace) {
  return Chooser<const SendOverlay&, TraceRecorder>(view, request, overlay, TraceRecorder(trace)).choose();
}

PathChoice choose_path(const ViewSet& view, const PathRequest& request, const SendOverlay& overlay) {
  return Chooser<const SendOverlay&, NoRecorder>(view, request, overlay, NoRecorder{}).choose();
}

PathChoice explain_path(const ViewSet& view, const PathRequest& request, const PathContext& context, Trace& trace) {
  return explain_path(view, request, SendOverlay(context, request), trace);
}

}  // namespace ulnet
