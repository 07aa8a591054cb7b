// What a ping info changes in the peer table: which peer it is about, which NIDs come and go, what wins when two claim
// the same. Pure decisions on PeerDb. Thread: control. Source: docs/wire/lnet.md §5.5, 5.6; docs/decisions.md #13, 15.
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
  std::function<int64_t()> health_sensitivity = {};  ///< none: the default
};

/// How far a merge goes. kStatusOnly: discovery is off, here or there. kCompare: `verify`; each difference is logged.
enum class MergeKind : uint8_t { kFull, kStatusOnly, kCompare };

/// Applies `info`, which came from a NID of `peer`. Returns the peer that it turned out to be about: `peer`, or the one
/// that has its primary NID, in which case `peer` may have ended. Errors: ENOMEM (`peers_max`), what was applied stays.
/// `sure`: a later list of another peer that this one is known to be newer than, since it was asked for afterwards.
struct MergeResult {
  uint32_t peer = 0;
  int32_t error = 0;
  uint32_t doubtful = 0;  ///< not 0: that peer has heard of this later list, so nothing was applied
};
[[nodiscard]] MergeResult merge_ping_info(const MergeDeps& deps, Peer& peer, const wire::PingInfo& info, MergeKind kind,
                                          uint32_t sure = 0);

/// The peer's NIs on this net are taken to be down, as if its node had said so.
void peer_is_down(const MergeDeps& deps, Peer& peer, Net net);

/// A peer whose node does not discover (any more) is one peer per NID: it keeps `nid`, by which that was learnt, and
/// loses the others, which may even be another node's. Without that NID it keeps its primary.
void peer_reduce(const MergeDeps& deps, Peer& peer, const Nid& nid);

}  // namespace ulnet
