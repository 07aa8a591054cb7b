#include "dataplane/stages/reclaim.h"

#include <algorithm>

#include "dataplane/stages/forward.h"

namespace ulnet {
namespace {

bool local_idle(Worker& w, const PeerLocal& local) {
  const auto none = [](uint32_t held) { return held == 0; };
  const bool holds_none = std::all_of(local.buffers_held.begin(), local.buffers_held.end(), none);
  return local.leases == 0 && local.incoming.idle() && holds_none && !forward_waits_for(w, local);
}

/// A forwarded message holds a router credit of its sender until it has left, long after its receive has ended.
bool slice_idle(const PeerSlice& slice) {
  return slice.tx_count == 0 && slice.rx_count == 0 && slice.credits.at_rest() && slice.rtr.at_rest();
}

}  // namespace

void peer_asked(Worker& w, const ControlItem& ask) {
  const auto* slice = static_cast<const PeerSlice*>(ask.lnd.object);
  auto& local = *static_cast<PeerLocal*>(ask.object);
  // An answer to an older ask that still waits is replaced: control has forgotten that ask.
  local.answer.msg.peer_ni = ask.lnd.peer_ni;
  local.answer.msg.b = ask.lnd.b;
  local.answer.msg.a = local_idle(w, local) && (slice == nullptr || slice_idle(*slice));
  post_control(w, WorkerKind::kPeerAnswer, local.answer);
}

}  // namespace ulnet
