// Changes to the list of selection policies: a rule is added at a position, gets another priority, or is deleted. Rules
// are compared by meaning, not by text. Only for apply.cc. Source: docs/wire/lnet.md §11, docs/decisions.md #79, #80.
// A list of changes may be as long as the list of rules. Hence a change does not look at all rules: there is an index
// by key. The order of rules is a list of numbers.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "config/change.h"
#include "config/udsp.h"

namespace ulnet::config {

/// The rules of a state during a list of changes. No two rules of the list have equal descriptors.
class UdspRules {
 public:
  /// `rules` is borrowed, and only this object changes it until forget() or store(). `notes` may be null.
  UdspRules(std::vector<UdspRule>& rules, std::vector<std::string>* notes) : rules_(rules), notes_(notes) {}

  /// Adds the rule at its position. If a rule has the same descriptors, only the priority of that rule changes. A rule
  /// that is there with the same priority is refused. In a file it counts as added, unless the file itself has it
  /// twice. Errors: EALREADY, ENOSPC, EINVAL.
  [[nodiscard]] Checked<void> add(const UdspRule& rule, bool from_file);
  /// Deletes the rules that `del` stands for. Errors: ENOENT if there is none, EINVAL if its index and its descriptors
  /// do not stand for the same rule.
  [[nodiscard]] Checked<void> del(const UdspDel& del);
  /// The owner has replaced the list.
  void forget();
  /// Writes the changes to the list.
  void store();

 private:
  struct Entry {
    UdspRule rule;
    std::string key;       // UdspMatch::key()
    bool changed = false;  // this list of changes has added or changed it
    bool deleted = false;
  };
  void read();
  void compact();
  [[nodiscard]] size_t count() const { return known_ ? by_key_.size() : rules_.size(); }
  [[nodiscard]] Entry* find(const std::string& key);
  void erase(Entry& entry);
  void note_place(const UdspRule& asked, const Entry& entry);

  std::vector<UdspRule>& rules_;
  std::vector<std::string>* notes_;
  bool known_ = false;           ///< the rules are read when the first change needs them
  std::vector<Entry> entries_;   ///< in order of addition
  std::vector<uint32_t> order_;  ///< in order of rules: indexes of `entries_`, deleted ones among them
  bool holes_ = false;           ///< `order_` has deleted ones
  std::unordered_map<std::string, uint32_t> by_key_;
};

}  // namespace ulnet::config
