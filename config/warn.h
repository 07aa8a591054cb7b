// Settings that are accepted but change nothing, or nothing yet: the text of the warning for each. Pure.
#pragma once
#include <string>
#include <vector>

#include "config/change.h"

namespace ulnet::config {

/// The warnings of a list, with their places; each text once, at most kWarningsMax. `running`: the `ulnet:` section
/// that runs, so that keys that need a restart are named if they differ from it; null at a start.
[[nodiscard]] Problems changes_warnings(const ChangeList& changes, const UlnetSection* running);

inline constexpr size_t kWarningsMax = 100;

}  // namespace ulnet::config
