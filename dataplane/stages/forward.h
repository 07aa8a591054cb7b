// Forwarding: a message that is not for this node, through a router buffer to its next hop. Holds receives back when
// the sender has used up its router credits, the next hop has its share of the pool, or the pool is empty. A next hop
// may hold as many buffers as are free: one that is slow gets half of a pool, two get a third each, and so on, so that
// some are left for the others. A next hop that has its share and takes nothing gets no more messages. Messages that
// wait for it pass their router credits on to other messages of the same sender. The next hop is chosen when the header
// comes, and its buffer is charged to that hop. Source: docs/wire/lnet.md §8.
#pragma once
#include "dataplane/select/path.h"
#include "dataplane/stages/worker.h"

namespace ulnet {

/// Decides about a header that is not for this node. Requires routing not disabled.
[[nodiscard]] RxVerdict forward_header(Worker& w, RxSlot& slot);
/// Its payload is in the buffer, or the connection broke.
void forward_received(Worker& w, RxSlot& slot, Message& m, Completion how);
/// Its path: over the hop that it is charged to, or, when that one does not do any more, over another, to which the
/// charge moves then. Errors: ELOOP, EHOSTDOWN, and those of choose_path().
[[nodiscard]] PathChoice forward_path(Worker& w, Message& m);
/// What a message is dropped for when forward_path() gave this error.
[[nodiscard]] Drop forward_drop_reason(int32_t error);
/// It has been sent, or failed: buffer and credit go to who waits.
void forward_end(Worker& w, Message& m);
/// A peer NI served here has so many router credits from now on: those who wait for one may get it.
void peer_set_rtr_credits(Worker& w, PeerSlice& slice, int32_t total);
/// Is a receive held that is to go to this next hop?
[[nodiscard]] bool forward_waits_for(Worker& w, const PeerLocal& hop);
/// Takes a block of buffers into use.
void router_block_add(Worker& w, RouterBlock& block);
/// Gives a block back when its last buffer is free.
void router_block_retire(Worker& w, RouterBlock& block);
/// Drops what was held longer than router_hold_timeout.
unsigned router_hold_expire(Worker& w);
/// Passes router credits on from messages whose next hops do not move, where receives of the same sender wait for one.
/// Takes buffers back from payloads that do not come, where others wait for these. Admits receives for next hops whose
/// shares have grown. Drops those for next hops that have their share of buffers and have not moved for kHopHoldMax,
/// and those for which there is no buffer when none has moved for kPoolHoldMax.
unsigned router_hold_look(Worker& w);

}  // namespace ulnet
