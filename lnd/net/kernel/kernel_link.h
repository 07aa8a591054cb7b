// The system's end of a port whose device has one (af_packet, af_xdp, tap): MTU, up and down, and whether it runs, by
// rtnetlink. Calls are answered by the kernel at once. Thread: control.
#pragma once
#include <string>

#include "dataplane/base/result.h"
#include "lnd/net/kernel/link_events.h"

namespace ulnet::dpdk {

class KernelLink {
 public:
  KernelLink() = default;
  KernelLink(const KernelLink&) = delete;
  KernelLink& operator=(const KernelLink&) = delete;

  /// Errors: ENODEV (no such interface), EMFILE.
  [[nodiscard]] Result<void> open(const std::string& interface);
  /// Errors: EPERM, EINVAL (the interface does not take this MTU).
  [[nodiscard]] Result<void> set_mtu(uint16_t mtu);
  [[nodiscard]] Result<void> set_up();

  struct State {
    bool up = false;
    bool running = false;  ///< has a carrier
  };
  /// Errors: ENODEV when it has gone, also when another one has its name by now.
  [[nodiscard]] Result<State> state() const;
  /// True if the interface has gone, and another one has its name.
  [[nodiscard]] bool replaced() const;
  /// Queue pairs that XDP sockets can have: the interface's combined channels; 1 where it has none.
  [[nodiscard]] unsigned combined_channels() const;
  /// Readable when some link of the namespace has changed; drain() afterwards.
  [[nodiscard]] int fd() const { return events_.fd(); }
  /// True: something was there.
  bool drain() const { return events_.take(); }
  [[nodiscard]] bool is_open() const { return events_.fd() >= 0; }
  [[nodiscard]] const std::string& interface() const { return interface_; }

 private:
  [[nodiscard]] Result<void> change(uint32_t flags, uint32_t flags_mask, uint32_t mtu) const;
  std::string interface_;
  int index_ = 0;
  LinkEvents events_;
};

}  // namespace ulnet::dpdk
