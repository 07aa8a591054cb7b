// Connection slots of the workers: how many there are, and which connections give way when they run out. Thread:
// control. A worker has config.conns_max slots; connections that are being closed hold theirs until the worker has
// given them back. Hence room is made before it is needed: from seven eighths on, each new connection has idle ones
// closed. The measure is the number of connection sets per address: sets of the address that has most go first, the
// longest idle one before the others. kSetsFree sets of an address are not held against it; among addresses with
// fewer, only sets that were idle for kIdleMin give way. Without a slot the newcomer is told to try again.
#pragma once
#include "lnd/socklnd/state_ctl.h"

namespace ulnet::socklnd {

/// Whose share a connection counts to: the address, over IPv6 its first 64 bits.
[[nodiscard]] IpAddress address_share(const IpAddress& address);

/// Whether a new connection of `set` has a slot on its worker and memory for its state. Closes others where slots
/// become few; logs (limited) why not.
[[nodiscard]] bool room_for_conn(SockControl& control, const SetCtl& set);

/// Whether there is memory for the state of one more connection or handshake and all bookkeeping about it.
[[nodiscard]] bool memory_for_conn(SockControl& control);

}  // namespace ulnet::socklnd
