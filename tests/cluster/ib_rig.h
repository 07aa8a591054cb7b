// o2iblnd of one simulated node: both halves upon a provider, with staging memory for each worker.
// Outlives its Node. When this is gone, the devices have lost all connections, and report that to no peer.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "lnd/driver.h"
#include "lnd/o2iblnd/config.h"
#include "lnd/rc/sim/net.h"

namespace ulnet::test {

[[nodiscard]] inline rc::IpAddress rc_address(const Nid& nid) {
  return rc::IpAddress::of_v4(nid.address_v4());
}

class IbRig {
 public:
  IbRig(std::unique_ptr<rc::Provider> provider, unsigned workers, const o2iblnd::IbConfig& config);
  /// The worker half gets the result of `core_for` in place of its core.
  [[nodiscard]] LndEntry entry(std::function<LndCore&(LndCore&)> core_for);

 private:
  const o2iblnd::IbConfig config_;
  std::vector<std::byte> staging_;
  std::unique_ptr<rc::Provider> provider_;
};

/// Calls `see` for each message of o2iblnd with an LNet header that comes to a node.
using SeeMessage = std::function<void(const Nid& from, const Nid& to, const wire::Header& header)>;
void see_messages(rc::sim::Net& net, SeeMessage see);

}  // namespace ulnet::test
