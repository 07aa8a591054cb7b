// Explains why a path is chosen: runs the function that sends (chooser.h), with a record of each candidate. Thread:
// control, for any worker. All numbers of the worker that explain_path() reads are gauges: the worker is not disturbed.
// The worker's notes of its present turn are not read. At its next turn, the worker reads the same gauges. May
// allocate.
#pragma once
#include <cstddef>
#include <map>
#include <variant>
#include <vector>

#include "dataplane/select/after_choice.h"
#include "dataplane/select/criterion.h"
#include "dataplane/select/path.h"

namespace ulnet {

/// All steps of a choice, in order. Refers to objects of the views, and is valid as long as these are.
struct Trace {
  using Object = std::variant<const PeerNetView*, const NiView*, const PeerNiView*, const RouteView*>;
  static constexpr size_t kNobody = SIZE_MAX;
  struct Candidate {
    Object object;
    Exclusion excluded = Exclusion::kNone;  ///< else it is no candidate, and nothing below has a meaning
    bool won = false;
    /// Of a loser: the criterion on which it lost. Of the winner: the last criterion that it needed.
    Criterion by = Criterion::kOnly;
    size_t against = kNobody;  ///< index of the other candidate of that comparison
    int64_t value = 0;         ///< of this candidate
    int64_t other = 0;         ///< of `against`
  };
  struct Step {
    StepKind kind{};
    const RouteView* route = nullptr;  ///< kGatewayNi: the route whose gateway it is; null: none is compared
    std::vector<Candidate> candidates;
    /// Null: the step has no winner.
    [[nodiscard]] const Candidate* winner() const;
  };
  std::vector<Step> steps;  ///< the choice of a route begins before the choices of the gateways' NIs
  /// The last step of this kind; null: there is none.
  [[nodiscard]] const Step* step(StepKind kind) const;
};

/// The numbers of one worker, and on top of them what it would change by sending. Real objects stay as they are. To
/// play messages: explain_path(), then note_sent() with the choice, and so on. No credit comes back meanwhile.
class SendOverlay {
 public:
  explicit SendOverlay(const PathContext& context);

  // As a reader of Chooser.
  [[nodiscard]] int64_t ni_sequence(const NiView& ni) const;
  [[nodiscard]] int64_t peer_sequence(const PeerNiView& ni) const;
  [[nodiscard]] int64_t route_sequence(const RouteView& route) const;
  [[nodiscard]] int32_t ni_credits(const NiView& ni, WorkerId server) const;
  [[nodiscard]] PeerLoad load_of(const PeerNiView& ni) const;
  [[nodiscard]] int32_t peer_credits(const PeerNiView& ni) const { return load_of(ni).credits; }
  static void prefetch(const PeerNiView&) {}

  // As notes of note_sent().
  int64_t next_choice() { return ++choices_; }
  int64_t next_route_choice() { return ++route_choices_; }
  void ni_chosen(const NiView& ni, int64_t number);
  void peer_ni_chosen(const PeerNiView& ni, int64_t number);
  void route_chosen(const RouteView& route, int64_t number) { routes_[route.id] = number; }
  void credits_taken(const NiView& ni, const PeerNiView& hop, uint32_t bytes);

 private:
  struct Taken {
    int32_t credits = 0;
    int64_t bytes = 0;
  };
  const PathContext context_;
  int64_t choices_ = 0;
  int64_t route_choices_ = 0;
  std::map<const NiSlice*, int64_t> nis_;         // sequences, by slice of the worker
  std::map<const PeerLocal*, int64_t> peer_nis_;  // sequences
  std::map<uint32_t, int64_t> routes_;            // sequences, by RouteView::id
  std::map<const NiSlice*, int32_t> ni_taken_;    // credits, by slice of the worker that sends
  std::map<const PeerSlice*, Taken> peer_taken_;
};

/// Returns the choice of choose_path() for these numbers, and adds the reasons to `trace`. PathContext::turn does not
/// matter.
[[nodiscard]] PathChoice explain_path(const ViewSet& view, const PathRequest& request, const PathContext& context,
                                      Trace& trace);
[[nodiscard]] PathChoice explain_path(const ViewSet& view, const PathRequest& request, const SendOverlay& overlay,
                                      Trace& trace);

}  // namespace ulnet
