// Connection sets on the control side: made when first needed, counted, closed together, retired when empty; and who a
// peer is. Thread: control. Source: docs/wire/socklnd.md §4, §6, §7.
#pragma once
#include "lnd/socklnd/state_ctl.h"

namespace ulnet::socklnd {

/// Who a dialling peer is taken for.
struct PeerIdentity {
  Nid nid;
  uint32_t pid = kLnetPid;
  bool rewrite_source = false;  ///< its headers' source is overwritten with nid and pid
  bool refuse = false;
};
/// From a privileged port, or with unprivileged_ports, the HELLO is believed. Else the peer is a user-space process:
/// its NID is its IPv4 address on the NI's net, its pid is made of the port; over IPv6 there is no such identity.
[[nodiscard]] PeerIdentity peer_identity(const SockConfig& config, Net ni_net, const Endpoint& remote,
                                         const Hello& hello);

/// The IP address in a tcp NID.
[[nodiscard]] IpAddress nid_address(const Nid& nid);
/// The NID of an IP address on that net.
[[nodiscard]] Nid nid_at(Net net, const IpAddress& address);

/// Finds or makes the set. `from`: where a peer connected from of whose NID there is only its own word; null: we want
/// to connect. Errors: those of place_peer; ENOMEM when there are too many sets.
[[nodiscard]] Result<SetCtl*> set_ensure(SockControl& control, NiCtl& ni, const Nid& nid, uint32_t pid,
                                         const IpAddress* from = nullptr);
/// The peer NI has another place now: the set ends, what waits in it may be sent again, and set_ensure() makes another.
/// `set` may be gone afterwards.
void set_abandon(SockControl& control, SetCtl& set);
/// Sends `msg` to the set's worker.
void set_tell(SockControl& control, const SetCtl& set, const LndMsg& msg);
/// Completes what waits for a connection of the set.
void set_fail(SockControl& control, const SetCtl& set, Completion how);
/// Closes all its connections; from now on they do not count, and the peer's version and incarnation are forgotten.
void set_close_all(SockControl& control, SetCtl& set, int error);
/// A new Conn, counted in the set and on its worker; null without memory. Requires: room_for_conn().
[[nodiscard]] Conn* conn_make(SockControl& control, SetCtl& set, ConnType type, const Endpoint& remote,
                              const Hello& hello, bool rewrite_source);
/// The connection does not count any more (moved to `closing`); false when it did not already.
bool conn_uncount(SockControl& control, SetCtl& set, Conn* conn);
/// Frees a connection that no worker has; its slot is free.
void conn_free(SockControl& control, SetCtl& set, Conn* conn);
/// Looks whether the set can be given up: it has nothing and wants nothing. `set` may be gone afterwards.
void set_settle(SockControl& control, SetCtl& set);
/// Same for an NI that is stopping: asks the workers for the last flush.
void ni_settle(SockControl& control, NiCtl& ni);

/// Messages of workers about sets and connections.
void on_conn_closed(SockControl& control, const ConnClosedMsg& msg);
void on_conn_dead(SockControl& control, const ConnDeadMsg& msg);
void on_set_gone(SockControl& control, const SetGoneMsg& msg);

}  // namespace ulnet::socklnd
