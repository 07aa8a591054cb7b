// Messages while they use their interfaces, from the choice of the path on. A message uses its local NI until the
// message has left, and its peer NI until the answer is here. A GET uses the local NI until then, too, because its
// payload comes back over that NI. Choices of the same worker count these messages (state/tallies.h), and their times
// give the pace of each rail. Thread: the worker that is home of the message.
#pragma once
#include "dataplane/stages/worker.h"

namespace ulnet {

/// Bytes of the message on its interfaces, with those of the answer to a GET.
[[nodiscard]] uint64_t bytes_under_way(const Sending& m);
/// The message uses the interfaces with these slots. Requires: it uses none. `paced`: another rail could have carried
/// it. Then its time counts for the pace of the rails.
void under_way_begin(Worker& w, Sending& m, uint16_t ni_slot, uint32_t peer_slot, bool paced);
/// The request has left, and waits for its answer.
void under_way_awaits(Worker& w, Sending& m);
/// The message does not use its interfaces any more, if it did. `error`: of the message; a failure says nothing about
/// the pace.
void under_way_end(Worker& w, Sending& m, int32_t error);

}  // namespace ulnet
