// The state of one worker's half, which its parts share: conn_rx, conn_tx, transfer, conn_end, peer. Thread: its
// worker.
#pragma once
#include "dataplane/base/slab.h"
#include "lnd/o2iblnd/config.h"
#include "lnd/o2iblnd/conn.h"
#include "lnd/o2iblnd/messages.h"
#include "lnd/o2iblnd/staging.h"

namespace ulnet::o2iblnd {

struct IbWorker {
  IbWorker(LndCore& to_core, rc::Worker& provider, const IbConfig& settings, std::span<std::byte> staging_memory)
      : core(to_core),
        rc(provider),
        config(settings),
        peers(settings.peers_max, to_core.worker_memory()),
        buckets(settings.peer_buckets, to_core.worker_memory()),
        staging(staging_memory, to_core.worker_memory()) {}
  LndCore& core;
  rc::Worker& rc;
  IbConfig config;
  Instant now = kNever;

  Wheel<Conn> conn_wheel;
  List<Conn, DirtyTag> dirty;  ///< may have something to send: looked at by flush()
  Slab<Peer> peers;
  NearArray<List<Peer, PeerTag>> buckets;
  List<Peer, UnsettledTag> peers_unsettled;  ///< wait for room for Peer::wanted, perhaps to be freed then
  Staging staging;
  List<In, StagingTag> staging_wanted;       ///< kOffering, while there is no block
  List<Transfer, StagingTag> bounce_wanted;  ///< payloads outside of regions, while there is no block
  bool bounce_first = false;                 ///< the two lists take turns
  uint32_t tx_count = 0;                     ///< Txs that the driver owns
  uint32_t conn_count = 0;                   ///< Conns that it has

  [[nodiscard]] List<Peer, PeerTag>& bucket(NiId ni, PeerNiId peer_ni) {
    const uint64_t key = ((uint64_t{ni.value} << 32) | peer_ni.value) * 0x9E3779B97F4A7C15ull;
    return buckets[uint32_t(key >> 32) % config.peer_buckets];
  }
  /// Gives a Tx back to the core; it is in no list of the driver.
  void finish(Tx& tx, Completion how) {
    --tx_count;
    core.tx_done(tx, how, now);
  }
  void mark_dirty(Conn& conn) {
    if (conn.is_up() && !static_cast<Linked<DirtyTag>&>(conn).linked()) dirty.push_back(conn);
  }
};

}  // namespace ulnet::o2iblnd
