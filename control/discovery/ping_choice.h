// Which NI of a peer a ping goes to, and from which NI of this node. Pure.
#pragma once
#include <vector>

#include "control/discovery/ping_op.h"
#include "control/nis/local_nis.h"
#include "control/peers/peer_db.h"

namespace ulnet {

/// The NIs of a gateway on the net that the check is for.
[[nodiscard]] const std::vector<PeerNi*>& check_targets(const Peer& peer);
/// Any NID of a peer may be gone without notice, also the primary. After a failure the NIDs take turns, and each ping
/// goes to exactly its NID. So a NID that answers is found, whatever else is sent meanwhile.
[[nodiscard]] PingOp peer_ping(const Peer& peer);
/// Uses exactly that net, even if another path leads to the gateway. The NIs of both sides on that net take turns.
[[nodiscard]] PingOp check_ping(const Peer& peer, LocalNis& nis);

}  // namespace ulnet
