// What one worker's half of socklnd owns, and how its parts reach it. Members, no rules: those are conn_rx, conn_tx,
// conn_set and timers. Thread: one worker; `now` is the time of the call that is being served.
#pragma once
#include <cstdint>

#include "dataplane/base/list.h"
#include "dataplane/base/slab.h"
#include "dataplane/base/wheel.h"
#include "lnd/lnd.h"
#include "lnd/socklnd/config.h"
#include "lnd/socklnd/conn.h"
#include "lnd/socklnd/messages.h"
#include "lnd/socklnd/stream.h"

namespace ulnet::socklnd {

struct SockWorker {
  SockWorker(LndCore& the_core, StreamEngine& the_engine, const SockConfig& the_config)
      : core(the_core),
        engine(the_engine),
        config(the_config),
        slots(the_config.rx_slots, the_core.worker_memory()),
        buckets(the_config.set_buckets, the_core.worker_memory()),
        orphans(the_config.set_buckets, the_core.worker_memory()) {}

  LndCore& core;
  StreamEngine& engine;
  SockConfig config;  ///< TuneMsg changes what of it can change at run time
  Instant now = kNever;

  Wheel<Conn> conn_wheel;
  Wheel<ConnSet> set_wheel;
  List<Conn, DirtyTag> dirty;  ///< have something to send: looked at by flush(), and by poll() instead of the sockets
  List<Conn, ReadyTag> ready;  ///< have something to read that needs no event: looked at by poll()
  Slab<SockSlot> slots;  ///< of messages that were read whole: the core may take them along
  NearArray<List<ConnSet, SetTag>> buckets;
  // Messages that wait for control to open their set, by the same hash as `buckets`, FIFO in each.
  NearArray<List<Tx, TxTag>> orphans;
  Instant orphans_due = kForever;
  uint64_t orphan_visits = 0;  ///< how many were looked at to find those of one set: the cost, for tests
  uint32_t tx_count = 0;    ///< Tx that we own
  uint32_t piped_receives = 0;  ///< receives into pipes that are under way
  uint32_t conn_count = 0;  ///< Conns that we have, dying ones included

  /// The set of a peer NI on a local NI; null when this worker has none.
  [[nodiscard]] ConnSet* find_set(NiId ni, PeerNiId peer_ni, uint32_t pid);
  [[nodiscard]] uint32_t bucket_index(NiId ni, PeerNiId peer_ni) const;
  [[nodiscard]] List<ConnSet, SetTag>& bucket(NiId ni, PeerNiId peer_ni) { return buckets[bucket_index(ni, peer_ni)]; }
  [[nodiscard]] List<Tx, TxTag>& orphans_of(NiId ni, PeerNiId peer_ni) { return orphans[bucket_index(ni, peer_ni)]; }

  /// Gives a Tx back to the core; it is in no list of ours.
  void finish(Tx& tx, Completion how) {
    --tx_count;
    core.tx_done(tx, how, now);
  }
  void mark_dirty(Conn& conn) {
    if (!static_cast<Linked<DirtyTag>&>(conn).linked()) dirty.push_back(conn);
  }
  void mark_ready(Conn& conn) {
    if (!static_cast<Linked<ReadyTag>&>(conn).linked()) ready.push_back(conn);
  }
};

}  // namespace ulnet::socklnd
