// The end of a peer NI, as a worker sees it: control asks whether its memory is still named here. Thread: one worker.
#pragma once
#include "dataplane/stages/worker.h"

namespace ulnet {

/// Answers kPeerAsk at once. "No" lasts: messages name peer NIs that a view names, and receives those that a connection
/// names, and control has seen to it that there is neither.
void peer_asked(Worker& w, const ControlItem& ask);

}  // namespace ulnet
