// Forwarding: a message for another node passes through a router buffer to its next hop. There are three reasons to
// hold a receive back. The sender has no router credits left, the next hop has its share of the pool, or the pool is
// empty. A next hop may hold as many buffers as are free. One slow next hop gets half of a pool, two get a third each,
// and so on, so that the others always find some. A next hop that has its share and takes nothing gets no more
// messages. Messages that wait for such a hop pass their router credits on to other messages of the same sender. The
// next hop is chosen when the header comes, and its buffer is charged to that hop. Source: docs/wire/lnet.md §8.
// The states of a Transit: kFree ─▶ kReceiving ─▶ kReady ─▶ kSending ─▶ kReady ─▶ kFree, with kParked between kReady
// and kReady while the path is not known, and again from kReady to kSending when a failed lease is worth it.
#pragma once
#include "dataplane/select/path.h"
#include "dataplane/stages/worker.h"

namespace ulnet {

/// Decides about a header that is not for this node. Requires routing not disabled.
[[nodiscard]] RxVerdict forward_header(Worker& w, RxSlot& slot);
/// Its payload is in the buffer, or the connection broke.
void forward_received(Worker& w, RxSlot& slot, Transit& m, Completion how);
/// Path of the message: over the hop that is charged. If that hop is no longer usable, the path goes over another hop,
/// and the charge moves to it. Errors: ELOOP, EHOSTDOWN, and those of choose_path().
[[nodiscard]] PathChoice forward_path(Worker& w, Transit& m, bool any);
/// The lease of `m` is back (tx.result), and no other attempt follows.
void forward_lease_back(Worker& w, Transit& m);
/// Drops a Transit that cannot be sent, with an error of forward_path() or of parking. Requires kReady.
void forward_failed(Worker& w, Transit& m, int32_t error);
/// Sets the router credits of a peer NI served here. Receives that wait for a router credit may get one.
void peer_set_rtr_credits(Worker& w, PeerSlice& slice, int32_t total);
/// Is a receive held that is to go to this next hop?
[[nodiscard]] bool forward_waits_for(Worker& w, const PeerLocal& hop);
/// Takes a block of buffers into use.
void router_block_add(Worker& w, RouterBlock& block);
/// Gives a block back when its last buffer is free.
void router_block_retire(Worker& w, RouterBlock& block);
/// Drops receives that were held longer than router_hold_timeout.
unsigned router_hold_expire(Worker& w);
/// Passes router credits on from messages whose next hops do not move, where receives of the same sender wait for one.
/// Takes buffers back from payloads that do not come, where others wait for these. Admits receives for next hops whose
/// shares have grown. Drops receives for next hops that have their share of buffers and have not moved for kHopHoldMax.
/// If no buffer of the pool has moved for kPoolHoldMax, drops the receives that wait for a buffer.
unsigned router_hold_look(Worker& w);

}  // namespace ulnet
