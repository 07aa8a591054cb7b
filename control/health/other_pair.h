// Other paths for a ping or push that gets no answer: the pairs of NIs that lead straight to a peer. Thread: control.
#pragma once
#include "control/discovery/ping_op.h"
#include "control/nis/local_nis.h"
#include "control/peers/peer_db.h"

namespace ulnet {

/// Sets source and target of `op` to the pair with this number. A pair is an NI of the peer that has `op.target`, and
/// an NI of this node on its net. Neighbours in the order of pairs have no NI in common, as far as there are others.
/// NIs that are well come first. False: no pair has that number, or the peer is not multi-rail.
[[nodiscard]] bool other_pair(LocalNis& nis, PeerDb& peers, PingOp& op, unsigned number);

}  // namespace ulnet
