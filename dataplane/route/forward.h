// Forwarding: a message that is not for this node, through a router buffer to its next hop. Holds receives back when
// the sender has used up its router credits, the next hop holds half the pool, or the pool is empty. Source:
// docs/wire/lnet.md §8.
#pragma once
#include "dataplane/worker/worker.h"

namespace ulnet {

/// Decides about a header that is not for this node. Requires routing not disabled.
[[nodiscard]] RxVerdict forward_header(Worker& w, RxSlot& slot);
/// Its payload is in the buffer, or the connection broke.
void forward_received(Worker& w, RxSlot& slot, Message& m, Completion how);
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

}  // namespace ulnet
