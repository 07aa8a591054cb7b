// Publishing and retiring views. Thread: control. view_builder.h fills a view; Publisher only finds out when the last
// worker has released it. The hard part: a worker that sleeps holds no view, and a worker that turns says so before it
// loads the view (state/inbox.h, WorkerState). Therefore the exchange of the view comes first here, and the states of
// workers are read after it, both seq_cst.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "control/timers.h"
#include "dataplane/state/inbox.h"
#include "dataplane/state/view.h"

namespace ulnet {

/// The parts of a view. Views share the parts that have not changed between them; only control touches the counts.
struct ViewParts {
  std::shared_ptr<const LocalView> local;
  std::shared_ptr<const PeerTable> peers;
  std::shared_ptr<const RouteTable> routes;
  std::shared_ptr<const PortalTable> portals;
  std::shared_ptr<const RegionTable> regions;
  std::shared_ptr<const FaultTable> faults;
  NodeView node;
};

class Publisher {
 public:
  /// Publishes an empty view at once, so that a worker always finds one.
  Publisher(Mesh& mesh, Timers& timers);
  /// Requires: no worker turns any more.
  ~Publisher();
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  /// Shows `parts` to workers from their next turn on. False if kViewsUnretiredMax views are not retired yet: then
  /// nothing was done, and the caller tries again later with the parts of that time. `force` publishes even then
  /// (start, stop, portals).
  [[nodiscard]] bool publish(const ViewParts& parts, bool force = false);
  /// Frees views that every worker has passed; returns how many.
  unsigned retire();
  /// Keeps `block` until every view published so far, the current one included, has been retired. For memory that those
  /// views point at; the caller has made sure that no worker points at it otherwise.
  void bury(std::shared_ptr<const void> block);
  [[nodiscard]] Epoch epoch() const { return live_.back()->set.epoch; }
  /// True when no worker can be using a view older than `epoch`. Cost: one look at each worker.
  [[nodiscard]] bool passed(Epoch epoch) const { return epoch_passed() >= epoch; }
  [[nodiscard]] const ViewSet& current() const { return live_.back()->set; }
  [[nodiscard]] size_t unretired() const { return live_.size() - 1; }
  [[nodiscard]] size_t buried() const;

 private:
  struct Published {
    ViewSet set;
    ViewParts parts;
    std::vector<std::shared_ptr<const void>> buried;
  };
  [[nodiscard]] Epoch epoch_passed() const;

  Mesh& mesh_;
  SlowTimer retry_, look_;
  std::deque<std::unique_ptr<Published>> live_;  // back = the current one
};

}  // namespace ulnet
