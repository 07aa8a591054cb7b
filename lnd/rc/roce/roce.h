// Reliable connections in user space, as RoCEv2 over packet ports: a provider that needs no RDMA device. Three kinds of
// threads share it:
//   control   Control: connections (cm_ctl.h), and the facts of ports
//   the helper   adds and removes regions
//   workers   Worker: packets of their queue pairs, over a queue of each port (port.h)
// Time and randomness are handed in. Source: docs/wire/roce.md.
#pragma once
#include <memory>

#include "dataplane/base/rng.h"
#include "lnd/rc/rc.h"
#include "lnd/rc/roce/counts.h"
#include "lnd/rc/roce/port.h"
#include "lnd/rc/roce/port_facts_ctl.h"

namespace ulnet::rc::roce {

class RoceProvider : public Provider {
 public:
  /// Control. A port that listeners and connections may use from now on; returns its number. Errors: ENOSPC
  /// (kRocePortsMax), EADDRINUSE (another port has one of its addresses).
  [[nodiscard]] virtual Result<uint8_t> add_port(PortFacts facts) = 0;
  /// Control: the state of its link, whenever it changes. A new port has none.
  virtual void set_link(uint8_t port, const PortLink& link) = 0;
  /// A worker's queue of the port. On the worker's thread, or before it runs.
  virtual void attach(uint8_t port, WorkerId worker, WorkerPort& queue) = 0;
  /// The port is closed: gives all packets back that came from it. When the worker does not run.
  virtual void detach(uint8_t port, WorkerId worker) = 0;
  /// Control: connections that were not destroyed.
  [[nodiscard]] virtual size_t connections() const = 0;
  /// The sum over all workers. Any thread.
  [[nodiscard]] virtual uint64_t count(uint8_t port, Count which) const = 0;
};

struct ProviderOptions {
  unsigned workers = 1;
  uint64_t seed = 0;
  bool threads = true;            ///< false: all halves are on one thread, so nobody needs to be woken
  ConnId first_conn = 1;          ///< ids are given out from here on
  ListenerId first_listener = 1;  ///< the same
};
/// Errors: EMFILE.
[[nodiscard]] Result<std::unique_ptr<RoceProvider>> open_provider(const ProviderOptions& options);

}  // namespace ulnet::rc::roce
