// The fault rules of a node: `ulnetctl fault`. They make messages fail or arrive late, for tests of a cluster. They are
// no part of the configuration: no export contains them. They end with `lnet unconfigure`, or with the node. Workers
// read them in the view (dataplane/state/fault_rules.h). Thread: control.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "control/faults/fault_spec.h"
#include "dataplane/base/problem.h"
#include "dataplane/state/fault_rules.h"

namespace ulnet {

struct Control;
/// Publishes a view with the rules of now. `gone`: rules were deleted, so that workers look at delayed messages.
void publish_faults(Control& c, bool gone);

class FaultRules {
 public:
  /// Messages of all workers since the rule was added or reset.
  struct Counts {
    uint64_t matched = 0;
    std::array<uint64_t, wire::kMsgTypes> hit{};  ///< by type
    [[nodiscard]] uint64_t hit_sum() const;
  };
  struct Shown {
    FaultSpec spec;
    Counts counts;
  };

  /// `publish`: publish_faults() for the node of these rules.
  FaultRules(unsigned workers, std::function<void(bool gone)> publish)
      : workers_(workers), publish_(std::move(publish)) {}

  /// Adds a rule behind all others. The view with it is published when this returns. Errors: EINVAL (`spec`
  /// contradicts itself), ENOSPC (kFaultRulesMax).
  [[nodiscard]] Checked<void> add(const FaultSpec& spec);
  /// Deletes the rules that fit. Messages that they delay go on at once. Errors: ENOENT (none fits).
  [[nodiscard]] Checked<void> del(const FaultFilter& filter);
  /// Deletes all rules.
  void clear();
  /// Sets the counts of all rules of this kind to 0.
  void reset(FaultKind kind);
  /// The rules of this kind, in the order in which they were added.
  [[nodiscard]] std::vector<Shown> list(FaultKind kind) const;

  [[nodiscard]] std::shared_ptr<const FaultTable> view() const;
  /// Grows with every change of view().
  [[nodiscard]] uint64_t revision() const { return revision_; }

 private:
  struct Entry {
    FaultRule rule;
    std::shared_ptr<FaultLocal[]> locals;  // by worker; views keep them, too
    Counts baseline;                       // of the last reset
  };
  [[nodiscard]] Counts counted(const Entry& entry) const;

  const unsigned workers_;
  const std::function<void(bool gone)> publish_;
  std::vector<Entry> entries_;
  uint32_t last_id_ = 0;
  uint64_t revision_ = 0;
};

}  // namespace ulnet
