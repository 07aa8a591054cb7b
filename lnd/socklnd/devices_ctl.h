// The devices under the NIs of socklnd, as its control half sees them: the kernel's, or a test's. Thread: control.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "lnd/lnd.h"
#include "lnd/socklnd/net_io.h"

namespace ulnet::socklnd {

/// What socklnd wants to know about a local NI's device. Control thread.
class SockDevices {
 public:
  virtual ~SockDevices() = default;
  /// Whether links or addresses may have changed since the last call. Does not block.
  [[nodiscard]] virtual bool changed() { return false; }
  /// Whether the NI's address is there, on a link that is up. Nothing where this cannot be told of the NI at all.
  [[nodiscard]] virtual std::optional<bool> usable(const NiParams& ni) {
    (void)ni;
    return std::nullopt;
  }
  /// The interface to which a connection between this NI and `remote` has to be held, because others of this machine
  /// are in the same subnet; "" = none, or settings of the kernel would break it: the kernel finds the way.
  [[nodiscard]] virtual std::string hold_to(const NiParams& ni, const IpAddress& remote) {
    (void)ni;
    (void)remote;
    return {};
  }
  /// Readable when changed() has something to say; -1 = it never has.
  [[nodiscard]] virtual int wait_fd() const { return -1; }
};

}  // namespace ulnet::socklnd
