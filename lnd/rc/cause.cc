#include "lnd/rc/rc.h"

namespace ulnet::rc {

const char* cause_text(Cause cause) {
  switch (cause) {
    case Cause::kNone: return "";
    case Cause::kClosed: return "closed by this node";
    case Cause::kPeerClosed: return "closed by the peer";
    case Cause::kNoListener: return "nobody listens at the peer";
    case Cause::kStale: return "the peer still has an earlier connection";
    case Cause::kRejected: return "rejected by the peer";
    case Cause::kRefused: return "refused by the peer's connection manager";
    case Cause::kUnreachable: return "no way to the peer's address";
    case Cause::kNoAnswer: return "the peer does not answer";
    case Cause::kRetryExceeded: return "the peer does not acknowledge";
    case Cause::kRnrExceeded: return "the peer has no receive buffer";
    case Cause::kRemoteAccess: return "an access to remote memory was refused";
    case Cause::kLocal: return "an operation of this node was wrong";
    case Cause::kResources: return "the device has no resources left";
    case Cause::kDevice: return "the device or its port is gone";
  }
  return "";
}

}  // namespace ulnet::rc
