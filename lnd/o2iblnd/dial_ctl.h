// Connecting to a peer: attempts, rejects, races, pauses (docs/wire/o2iblnd.md §6).
#pragma once
#include "lnd/o2iblnd/state_ctl.h"

namespace ulnet::o2iblnd {

/// Messages wait for a connection.
void dial_wanted(IbControl& control, PeerCtl& peer);
/// None waits any more: an attempt under way goes on, and no other follows.
void dial_unwanted(IbControl& control, PeerCtl& peer);
/// Events of an attempt.
void dial_ready(IbControl& control, ConnCtl& conn, rc::Qp& qp);
void dial_answered(IbControl& control, ConnCtl& conn, std::span<const std::byte> data);
void dial_refused(IbControl& control, ConnCtl& conn, rc::Cause cause, std::span<const std::byte> data);
/// An attempt ends for another reason than the peer's answer.
void dial_lost(IbControl& control, ConnCtl& conn, Completion how);
/// A connection is up, by whomever it was begun.
void dial_satisfied(IbControl& control, PeerCtl& peer, const ConnCtl& conn);
/// A connection of the peer has ended, or did not come about. Dials if messages wait for one.
void dial_missed(IbControl& control, PeerCtl& peer);
/// Ends the connections of all local NIs to former lives of this peer NI: its present life has this stamp. Attempts go
/// on, because the peer rejects their stamp.
void former_lives_end(IbControl& control, const Nid& nid, uint64_t stamp);
/// The next attempt does not wait, and one without answer is made again.
void dial_again(IbControl& control, PeerCtl& peer);
/// Pauses that are over; returns work done.
unsigned dial_due(IbControl& control);
[[nodiscard]] Instant dial_next(const IbControl& control);

}  // namespace ulnet::o2iblnd
