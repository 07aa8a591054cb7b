// Explains why a path is chosen: runs the function that sends (chooser.h), with a record of each candidate. Thread:
// control, for any worker. explain_path() only reads the worker's tallies: the worker is not disturbed. May allocate.
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
/// play messages: choose_path() or explain_path(), then note_sent() with the choice, and so on. No message ends
/// meanwhile.
class SendOverlay {
 public:
  /// For messages of the size that the request has.
  SendOverlay(const PathContext& context, const PathRequest& request);

  // As a reader of Chooser.
  static constexpr bool kArrays = false;
  [[nodiscard]] WorkerId worker() const { return context_.worker; }
  [[nodiscard]] TallyNow ni(uint32_t slot) const;
  [[nodiscard]] TallyNow peer_ni(uint32_t slot) const;
  [[nodiscard]] bool weighted() const { return context_.tallies.weighted(); }
  [[nodiscard]] int64_t route_sequence(const RouteView& route) const;

  // As notes of note_sent().
  int64_t next_choice() { return ++choices_; }
  int64_t next_route_choice() { return ++route_choices_; }
  void ni_chosen(const NiView& ni, int64_t number) { nis_[ni.slot].sequence = number; }
  void peer_ni_chosen(const PeerNiView& ni, int64_t number) { peer_nis_[ni.slot].sequence = number; }
  void route_chosen(const RouteView& route, int64_t number) { routes_[route.id] = number; }
  void taken(const NiView& ni, const PeerNiView& hop, uint64_t bytes);

 private:
  const PathContext context_;
  const PaceKind kind_;
  int64_t choices_ = 0;
  int64_t route_choices_ = 0;
  // Changes, by slot. A sequence of 0 is no change.
  std::map<uint32_t, TallyNow> nis_, peer_nis_;
  std::map<uint32_t, int64_t> routes_;  // sequences, by RouteView::id
};

/// Returns the choice of choose_path() for these numbers, and adds the reasons to `trace`.
[[nodiscard]] PathChoice explain_path(const ViewSet& view, const PathRequest& request, const PathContext& context,
                                      Trace& trace);
[[nodiscard]] PathChoice explain_path(const ViewSet& view, const PathRequest& request, const SendOverlay& overlay,
                                      Trace& trace);
/// The same without reasons.
[[nodiscard]] PathChoice choose_path(const ViewSet& view, const PathRequest& request, const SendOverlay& overlay);

}  // namespace ulnet
