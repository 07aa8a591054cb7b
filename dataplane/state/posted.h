// What passes between two workers by pointer. While its item lies in a ring, the object belongs to the ring: the
// producer no longer touches it, the consumer not yet. What finds the ring full waits in the producer's outbox, linked
// through this base.
#pragma once
#include <cstdint>

#include "dataplane/base/list.h"

namespace ulnet {

/// What the consumer is asked to do with the object. The kind names the object's type.
enum class PostKind : uint8_t {
  kNone,
  kLease,         ///< Tx: home -> serving worker: send this
  kLeaseReturn,   ///< Tx: serving worker -> home: let go of; result in tx.result
  kMatchRequest,  ///< RxSlot: connection's worker -> home: where does it go (held), or: have it (taken)
  kMatchAnswer,   ///< RxSlot: home -> connection's worker: verdict and window are set, or: home is through with it
  kRxDone,        ///< Message: connection's worker -> home: payload is in place, or not (message.rx_result)
};

struct PostTag {};
struct Posted : Linked<PostTag> {
  PostKind post_kind = PostKind::kNone;
};

}  // namespace ulnet
