// Copies of requests. A PUT with ACK or a GET waits for its answer, and its path fails meanwhile. Then it is sent again
// over another path. The peer may have the first one. So this happens only if the peer delivers each request once
// (state/requests_seen.h, docs/wire/copies.md). Thread: the home worker of the operations.
#pragma once
#include "dataplane/select/path.h"
#include "dataplane/stages/worker.h"

namespace ulnet {

/// May the request be sent though the peer may have it?
[[nodiscard]] bool may_copy(const Worker& w, const Operation& op);
/// From now on, the request says that it is a copy, and for which life of the peer.
void mark_copy(const Worker& w, Operation& op);

/// Faults of a path of which an interface or a route is not there or down: as many or more.
inline constexpr uint32_t kPathGone = 4 * kHealthMax;
/// How bad a path is, by sides. 0: full health, and up.
struct PathFaults {
  uint32_t ni = 0;
  uint32_t peer_ni = 0;  ///< the route over it included
  [[nodiscard]] uint32_t all() const { return ni + peer_ni; }
};
/// A path in the view.
struct Way {
  const NiView* ni = nullptr;  ///< null: it is gone
  PeerRef hop;                 ///< empty: it is gone
  Nid dest;                    ///< behind `hop`, or `hop` itself
};
/// That the request has taken last; that of its REPLY while one is received.
[[nodiscard]] Way way_of(const Worker& w, const Operation& op);
[[nodiscard]] PathFaults faults_of(const Worker& w, const Way& way);
[[nodiscard]] PathFaults faults_of(const Worker& w, const PathChoice& choice);
/// Sends copies of requests that wait on a bad path, and looks for paths of at most kCopiesLook. Each kSilenceLook, and
/// when the view has changed, if fast detection is on. Returns how many it sent.
unsigned copies_look(Worker& w);
/// When to look next; kForever if nothing waits.
[[nodiscard]] Instant copies_due(const Worker& w);
/// A copy cannot be sent: the requests before it may still be answered. Requires kReady.
void copy_failed(Operation& op);
/// The payload of the REPLY was lost on its way. True: a copy of the GET is on its way, or leaves now.
[[nodiscard]] bool reply_lost(Worker& w, Operation& op);

}  // namespace ulnet
