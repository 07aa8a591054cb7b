// Router buffers: memory that a forwarded message lies in between its two hops. Three pools per worker by payload size;
// each buffer carries its own Transit, so forwarding never competes with this node's own operations for messages.
// Control allocates blocks and hands them over; a block that is being withdrawn goes back when its last buffer is free.
// Source: docs/wire/lnet.md §8.3.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "dataplane/base/gauge.h"
#include "dataplane/base/list.h"
#include "dataplane/state/kept.h"
#include "dataplane/state/message.h"
#include "dataplane/state/slices.h"

namespace ulnet {

/// Payload bytes that a buffer of each pool covers.
inline constexpr std::array<uint32_t, kRouterPools> kRouterPoolBytes{0, 4096, kMaxPayload};

/// Which pool a payload belongs to.
[[nodiscard]] constexpr unsigned router_pool_of(uint32_t payload_bytes) {
  return payload_bytes == 0 ? 0 : payload_bytes <= kRouterPoolBytes[1] ? 1 : 2;
}

static_assert(router_pool_of(0) == 0 && router_pool_of(1) == 1);
static_assert(router_pool_of(kRouterPoolBytes[1]) == 1 && router_pool_of(kRouterPoolBytes[1] + 1) == 2);
static_assert(router_pool_of(kMaxPayload) == kRouterPools - 1 && kRouterPoolBytes.back() == kMaxPayload);

struct RouterBlock;
struct RouterBufferTag {};
/// Free, or among PeerSlice::rtr_holders, or neither.
struct RouterBuffer : Linked<RouterBufferTag> {
  Transit transit;
  Segment segment;
  KeptPayload* kept = nullptr;    ///< the payload lies there, and not in `segment`
  PipedPayload* piped = nullptr;  ///< a part of the payload lies there, or did before it was sent or copied
  uint8_t piped_by = 0;           ///< the driver that has filled it: NiSlice::lnd
  RouterBlock* block = nullptr;
  Nid sender;              ///< the node or router that the message came from
  bool come = false;       ///< its payload is complete
  Instant since = kNever;  ///< when that changed last; earlier if its credit may be passed on at once
};

/// Buffers that came and go together.
struct RouterBlock : Linked<struct RouterBlockTag> {
  unsigned pool = 0;
  uint32_t count = 0;
  uint32_t out = 0;                         ///< worker: buffers in use
  bool retiring = false;                    ///< worker: goes back to control when out == 0
  Owed retired;                             ///< worker: RouterRetiredMsg
  std::unique_ptr<RouterBuffer[]> buffers;  ///< control allocates, the worker uses
  uint32_t numa = UINT32_MAX;               ///< node of `memory`; UINT32_MAX: not known
  std::byte* memory = nullptr;              ///< count * kRouterPoolBytes[pool]; control's
};

/// One worker's pool of one size.
struct RouterPool {
  List<RouterBuffer, RouterBufferTag> free;  ///< LIFO: the buffer that was used last is warm
  List<RouterBlock, RouterBlockTag> blocks;
  List<RxSlot, RxTag> waiting;  ///< receives held until a buffer is free
  uint32_t total = 0;           ///< buffers of blocks that are not retiring
  uint32_t out = 0;
  Instant moved = kNever;  ///< when a buffer was last taken or came back
  Gauge credits;           ///< free less waiting, for shows
  Gauge credits_min;
  void note() {
    credits.set(int64_t(free.size()) - int64_t(waiting.size()));
    if (credits.get() < credits_min.get()) credits_min.set(credits.get());
  }
};

}  // namespace ulnet
