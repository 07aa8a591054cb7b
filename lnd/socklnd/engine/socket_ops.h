// Operations of both engines on a kernel socket, by its descriptor. No state.
#pragma once
#include <cstdint>

#include "dataplane/base/time.h"

namespace ulnet::socklnd {

/// Sends RST at once, and drops what was not sent. Operations that wait on the socket end with an error.
void socket_reset(int fd);
/// Ends both directions in order: bytes sent before still go out, then FIN. Wakes operations that wait on the socket.
void socket_shutdown(int fd);
void socket_set_blocking(int fd, bool blocking);
/// About how many bytes the kernel has sent again.
[[nodiscard]] uint64_t socket_resent_bytes(int fd);
/// Bytes that the peer's machine has not acknowledged.
[[nodiscard]] uint32_t socket_unsent_bytes(int fd);
/// StreamEngine::resend_within(). No effect while the kernel sends nothing again, for instance if the peer's window is
/// closed.
void socket_resend_within(int fd, Duration stalled, Duration within);

}  // namespace ulnet::socklnd
