// Which errno is whose fault. Pure. Source: docs/wire/lnet.md §9.1.
#pragma once
#include <cerrno>

#include "lnd/lnd.h"

namespace ulnet::socklnd {

/// A message that was queued or partly sent, or could not be connected, when `error` (negative errno) happened.
/// ESHUTDOWN: our NI is being stopped, EXDEV: the peer NI is not where it was. The message may be sent again, since its
/// last byte has not been handed over: the peer cannot have all of it. Requires exact counts (StreamEvent).
[[nodiscard]] constexpr Completion queue_failure(int error) {
  switch (-error) {
    case ETIMEDOUT: return {error, LndStatus::kNetworkTimeout};
    case ENETDOWN:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ECONNREFUSED:
    case ECONNRESET: return {error, LndStatus::kRemoteDropped};
    case EXDEV:
    case ESHUTDOWN: return {error, LndStatus::kLocalAborted};
    default: return {error, LndStatus::kLocalError};
  }
}

/// Does what TCP took count as sent, if the connection ended with `error` before the engine reported these bytes? Yes
/// if the peer has ended it, or if we have without a reset. After a time-out, or a reset of ours, they may be lost.
[[nodiscard]] constexpr bool sent_before_end(int error, bool reset) {
  const bool orderly = error == 0 || error == -ECONNRESET || error == -EPIPE || error == -ESHUTDOWN || error == -ESTALE;
  return orderly && !reset;
}

/// A message that was handed over whole when its connection ended, and does not count as sent: it has a cookie, or see
/// sent_before_end(). The status never leads to another send of the message, because the peer may have it
/// (docs/decisions.md #42).
[[nodiscard]] constexpr Completion unacknowledged_failure(int error) {
  const Completion queued = queue_failure(error);
  switch (queued.health) {
    case LndStatus::kRemoteDropped: return {error, LndStatus::kRemoteError};
    case LndStatus::kLocalAborted: return {error, LndStatus::kLocalError};
    default: return queued;
  }
}

/// A message whose own write failed.
[[nodiscard]] constexpr Completion write_failure(int error) {
  return {error, error == -ETIMEDOUT ? LndStatus::kRemoteTimeout : LndStatus::kLocalError};
}

/// A message that was coming in when its connection broke.
[[nodiscard]] constexpr Completion receive_failure(int error) {
  return {error, error == -ESHUTDOWN ? LndStatus::kLocalError : LndStatus::kRemoteError};
}

}  // namespace ulnet::socklnd
