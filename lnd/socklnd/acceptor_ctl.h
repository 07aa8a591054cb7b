// The passive side: listeners, connection requests, HELLOs and their answers, each way to refuse as upstream does it.
// Thread: control. Source: docs/wire/socklnd.md §1, §2, §6.
#pragma once
#include "lnd/socklnd/state_ctl.h"

namespace ulnet::socklnd {

/// Listens on the NI's address; NIs with the same address share the listener. Errors: EADDRINUSE, EADDRNOTAVAIL,
/// EACCES.
[[nodiscard]] Result<void> acceptor_open(SockControl& control, const NiCtl& ni);
void acceptor_close(SockControl& control, const NiCtl& ni);
/// Gives the NI's options to its listener, for the sockets that it accepts from now on.
void acceptor_retune(SockControl& control, const NiCtl& ni);

/// A socket came in.
void acceptor_accepted(SockControl& control, SocketId socket, const Endpoint& remote);
/// Events of a passive handshake; it may be gone afterwards.
void acceptor_readable(SockControl& control, Handshake& shake);
void acceptor_writable(SockControl& control, Handshake& shake);

}  // namespace ulnet::socklnd
