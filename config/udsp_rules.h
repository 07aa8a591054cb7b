// Changes to the list of selection policies: a rule is added at a position, gets another priority, or is deleted. Rules
// are compared by meaning, not by text. Only for apply.cc. Source: docs/wire/lnet.md §11, docs/decisions.md #79, #80.
#pragma once
#include <string>
#include <unordered_set>
#include <vector>

#include "config/change.h"
#include "config/udsp.h"

namespace ulnet::config {

/// The rules of a state during a list of changes. No two rules of the list have equal descriptors.
class UdspRules {
 public:
  /// `rules` is borrowed, and only this object changes it until forget().
  explicit UdspRules(std::vector<UdspRule>& rules) : rules_(rules) {}

  /// Adds the rule at its position. If a rule has the same descriptors, only the priority of that rule changes. A rule
  /// that is there with the same priority is refused. In a file it counts as added, unless the file itself has it
  /// twice. Errors: EALREADY, ENOSPC, EINVAL.
  [[nodiscard]] Checked<void> add(const UdspRule& rule, bool from_file);
  /// Deletes the rules that `del` stands for. Errors: ENOENT if there is none, EINVAL if its index and its descriptors
  /// do not stand for the same rule.
  [[nodiscard]] Checked<void> del(const UdspDel& del);
  /// The owner has replaced the list.
  void forget();

 private:
  void keys_read();
  [[nodiscard]] size_t find(const std::string& key) const;
  void erase(size_t at);

  std::vector<UdspRule>& rules_;
  bool keys_known_ = false;                  ///< the keys are read when the first change needs them
  std::vector<std::string> keys_;            ///< UdspMatch::key() of each rule
  std::unordered_set<std::string> known_;    ///< the same keys
  std::unordered_set<std::string> changed_;  ///< keys of the rules that this list of changes has added or changed
};

}  // namespace ulnet::config
