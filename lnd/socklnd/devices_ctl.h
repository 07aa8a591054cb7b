// The devices under the NIs of socklnd, as its control half sees them: the kernel's, or a test's. Thread: control.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "lnd/lnd.h"
#include "lnd/socklnd/net_io.h"

namespace ulnet::socklnd {

/// State of a local NI's device, as far as socklnd needs it. Control thread.
class SockDevices {
 public:
  virtual ~SockDevices() = default;
  /// Whether links or addresses may have changed since the last call. Does not block.
  [[nodiscard]] virtual bool changed() { return false; }
  /// Whether the NI's address is there, on a link that is up. Nothing if the answer is unknown for this NI.
  [[nodiscard]] virtual std::optional<bool> usable(const NiParams& ni) {
    (void)ni;
    return std::nullopt;
  }
  /// The speed of the link under the NI; 0 where it is unknown.
  [[nodiscard]] virtual LinkSpeed speed(const NiParams& ni) {
    (void)ni;
    return {};
  }
  /// Whether packets between the NI and `remote` cross hardware. If not, `remote` may be on this machine, and then gets
  /// the pages that are sent instead of a copy.
  [[nodiscard]] virtual bool on_wire(const NiParams& ni, const IpAddress& remote) {
    (void)ni;
    (void)remote;
    return false;
  }
  /// The interface that a connection between this NI and `remote` must be bound to, because other interfaces of this
  /// machine are in the same subnet. The result is "" if there are no others, or if settings of the kernel would break
  /// the connection. The kernel then finds the way.
  [[nodiscard]] virtual std::string hold_to(const NiParams& ni, const IpAddress& remote) {
    (void)ni;
    (void)remote;
    return {};
  }
  /// Readable when changed() has something to say; -1 = it never has.
  [[nodiscard]] virtual int wait_fd() const { return -1; }
};

}  // namespace ulnet::socklnd
