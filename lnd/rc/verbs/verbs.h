// Reliable connections over RDMA devices of this machine, with rdma-core: the provider for InfiniBand and RoCE adapters
// and for the kernel's rdma_rxe. Four kinds of threads share it:
//   control       Control: its functions, and the time limits of connections
//   the CM thread all that may block: rdma_cm, queue pairs, events of devices (cm_ctl.h)
//   the helper    registers memory, and gives it back (cm_regions_ctl.cc)
//   workers       Worker: posting and polling; completion queues of its own at each device (worker.h)
// The CM thread and its neighbours pass messages through rings (messages.h). A queue pair is made by the CM thread,
// lent to its worker, and freed by the CM thread.
#pragma once
#include <memory>

#include "lnd/rc/rc.h"

namespace ulnet::rc::verbs {

/// A provider for a node with this many workers. A machine without RDMA devices is no error: listen() says ENODEV then.
/// Errors: EMFILE.
[[nodiscard]] Result<std::unique_ptr<Provider>> open_provider(unsigned workers);

}  // namespace ulnet::rc::verbs
