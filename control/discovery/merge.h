// How a ping info changes the peer table. The functions here decide which peer a list is about and which NIDs that peer
// gains and loses. If two peers claim one NID, they decide which peer keeps it. Pure decisions on PeerDb. Thread:
// control. Source: docs/wire/lnet.md §5.5, 5.6; docs/decisions.md #13, 15.
#pragma once
#include <functional>
#include <string>

#include "control/nis/local_nis.h"
#include "control/peers/peer_db.h"
#include "dataplane/wire/ping_info.h"

namespace ulnet {

struct MergeDeps {
  PeerDb& peers;
  LocalNis& nis;
  std::function<void(const std::string&)> log;
  std::function<void(PeerNi&, bool up)> said;  ///< the node of a peer reports one of its NIs as up or down
};

/// How far a merge goes. kStatusOnly: discovery is off, here or there. kCompare: `verify`; each difference is logged.
enum class MergeKind : uint8_t { kFull, kStatusOnly, kCompare };

/// Applies `info`, which came from a NID of `peer`. The result names the peer that `info` is about: `peer`, or the peer
/// that has the primary NID of `info`. In the second case `peer` may have ended. Errors: ENOMEM (`peers_max`); changes
/// made before the error stay. `sure`: the sequence of a list of that other peer. `info` is newer than that list
/// whatever its own sequence, because the ping for `info` was sent after that list had come.
struct MergeResult {
  uint32_t peer = 0;
  int32_t error = 0;
  uint32_t doubtful = 0;  ///< not 0: sequence of a later list that is known for that peer; nothing was applied
};
[[nodiscard]] MergeResult merge_ping_info(const MergeDeps& deps, Peer& peer, const wire::PingInfo& info, MergeKind kind,
                                          uint32_t sure = 0);

/// True if `info` may be older than the known list of the peer. Then its sequence is lower, or another life of the node
/// has sent it. Sequences of two lives cannot be compared (docs/decisions.md #27).
[[nodiscard]] bool may_be_overtaken(const Peer& peer, const wire::PingInfo& info);

/// Marks the peer's NIs on this net as down, as if its node had reported that.
void peer_is_down(const MergeDeps& deps, Peer& peer, Net net);

/// Takes a peer apart whose node does not discover (any more): such a node is one peer per NID. The peer keeps `nid`,
/// the NID by which this was learnt, or its primary NID if `nid` is not its own. The peer loses its other NIDs, which
/// may even belong to another node.
void peer_reduce(const MergeDeps& deps, Peer& peer, const Nid& nid);

}  // namespace ulnet
