// socklnd, the LND of `tcp` networks, wire-compatible with upstream's: how a Node gets its two halves. Start-up only.
// Source: docs/wire/socklnd.md. Layers: proto/ (bytes), conn* and timers (worker half), *_ctl (control half), engine/
// (I/O).
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lnd/driver.h"
#include "lnd/lnd.h"
#include "lnd/socklnd/config.h"
#include "lnd/socklnd/devices_ctl.h"
#include "lnd/socklnd/net_io.h"
#include "lnd/socklnd/stream.h"

namespace ulnet::socklnd {

/// The record (driver.cc).
extern const DriverType kSockDriver;
/// Its rows (fields.cc).
[[nodiscard]] std::span<const DriverField> sock_setting_fields();
[[nodiscard]] std::span<const DriverField> sock_tunable_fields();
/// The node's settings from the values by row of kSockDriver. A member without a row has its default.
[[nodiscard]] SockConfig sock_config(std::span<const int64_t> settings);
/// An NI's settings from NiParams::tunables, and back.
[[nodiscard]] SockTunables sock_tunables(std::span<const int64_t> tunables);
[[nodiscard]] std::vector<int64_t> sock_tunable_numbers(const SockTunables& tunables);

/// The worker half: one per worker and Node. `engine` is that worker's own and outlives it.
[[nodiscard]] std::unique_ptr<Lnd> make_sock_lnd(LndCore& core, StreamEngine& engine, const SockConfig& config);
/// The control half: one per Node. `net` and `devices` (may be null) outlive it. Before it is destroyed its NIs are
/// stopped and host.ni_stopped() has come for each.
[[nodiscard]] std::unique_ptr<LndControl> make_sock_lnd_control(LndControlHost& host, NetIo& net,
                                                                const SockConfig& config, SockDevices* devices);
/// Changes the tunables of both halves while NIs run; `control` is what make_sock_lnd_control() made. Tunables of
/// sockets apply to sockets made from now on; those of messages, keepalives and dials apply at once. The rules of
/// accepting (accept, accept_port, accept_backlog, unprivileged_ports), the incarnation and the bounds stay as they
/// were. Thread: control.
void sock_lnd_retune(LndControl& control, const SockConfig& config, Instant now);

}  // namespace ulnet::socklnd
