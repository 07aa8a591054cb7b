// Which errno is whose fault. Pure. Source: docs/wire/lnet.md §9.1.
#pragma once
#include <cerrno>

#include "lnd/lnd.h"

namespace ulnet::socklnd {

/// A message that was queued, or could not be connected, when `error` (negative errno) happened.
[[nodiscard]] constexpr Completion queue_failure(int error) {
  switch (-error) {
    case ETIMEDOUT: return {error, LndStatus::kNetworkTimeout};
    case ENETDOWN:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ECONNREFUSED:
    case ECONNRESET: return {error, LndStatus::kRemoteDropped};
    default: return {error, LndStatus::kLocalError};
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
