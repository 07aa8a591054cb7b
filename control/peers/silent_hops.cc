// Part of PeerDb: on a router, a peer NI that has messages to take and takes none for `peer_timeout` is down. Messages
// for it are dropped then, instead of holding router buffers (docs/wire/lnet.md §8.2). A message that comes from it, or
// a while, lets it be tried again (PeerDb::revive).
#include "control/peers/peer_db.h"

namespace ulnet {
namespace {

uint64_t sent(const PeerNi& ni) {
  uint64_t count = 0;
  for (const Counter& one : ni.blocks->slice.counters[NiTraffic::kSent]) count += one.get();
  return count;
}

}  // namespace

unsigned PeerDb::look_for_silent(Instant now) {
  if (!silent_.due(now)) return 0;
  silent_.set(now + kSilentLook);
  unsigned found = 0;
  for (const LocalNis::LocalNet& net : deps_.nis.nets()) {
    const Duration limit = std::chrono::seconds(net.nis.front().params.peer_timeout);
    if (limit > Duration::zero()) found += look_for_silent(net.net, limit, now);
  }
  return found;
}

unsigned PeerDb::look_for_silent(Net net, Duration limit, Instant now) {
  unsigned found = 0;
  for (const auto& [id, ni] : by_id_) {
    if (ni->peer == nullptr || ni->nid.net() != net || ni->life.down) continue;
    const bool waits = ni->blocks->slice.tx_queued_bytes.get() > 0;
    const uint64_t mark = sent(*ni) + uint64_t(ni->last_heard_ns());
    if (!waits || std::exchange(ni->stuck_mark, mark) != mark) ni->stuck_since = now;
    if (!waits || now - ni->stuck_since < limit) continue;
    dead(*ni, now, -ETIMEDOUT);
    ++found;
  }
  return found;
}

}  // namespace ulnet
