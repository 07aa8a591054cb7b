// Notices from the kernel that links or addresses may have changed, and the present state of an address, by rtnetlink.
// Drivers whose devices are the kernel's share it. Thread: control. Nothing blocks: take() reads only the notices that
// are there, and the kernel answers requests at once.
#pragma once
#include <cstdint>

#include "dataplane/base/nid.h"
#include "dataplane/base/result.h"

namespace ulnet {

/// Notices of one network namespace.
class LinkEvents {
 public:
  enum class About : uint8_t { kLinks, kLinksAndAddresses };

  LinkEvents() = default;
  ~LinkEvents();
  LinkEvents(const LinkEvents&) = delete;
  LinkEvents& operator=(const LinkEvents&) = delete;

  /// May be called again: no effect then. Errors: EMFILE, EPERM.
  [[nodiscard]] Result<void> open(About about);
  /// Takes all notices that are there; true when there was one (or some were lost). False when not open.
  bool take() const;
  /// Readable when take() has something; -1 when not open.
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

enum class AddressState : uint8_t {
  kNone,  ///< no interface has this address
  kDown,  ///< its interface is down or has no carrier
  kUp
};
/// State of the interface that has the IP address of this NID (its net does not matter). kNone also if the kernel does
/// not answer.
[[nodiscard]] AddressState address_state(const Nid& nid);

}  // namespace ulnet
