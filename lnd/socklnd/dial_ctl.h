// Dialling: which connection of a set to open, what an answer means, when to try again. One attempt per set at a time;
// each waits for the HELLO of the one before. Thread: control. Source: docs/wire/socklnd.md §2.4, §5, §6.
#pragma once
#include "lnd/socklnd/state_ctl.h"

namespace ulnet::socklnd {

/// A worker has a message for the set and no suitable connection.
void dial_wanted(SockControl& control, SetCtl& set);
/// The link of the set's NI is back, or a recovery ping follows. The back-off after failed attempts is over. An attempt
/// whose SYN has no answer yet is made again, because the kernel repeats a SYN after ever longer times.
void dial_now(SockControl& control, SetCtl& set);
/// Opens the next missing connection, unless one is under way or it is too early.
void dial_step(SockControl& control, SetCtl& set);
/// `set` fell due: retry, end of a back-off, or time to be forgotten. The set may be gone afterwards.
void dial_due(SockControl& control, SetCtl& set);
/// Gives up the attempt under way, without any report (NI stopping).
void dial_stop(SockControl& control, SetCtl& set);

/// Events of an active handshake; it may be gone afterwards.
void dial_connected(SockControl& control, Handshake& shake);
void dial_readable(SockControl& control, Handshake& shake);
void dial_writable(SockControl& control, Handshake& shake);
/// The attempt ended: connect failed, socket broke, or time is up (ETIMEDOUT).
void dial_broken(SockControl& control, Handshake& shake, int error);
/// The connect failed; NetIo has closed the socket already.
void dial_connect_failed(SockControl& control, Handshake& shake, int error);

}  // namespace ulnet::socklnd
