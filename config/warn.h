// Settings that are accepted but change nothing, or nothing yet: the text of the warning for each. Pure.
#pragma once
#include <string>
#include <vector>

#include "config/change.h"

namespace ulnet::config {

/// A change that has less effect than its text promises. `what` is a sentence without a full stop.
struct ChangeWarning {
  size_t index = 0;  ///< in the list
  std::string what;
};

/// The warnings of a list, each text once, at most kWarningsMax. `running`: the `ulnet:` section that runs, so that
/// keys that need a restart are named if they differ from it; null at a start.
[[nodiscard]] std::vector<ChangeWarning> changes_warnings(const ChangeList& changes, const UlnetSection* running);

/// The warning as a problem of the place that the change came from: without a place, only its words.
[[nodiscard]] std::string warning_text(const ChangeList& changes, const ChangeWarning& warning);

inline constexpr size_t kWarningsMax = 100;

}  // namespace ulnet::config
