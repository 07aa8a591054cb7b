// socklnd, the LND of `tcp` networks, wire-compatible with upstream's: how a Node gets its two halves. Start-up only.
// Source: docs/wire/socklnd.md. Layers: proto/ (bytes), conn* and timers (worker half), *_ctl (control half), engine/
// (I/O).
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "lnd/lnd.h"
#include "lnd/socklnd/config.h"
#include "lnd/socklnd/net_io.h"
#include "lnd/socklnd/stream.h"

namespace ulnet::socklnd {

/// What socklnd wants to know about a local NI's device. Control thread.
class SockDevices {
 public:
  virtual ~SockDevices() = default;
  /// Link speed in Mb/s; 0 when unknown. Decides conns_per_peer where that is 0.
  [[nodiscard]] virtual uint32_t link_mbps(const NiParams& ni) = 0;
  /// Whether links or addresses may have changed since the last call. Does not block.
  [[nodiscard]] virtual bool changed() { return false; }
  /// Whether the NI's address is there, on a link that is up. Nothing where this cannot be told of the NI at all.
  [[nodiscard]] virtual std::optional<bool> usable(const NiParams& ni) {
    (void)ni;
    return std::nullopt;
  }
  /// Readable when changed() has something to say; -1 = it never has.
  [[nodiscard]] virtual int wait_fd() const { return -1; }
};

/// The worker half: one per worker and Node. `engine` is that worker's own and outlives it.
[[nodiscard]] std::unique_ptr<Lnd> make_sock_lnd(LndCore& core, StreamEngine& engine, const SockConfig& config);
/// The control half: one per Node. `net` and `devices` (may be null) outlive it. Before it is destroyed its NIs are
/// stopped and host.ni_stopped() has come for each.
[[nodiscard]] std::unique_ptr<LndControl> make_sock_lnd_control(LndControlHost& host, NetIo& net,
                                                                const SockConfig& config, SockDevices* devices);

}  // namespace ulnet::socklnd
