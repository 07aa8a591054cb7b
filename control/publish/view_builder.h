// From what control knows to what workers read. Thread: control. Every decision has been made before; here it is only
// flattened.
#pragma once
#include "control/control.h"

namespace ulnet {

/// Time that a message over this NI may take with all its retries (docs/wire/lnet.md §7).
[[nodiscard]] Duration message_timeout(const LocalNi& ni, int64_t retry_count);
[[nodiscard]] std::shared_ptr<const LocalView> build_local_view(LocalNis& nis, int64_t retry_count);
[[nodiscard]] NodeView build_node_view(const Control& c);
/// What pings are answered with now (docs/wire/lnet.md §4).
[[nodiscard]] wire::PingInfo build_ping_info(Control& c);

/// When it has changed: pings are answered with it from now on, and discovery tells others. For those who cannot wait
/// until it is published.
void refresh_ping_info(Control& c);

/// Brings c.parts up to date with everything that changed, and publishes it if anything has. False when views have
/// piled up: then it is tried again at the next call. `force` publishes all the same. What waited for a view (answers
/// to workers, the draining of NIs) goes out behind it.
bool publish_views(Control& c, bool force = false);

}  // namespace ulnet
