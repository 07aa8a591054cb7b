// Connection slots of the workers: how many there are, and which connections give way when they run out. Thread:
// control. A worker has config.conns_max slots; connections that are being closed hold theirs until the worker has
// given them back. Hence room is made before it is needed: from seven eighths on, each new connection has others
// closed. The measure is the number of connection sets per address. Sets of the address with the most sets go first,
// the longest idle one before the others. Addresses with at most kSetsFree sets are equal; their sets give way only
// after kIdleMin of idle time. If there is no slot, the answer to a HELLO is NONE: try again.
#pragma once
#include "lnd/socklnd/state_ctl.h"

namespace ulnet::socklnd {

/// The share that a connection counts to: its address, over IPv6 the first 64 bits.
[[nodiscard]] IpAddress address_share(const IpAddress& address);

/// Whether a new connection of `set` has a slot on its worker and memory for its state. Closes others where slots
/// become few; logs (limited) why not.
[[nodiscard]] bool room_for_conn(SockControl& control, const SetCtl& set);

/// Whether there is memory for the state of one more connection or handshake and all bookkeeping about it.
[[nodiscard]] bool memory_for_conn(SockControl& control);

}  // namespace ulnet::socklnd
