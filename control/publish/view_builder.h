// Builds the views that workers read from the state of control. Thread: control. All decisions have been made before;
// the functions here only flatten the state.
#pragma once
#include "control/control.h"

namespace ulnet {

/// Time that a message over this NI may take with all its retries (docs/wire/lnet.md §7).
[[nodiscard]] Duration message_timeout(const LocalNi& ni, int64_t retry_count);
/// The ping info of this node now (docs/wire/lnet.md §4).
[[nodiscard]] wire::PingInfo build_ping_info(Control& c);

/// If the ping info may have changed: answers pings with it from now on, and hands it to discovery, which pushes it to
/// peers. For callers that cannot wait for publish_views().
void refresh_ping_info(Control& c);

/// Brings c.parts up to date with all changes, and publishes them if there are any. False if too many views are not
/// retired yet: then the next call tries again. `force` publishes even then. Work that waited for a view (answers to
/// workers, the draining of NIs) goes out after it.
bool publish_views(Control& c, bool force = false);

}  // namespace ulnet
