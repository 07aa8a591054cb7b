// PUTs and GETs for this node, at the home of their portal. Thread: that worker.
#pragma once
#include "dataplane/stages/worker.h"

namespace ulnet {

/// The properties of a PUT or GET that the match list compares.
[[nodiscard]] MatchAsk ask_of(const Worker& w, const wire::Header& h);
/// Decides about a PUT or GET, and begins its message. Requires: incoming_admit() or incoming_next() has just allowed
/// it.
[[nodiscard]] RxVerdict match_incoming(Worker& w, RxSlot& slot);
/// The receive of this PUT has failed: the newest copy that waits for it is received in its place. False: none waits.
[[nodiscard]] bool receive_copy(Worker& w, Incoming& m);

}  // namespace ulnet
