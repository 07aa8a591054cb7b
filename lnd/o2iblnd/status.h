// Which end of a connection is whose fault. Pure. Source: docs/wire/lnet.md §9.1, docs/wire/o2iblnd.md §10.
#pragma once
#include <cerrno>

#include "lnd/lnd.h"
#include "lnd/rc/rc.h"

namespace ulnet::o2iblnd {

/// For messages of which the peer cannot have all.
[[nodiscard]] constexpr Completion failure_of(rc::Cause cause) {
  switch (cause) {
    case rc::Cause::kNone:
    case rc::Cause::kClosed: return {-ECONNABORTED, LndStatus::kLocalAborted};
    case rc::Cause::kPeerClosed:
    case rc::Cause::kStale: return {-ECONNRESET, LndStatus::kRemoteDropped};
    case rc::Cause::kNoListener:
    case rc::Cause::kUnreachable: return {-EHOSTUNREACH, LndStatus::kNetworkTimeout};
    case rc::Cause::kRejected:
    case rc::Cause::kRefused: return {-ECONNREFUSED, LndStatus::kRemoteDropped};
    case rc::Cause::kNoAnswer: return {-ETIMEDOUT, LndStatus::kNetworkTimeout};
    case rc::Cause::kRetryExceeded:
    case rc::Cause::kRnrExceeded: return {-ETIMEDOUT, LndStatus::kRemoteDropped};
    case rc::Cause::kRemoteAccess: return {-EIO, LndStatus::kRemoteDropped};
    case rc::Cause::kLocal: return {-EIO, LndStatus::kLocalError};
    case rc::Cause::kResources: return {-ENOMEM, LndStatus::kLocalDropped};
    case rc::Cause::kDevice: return {-ENETDOWN, LndStatus::kLocalDropped};
  }
  return {-EIO, LndStatus::kLocalError};
}

/// For messages that the peer may have: these are never sent again (docs/decisions.md #42).
[[nodiscard]] constexpr Completion may_have_failed(Completion how) {
  switch (how.health) {
    case LndStatus::kRemoteDropped: return {how.error, LndStatus::kRemoteError};
    case LndStatus::kLocalDropped:
    case LndStatus::kLocalAborted: return {how.error, LndStatus::kLocalError};
    default: return how;
  }
}

/// For messages that were coming in. A failure of this side does not blame the peer.
[[nodiscard]] constexpr Completion receive_failure(Completion how) {
  switch (how.health) {
    case LndStatus::kLocalDropped:
    case LndStatus::kLocalAborted:
    case LndStatus::kLocalError: return {how.error, LndStatus::kLocalError};
    default: return {how.error, LndStatus::kRemoteError};
  }
}

}  // namespace ulnet::o2iblnd
