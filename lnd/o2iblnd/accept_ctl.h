// Connections that peers begin: the checks of docs/wire/o2iblnd.md §6.3, and bounds for strangers.
#pragma once
#include "lnd/o2iblnd/state_ctl.h"

namespace ulnet::o2iblnd {

/// A REQ has come.
void accept_request(IbControl& control, const rc::Event& event);
/// Events of a connection that was accepted.
void accept_ready(IbControl& control, ConnCtl& conn, rc::Qp& qp);
void accept_established(IbControl& control, ConnCtl& conn);
void accept_failed(IbControl& control, ConnCtl& conn, Completion how);

}  // namespace ulnet::o2iblnd
