// Messages while they use their interfaces, from the choice of the path on. A request uses both NIs until its answer is
// here. So an NI over which nothing comes back gets no more than its share of the requests under way. Choices of the
// same worker count these messages (state/tallies.h), and their times give the pace of each rail. Thread: the worker
// that is home of the message.
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
/// Since when the message has used its interfaces; 0 if it uses none, or if no other rail could have carried it.
[[nodiscard]] Duration under_way_age(const Worker& w, const Sending& m);
/// The message does not use its interfaces any more, if it did. `error`: of the message; a failure says nothing about
/// the pace.
void under_way_end(Worker& w, Sending& m, int32_t error);

}  // namespace ulnet
