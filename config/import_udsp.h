// The sections with selection policies: `udsp`, `policy` and `selection`. Only for import*.cc. Source:
// docs/wire/lnetctl.md §4, docs/decisions.md #1, #78.
#pragma once
#include "config/cursor.h"

namespace ulnet::config {

/// One rule of `udsp`, or of `policy`, which has the same keys.
void udsp_item(Context& c, const Cursor& item);
/// One rule of `selection`, which becomes one or two rules of the list.
void selection_item(Context& c, const Cursor& item);

}  // namespace ulnet::config
