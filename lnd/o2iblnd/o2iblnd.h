// o2iblnd, the LND of `o2ib` networks, wire-compatible with upstream's: how a Node gets its two halves. Start-up only.
// Source: docs/wire/o2iblnd.md. Layers: proto/ (bytes and rules), conn*, peer and transfer (worker half), *_ctl
// (control half); queue pairs are behind lnd/rc/rc.h.
#pragma once
#include <cstddef>
#include <memory>

#include "lnd/driver.h"
#include "lnd/o2iblnd/staging.h"
#include "lnd/rc/rc.h"

namespace ulnet::o2iblnd {

/// The record (driver.cc): over the RDMA devices of the machine.
extern const DriverType kIbDriver;

/// Staging memory of one worker. PUTs for memory in several pieces wait for a block, and each needs one until the peer
/// has written. Pages are in use only after a device has registered them.
inline constexpr size_t kStagingBytes = 8 * Staging::kBlockBytes;

/// The driver over a provider with as many workers, with `settings` by row of kIbDriver. `port_user`: the provider's,
/// or null. If `register_memory`, MDs
/// above 4 KiB that lie in no region wait for the helper when they are bound. Otherwise no NI can start. Errors: ENOMEM
/// (staging memory), those of rc::Control::region_add().
[[nodiscard]] Result<std::unique_ptr<Driver>> make_ib_driver(const DriverContext& context,
                                                             std::unique_ptr<rc::Provider> provider,
                                                             bool register_memory, PortUser* port_user = nullptr);

}  // namespace ulnet::o2iblnd
