// Part of a worker's `incoming` messages that the receives of one peer NI hold, and the receives that wait for one.
// Thread: the worker that is home of the messages. The rules are in dataplane/stages/incoming.cc.
#pragma once
#include <array>
#include <cstdint>

#include "dataplane/base/list.h"
#include "dataplane/base/time.h"
#include "lnd/lnd.h"

namespace ulnet {

struct ShareTag {};
struct IncomingShare : Linked<ShareTag> {
  uint32_t held = 0;  ///< messages that receives of this peer NI hold
  /// Receives that wait for a message, oldest first: those for the reserved portal in [1], all others in [0].
  std::array<List<RxSlot, RxTag>, 2> waiting;
  Instant moved = kNever;  ///< last time when a message was taken or returned, or the first receive began to wait
  bool refusing = false;   ///< nothing moved for kIncomingHoldMax: a receive without a message is dropped at once
  [[nodiscard]] bool nobody_waits() const { return waiting[0].size() + waiting[1].size() == 0; }
  [[nodiscard]] bool idle() const { return held == 0 && nobody_waits(); }
};

}  // namespace ulnet
