// The one source that a peer without multi-rail sees (docs/wire/lnet.md §5.7, docs/decisions.md #83). One source is
// recorded, without regard to rules. Policy::plain_source() then lets rules choose another one. Hence a deleted rule
// leaves no trace. Thread: control.
#pragma once
#include <cstdint>
#include <vector>

#include "control/nis/local_nis.h"

namespace ulnet {

/// The best of `nis` by link and health; of equals, peers take turns by `turn`. Null: there is none.
[[nodiscard]] const LocalNi* source_to_record(std::vector<LocalNi*> nis, uint32_t turn);
/// True if the recorded source is one of `nis`, and usable if one of them is.
[[nodiscard]] bool source_stays(const std::vector<LocalNi*>& nis, const Nid& recorded);
/// True if `nis` has other sources than this, which may be ANY.
[[nodiscard]] bool source_is_gone(const std::vector<LocalNi*>& nis, const Nid& source);

}  // namespace ulnet
