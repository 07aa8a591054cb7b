// Registers ranges of memory with each driver that needs that (LndControl::region_add), and takes them back. The calls
// block, so a helper makes them, one step after the other. Gives out the numbers of regions. Thread: control, except
// for run(). Where the ranges come from, and who may use them, is in control/regions.h.
#pragma once
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dataplane/base/helper.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/problem.h"
#include "dataplane/state/payload.h"
#include "lnd/lnd.h"

namespace ulnet {

struct MemoryRange {
  RegionId id{};
  std::span<std::byte> memory;
};

class Registrar final : Helper::Job {
 public:
  /// Called once, from turn(). The range is the one that a driver refused; the words name the driver.
  using Done = std::function<void(const Checked<void>&, const MemoryRange& refused)>;
  /// A driver that needs registered memory.
  struct User {
    LndControl* control = nullptr;
    std::string_view driver;  ///< DriverType::name
  };

  /// `helper` may be null if there are no users.
  Registrar(std::vector<User> users, Helper* helper) : users_(std::move(users)), helper_(helper) {}
  /// Waits for the job under way. The steps behind it are not made.
  ~Registrar();

  /// False: add() and remove() may not be called.
  [[nodiscard]] bool needed() const { return !users_.empty(); }
  /// A number for a region of an application (`shared`), or for another range. None: all are in use. Numbers of ranges
  /// that could not be added, or were removed, come back by themselves, as late as possible.
  [[nodiscard]] std::optional<RegionId> take(bool shared);
  /// The number was not used.
  void give(RegionId id);

  /// Registers all ranges or none. Errors (to `done`): those of the driver.
  void add(std::vector<MemoryRange> ranges, Done done) { steps_.push_back({true, std::move(ranges), std::move(done)}); }
  void remove(std::vector<MemoryRange> ranges, Done done) {
    steps_.push_back({false, std::move(ranges), std::move(done)});
  }
  /// Registers each segment that lies in no region as a range of its own, all or none. `segments` stay until `done`.
  /// Errors (to `done`): ENOSPC (kRegionSlots), those of the driver.
  void segments_add(std::span<Segment> segments, Done done);
  /// Takes back what segments_add() registered.
  void segments_remove(std::span<const Segment> segments, std::function<void()> done);

  /// Carries on; returns work done.
  unsigned turn(Instant now);
  [[nodiscard]] bool pending() const { return job_ != nullptr && helper_->pending(); }
  [[nodiscard]] Instant next_deadline() const;
  /// Ranges that the drivers have.
  [[nodiscard]] size_t registered() const { return registered_; }
  /// The drivers have nothing, and nothing is under way.
  [[nodiscard]] bool idle() const { return registered_ == 0 && steps_.empty(); }

 private:
  /// Numbers of one kind: `next` to `end` were never given out, `back` came back.
  struct Numbers {
    uint32_t next, end;
    std::deque<RegionId> back;
  };
  /// One job of the helper.
  struct Step {
    bool add;
    std::vector<MemoryRange> ranges;
    Done done;
    Error error{};  // why `refused` was refused. These three are the helper's until the job has ended
    MemoryRange refused{};
    std::string_view driver{};  // the one that refused; empty: the Registrar itself
  };
  void run() override;
  void end_step();

  const std::vector<User> users_;
  Helper* const helper_;
  Numbers shared_{1, kRegionsMax + 1, {}}, others_{kRegionsMax + 1, kRegionSlots, {}};
  std::deque<Step> steps_;  // bound: a range is in at most one of them, and kRegionSlots bounds the ranges
  Step* job_ = nullptr;     // the first of `steps_`, when the helper has it
  size_t registered_ = 0;
};

}  // namespace ulnet
