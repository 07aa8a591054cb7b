// Leases on the serving worker: credits, LND, and back to the home of the message. Thread: the worker that serves the
// next hop, unless a function says that it runs at home.
#pragma once
#include "dataplane/stages/worker.h"

namespace ulnet {

/// Takes a lease, or goes on with one that was handed a credit.
void egress_continue(Worker& w, Tx& tx);
/// A lease's deadline has passed on the serving worker.
void egress_expired(Worker& w, Tx& tx);
/// At home: requests the lease of `m` back.
void recall_lease(Worker& w, Sending& m, Recall how);
/// Gives leases back that homes want back.
void run_recalls(Worker& w);
/// The LND has let go of it.
void egress_done(Worker& w, Tx& tx, Completion how);
/// The LND has let go of a GET whose answer lies in its sink, or that the peer refused.
void egress_get_done(Worker& w, Tx& tx, uint32_t bytes, int32_t error);
/// The LND waits for a connection to send it over.
void egress_waits(Worker& w, Tx& tx);
/// The LND has a connection for a Tx that waited.
void egress_connected(Worker& w, Tx& tx);
/// Hands NI credits on that messages have held for kNiCreditHeldMax, where others wait for them.
void ni_credits_reclaim(Worker& w);
[[nodiscard]] Instant ni_credits_due(Worker& w);
/// A peer NI served here has so many credits from now on: those who wait for one may get it.
void peer_set_tx_credits(Worker& w, PeerSlice& slice, int32_t total);
/// Txs over this NI, or to this peer NI, now go home to take another path (`avoid`), or no longer. A Tx that the
/// transport has begun to send stays here. A Tx that finds no other path stays too (Tx::stays), and goes home again as
/// stays_look() says.
void ni_avoid(Worker& w, NiSlice& slice, bool avoid);
void peer_avoid(Worker& w, PeerSlice& slice, bool avoid);
/// Requires: stays_due has come. Messages that stay on an avoided rail go home again. Returns 1.
unsigned stays_look(Worker& w);
/// Nothing more over this NI; tells control when the last message is gone.
void ni_close(Worker& w, NiSlice& slice);
void ni_check_drained(Worker& w, NiSlice& slice);

}  // namespace ulnet
