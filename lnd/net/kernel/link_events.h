// What the kernel says about links and addresses, by rtnetlink: that something may have changed, and how a link is.
// Shared by drivers whose devices are the kernel's. Thread: control. Nothing blocks: notices are taken as far as they
// are there, and what is asked the kernel answers at once.
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
/// How the interface is that has the IP address of this NID (its net does not matter). kNone also when the kernel
/// cannot be asked.
[[nodiscard]] AddressState address_state(const Nid& nid);

}  // namespace ulnet
