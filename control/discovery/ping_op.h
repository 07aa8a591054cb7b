// One ping or push of ping info, from the decision of discovery or of `lnetctl ping` to its end. Thread: control.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/base/nid.h"
#include "dataplane/base/time.h"

namespace ulnet {

/// A PUT of `payload`, which is acknowledged. Without a payload: a GET of at most `sink_bytes`.
struct PingOp {
  uint64_t number = 0;  ///< of discovery, unique among those that have not ended
  Nid self = kAnyNid;   ///< source NID; ANY = choose
  Nid target;
  bool exactly = false;     ///< no other NID of a multi-rail peer will do
  bool check = false;       ///< of a gateway: it has less time to answer
  bool recovery = false;    ///< goes to exactly the target, and is never sent again
  bool waited = false;      ///< a waiter needs the peer, which has not failed lately
  uint32_t sink_bytes = 0;  ///< of a ping: room for the answer
  std::shared_ptr<const std::vector<std::byte>> payload = nullptr;
  Duration timeout{};  ///< from when it began first
};

/// The end of an operation.
struct PingEnd {
  int32_t error = 0;                 ///< negative errno; EIO or ETIMEDOUT: no answer within the timeout
  Nid source;                        ///< the NID that answered
  Nid target;                        ///< the NI of this node that the answer came to
  std::span<const std::byte> bytes;  ///< of the REPLY; borrowed for the call
};

}  // namespace ulnet
