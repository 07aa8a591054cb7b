// What the peer tables of a healed cluster must say. Truth is what each node says of itself: its NIs in their order,
// and whether it discovers. Let A be the node that is asked, B another that A can reach.
//
// Once each has sent to each (stage "sent"; nothing but ordinary traffic):
//   1  A peer that A's operator configured is what was configured: these NIDs, this primary, multi-rail or not.
//   2  A discovers (`discovery: 1`), B advertises DISCOVERY and MULTI_RAIL (`1` or `verify`), none of B's NIDs is in a
//      configured peer of A: A has one multi-rail peer with exactly B's NIDs, B's primary NID first, discovered and up
//      to date, and takes none of these for down unless B is a router. A NID besides is allowed only when a route of A
//      names it as gateway: that one stays.
//   3  Nobody is at work on a peer for ever (DISCOVERING ends).
// Once besides each has been made to ask each (`discover --force`; stage "asked"), since nothing else tells A of these:
//   2  also where B says `verify`: it takes nobody for multi-rail whom its operator did not configure so, and pushes to
//      multi-rail peers only; and where B's operator configured NIDs of A with those of others, or as not multi-rail.
//   4  A discovers, B does not (`0`, or an older version): each NID of B that A reaches, unless it is in a configured
//      peer, is a peer by itself in A, not multi-rail.
//   5  A does not discover: the same for each B.
//   6  A peer that nobody configured has NIDs of one node only (others that no node has, or that A does not reach, may
//      be in it: nobody takes back the NIDs of a node that is gone).
//   7  A route of A through a router that somebody on that net checks is alive.
// A in `verify` merges nothing: for it only 1, 3 and 7 hold. Nothing is said of A and B where a router that they need
// was told by its operator that NIDs of A or B are another's (it takes what it forwards for a loop), or where A or B
// was told that the router's NIDs are others than they are (the answers to its checks are taken for another's), or
// learnt it before it was set to `verify`.
#pragma once
#include <string>

#include "tests/simulate/cluster.h"

namespace ulnet::simulate {

/// The first thing in A's table that is not as it must be; "" when there is none.
[[nodiscard]] std::string table_wrong(const Cluster& cluster, const Member& a, bool asked);
/// Work on a peer that has not ended, in any node; "" when there is none.
[[nodiscard]] std::string unfinished(const Cluster& cluster);
/// Must every message that A sends to B arrive? Not when A's operator, or a rule above, has it believe in NIDs that B
/// does not have.
[[nodiscard]] bool must_arrive(const Cluster& cluster, const Member& a, const Member& b);

}  // namespace ulnet::simulate
