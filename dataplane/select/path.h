// Choosing a path: one function over views and the tallies of this worker. Allocates and writes nothing. Source:
// docs/wire/lnet.md §6. The ranking is in chooser.h; explain.h gives its reasons, and after_choice.h has the numbers
// that a sender changes.
#pragma once
#include "dataplane/state/chosen_hop.h"
#include "dataplane/state/tallies.h"
#include "dataplane/state/tried.h"
#include "dataplane/state/view.h"
#include "lnd/lnd.h"

namespace ulnet {

struct PathRequest {
  Nid src;  ///< ANY = choose
  Nid dst;
  Nid via;                     ///< preferred next hop of a response; ANY = none
  bool response = false;       ///< ACK or REPLY: dst exactly
  bool portal0 = false;        ///< PUT or GET to portal 0: never waits for discovery
  bool recovery = false;       ///< recovery ping: dst exactly
  bool forward = false;        ///< for another node: the header stays, and `dst` unless an ill NI has a better rail
  Nid origin;                  ///< forward: the first sender
  uint64_t bytes = 0;          ///< header and payload; of a GET, with the payload of its answer
  bool as_given = false;       ///< discovery of the peer has failed: it is not waited for
  uint32_t numa = UINT32_MAX;  ///< node of the payload's memory
  uint32_t accelerator = UINT32_MAX;  ///< number of the accelerator that holds the payload; UINT32_MAX: none does
  const Tried* tried = nullptr;       ///< where it has failed: interfaces and pairs that come last; null: nowhere
  bool tried_any = false;             ///< a local NI comes last also where the peer NI was at fault
  /// Does it wait until its peer is discovered (docs/wire/lnet.md §5.2)?
  [[nodiscard]] bool discovers() const { return !response && !portal0 && !recovery && !forward && !as_given; }
};

enum class PathKind : uint8_t {
  kPath,      ///< send from `ni` to `hop`
  kLoopback,  ///< to this node itself
  kPark,      ///< request `ask` from control first
  kError,
};
struct PathChoice {
  PathKind kind = PathKind::kError;
  const NiView* ni = nullptr;
  const PeerNiView* hop = nullptr;
  const PeerView* hop_peer = nullptr;
  Nid dest;  ///< for the header: the destination, perhaps another NID of the same peer
  Nid src;   ///< for the header
  Nid ask;
  bool discover = false;  ///< kPark: the peer is known, but not up to date
  bool routed = false;
  const RouteView* route = nullptr;
  const PeerNiView* final_ni = nullptr;  ///< routed: the destination's, when it is known
  int32_t error = 0;
  LndStatus health = LndStatus::kLocalError;
};

/// Inputs of a choice that differ from worker to worker.
struct PathContext {
  WorkerId worker;
  const Tallies& tallies;  ///< of the worker
};

[[nodiscard]] PathChoice choose_path(const ViewSet& view, const PathRequest& request, const PathContext& context);
/// The path of a forwarded message over its earlier choice of next hop. Errors: EHOSTUNREACH, ENETUNREACH if that hop
/// is no longer usable; then choose_path() has to find another.
[[nodiscard]] PathChoice path_over(const ViewSet& view, const PathRequest& request, const PathContext& context,
                                   const Nid& hop);
/// The same for a hop that choose_path() found in this view. Requires: the epochs are equal.
[[nodiscard]] PathChoice path_over(const ViewSet& view, const PathRequest& request, const PathContext& context,
                                   const ChosenHop& hop);

}  // namespace ulnet
