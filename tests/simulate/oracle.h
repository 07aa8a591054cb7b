// The peer tables that the nodes of a healed cluster must have. The truth about a node is its own configuration: its
// NIs in their order, and its discovery mode. Below, A is the node whose table is checked, and B is another node that A
// can reach.
//
// Stage "sent": each node has sent to each other node; there was only ordinary traffic.
//   1  A peer that A's operator configured has exactly the configured NIDs, primary NID and multi-rail mode.
//   2  A has one multi-rail peer with exactly B's NIDs, B's primary NID first, under three conditions. A discovers
//      (`discovery: 1`). B advertises DISCOVERY and MULTI_RAIL (`1` or `verify`). No configured peer of A has a NID of
//      B.
//      - The peer is discovered and up to date. None of its NIDs is down, unless B is a router. The NID of an NI that
//        rule 8 exempts may be down, because B reports that.
//      - An additional NID is allowed only if a route of A names it as gateway; such a NID stays.
//   3  No peer is in discovery for ever (DISCOVERING ends).
// After `discover --force` (`asked` is true), each node has also discovered each other node. No other event reports
// the following to A:
//   2  also if B is in `verify`. B treats a peer as multi-rail only if its operator configured that, and pushes only to
//      multi-rail peers.
//   2  also if B's operator configured NIDs of A together with NIDs of others, or as not multi-rail.
//   4  If A discovers and B does not (`0`, or an older version), each NID of B that A reaches is a separate peer.
//      The peer is not multi-rail. NIDs in configured peers are exempt.
//   5  If A does not discover: the same for each B.
//   6  A peer without configuration has NIDs of one node only. The peer may also have NIDs that no node has, or that A
//      does not reach. No event removes the NIDs of a node that is gone.
//   7  If a node checks a router over a net, A's route through that router and net is alive.
// Then every health value rises (`health_wrong`):
//   8  Each NI of A has health 1000, and none is in the queue of recovery pings. Exception: an NI that was found
//      silent, if no other node has an NI on its net.
//   9  Each NID of B that A has as peer NI has health 1000. Exceptions:
//      - A has no NI on its net, so that A cannot ping it.
//      - No message ever came from it, and it has failed without being silent (HealthValue::silent). A does not ping it
//        then (docs/wire/lnet.md §9).
//      A NID that no member has may stay in the queue of recovery pings. A pings that NID for ever, or for
//      `recovery_limit`.
//  10  If rule 2 holds for B, A sends over each of its NIs and to each NI of B (`must_use_rails`). Only NIs on nets of
//      both count. The second exception of rule 9 is one of this rule, too.
// In `verify`, A merges nothing, and only rules 1, 3 and 7 hold for its table. The oracle skips a pair A and B in these
// cases.
//   - A router that they need is configured with NIDs of A or B as those of another node. The router then treats
//     forwarded messages as a loop.
//   - A or B is configured with wrong NIDs for the router, or learnt them before it was set to `verify`. The node then
//     treats the answers to its checks as those of another node.
#pragma once
#include <map>
#include <string>

#include "tests/simulate/cluster.h"

namespace ulnet::simulate {

/// The first thing in A's table that breaks a rule; "" when there is none.
[[nodiscard]] std::string table_wrong(const Cluster& cluster, const Member& a, bool asked);
/// Work on a peer that has not ended, in any node; "" when there is none.
[[nodiscard]] std::string unfinished(const Cluster& cluster);
/// True if every message that A sends to B must arrive. False if A's operator, or a rule above, gives A NIDs for B that
/// B does not have.
[[nodiscard]] bool must_arrive(const Cluster& cluster, const Member& a, const Member& b);
/// The first of A's health values that breaks a rule; "" when there is none.
[[nodiscard]] std::string health_wrong(const Cluster& cluster, const Member& a);
/// Does rule 10 hold for A and B?
[[nodiscard]] bool must_use_rails(const Cluster& cluster, const Member& a, const Member& b);
/// The NIs of A and the peer NIs of B on the nets that both have, with the messages that A has sent over each.
[[nodiscard]] std::map<Nid, uint64_t> rails_sent(const Member& a, const Member& b);
/// The largest difference of credits between two peer NIs of B. One gets that number of messages before the other gets
/// its first.
[[nodiscard]] size_t credits_apart(const Member& a, const Member& b);
/// Health and load of this NI or peer NI of A, for the text of a failure.
[[nodiscard]] std::string rail_text(const Member& a, const Nid& nid);

}  // namespace ulnet::simulate
