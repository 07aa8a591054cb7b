// Regions of applications: memory that is registered once for drivers with remote writes (lnd/registrar_ctl.h). A view
// shows them to the workers. Thread: control. The hard part: a region that is removed first leaves the view. The number
// of its users is final when no worker uses an older view.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "config/problem.h"
#include "control/timers.h"
#include "dataplane/state/view.h"
#include "lnd/registrar_ctl.h"

namespace ulnet {

class Regions {
 public:
  /// Called once, perhaps from within the call that it belongs to.
  using Done = std::function<void(config::Checked<RegionId>)>;
  struct Deps {
    Registrar& registrar;
    std::function<int64_t(RegionId)> users_of;  ///< segments of MDs in a region of applications, over all workers
    std::function<Epoch()> publish;             ///< publishes view(); returns its epoch
    std::function<bool(Epoch)> passed;          ///< no worker uses an older view
  };
  Regions(Deps deps, Timers& timers) : deps_(std::move(deps)), leave_(timers, TimerName::kRegionLeave) {}

  /// False: nothing is registered, and add() and remove() call `done` from within.
  [[nodiscard]] bool needed() const { return deps_.registrar.needed(); }
  /// A region of an application. From `done` with its number on, each worker finds it. Errors: EINVAL (empty, or beyond
  /// the address space), EEXIST (overlaps another), ENOSPC (kRegionsMax), ESHUTDOWN, those of the driver.
  void add(std::span<std::byte> memory, Done done) { add(memory, false, std::move(done)); }
  /// The same for the node's own memory, which only remove_all() removes.
  void add_of_node(std::span<std::byte> memory, Done done) { add(memory, true, std::move(done)); }
  /// After `done` without error no driver has the memory. Errors: ENOENT, ESHUTDOWN, EBUSY (MDs use it; it stays),
  /// EALREADY (another call removes it).
  void remove(RegionId id, Done done);

  /// Carries on; returns work done.
  unsigned turn(Instant now);
  /// The node stops: add() refuses.
  void stop() { stopping_ = true; }
  /// The same, and no MD is left: removes each region.
  void remove_all();
  /// Answers each waiting add() and remove() with ESHUTDOWN. The memory of an add() stays with the drivers until the
  /// node goes. Requires: turn() is not called any more.
  void abort();

  [[nodiscard]] std::shared_ptr<const RegionTable> view() const;
  /// Grows with each change of view().
  [[nodiscard]] uint64_t revision() const { return revision_; }

 private:
  enum class State : uint8_t {
    kAdding,    ///< being registered
    kReady,     ///< in the view
    kLeaving,   ///< in no new view; some worker may use an older one
    kRemoving,  ///< being taken from the drivers
  };
  struct Region {
    std::span<std::byte> memory;
    State state = State::kAdding;
    std::optional<Epoch> hidden;  ///< kLeaving: the first view without it, once published
    Done done;                    ///< of the call under way
    bool of_node = false;
  };
  void add(std::span<std::byte> memory, bool of_node, Done done);
  [[nodiscard]] config::Checked<void> check(std::span<std::byte> memory) const;
  void added(RegionId id, const config::Checked<RegionId>& result);
  void removed(RegionId id);
  void begin_removal(RegionId id, Region& region);
  unsigned look_at_leaving();

  const Deps deps_;
  std::map<RegionId, Region> regions_;  // of applications, and the node's own
  SlowTimer leave_;
  uint64_t revision_ = 1;
  bool stopping_ = false;
};

}  // namespace ulnet
