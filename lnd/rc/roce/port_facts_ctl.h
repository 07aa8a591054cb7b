// A port that RoCE runs over, as control sees it. Thread: control.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/ids.h"
#include "dataplane/base/link_speed.h"
#include "lnd/net/packet/net_address.h"

namespace ulnet::rc::roce {

using dpdk::IpAddress;

/// A port for control.
struct PortFacts {
  std::string name;
  std::vector<IpAddress> addresses;
  dpdk::Mac mac;
  uint16_t mtu = 1500;   ///< of the link
  unsigned workers = 1;  ///< that have a queue: the first ones
  /// The worker on whose queue a flow arrives that comes from `from`, at this UDP source port. May be empty, and may
  /// return nothing: not known.
  std::function<std::optional<WorkerId>(const IpAddress& from, const IpAddress& to, uint16_t source_port)> worker_of;
};
struct PortLink {
  bool up = false;
  LinkSpeed speed;
};

}  // namespace ulnet::rc::roce
