// The states of the state machines in the documents of Multi-Rail (figures 10, 11 and 13), derived from what control
// knows: words to show, nothing decides by them. A peer's (figure 12) is discovery_state(). Thread: control.
#pragma once
#include "control/nis/local_nis.h"
#include "control/peers/peer_db.h"

namespace ulnet {

/// created, failed (its driver reports the link down), deleting.
[[nodiscard]] const char* ni_state(const LocalNi& ni);
/// active, in-active (all its NIs have failed), deleting.
[[nodiscard]] const char* net_state(const LocalNis::LocalNet& net);
/// created (nothing was sent to it), activating (the first message is under way), connected, failed.
[[nodiscard]] const char* peer_ni_state(const PeerNi& ni);

}  // namespace ulnet
