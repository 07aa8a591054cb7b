#include "dataplane/peer/peer_ask.h"

#include <algorithm>

#include "dataplane/route/forward.h"

namespace ulnet {
namespace {

bool local_idle(Worker& w, const PeerLocal& local) {
  const auto none = [](uint32_t held) { return held == 0; };
  return local.leases == 0 && std::all_of(local.buffers_held.begin(), local.buffers_held.end(), none) &&
         !forward_waits_for(w, local);
}

/// A forwarded message holds a router credit of its sender until it has left, long after its receive has ended.
bool slice_idle(const PeerSlice& slice) {
  return slice.tx_count == 0 && slice.rx_count == 0 && slice.credits.at_rest() && slice.rtr.at_rest();
}

}  // namespace

void peer_asked(Worker& w, const ControlItem& ask) {
  const auto* slice = static_cast<const PeerSlice*>(ask.lnd.object);
  WorkerItem answer;
  answer.kind = WorkerKind::kPeerAnswer;
  answer.lnd.peer_ni = ask.lnd.peer_ni;
  answer.lnd.b = ask.lnd.b;
  answer.a = local_idle(w, *static_cast<const PeerLocal*>(ask.object)) && (slice == nullptr || slice_idle(*slice));
  post_control(w, answer);
}

}  // namespace ulnet
