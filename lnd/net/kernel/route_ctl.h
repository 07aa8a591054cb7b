// The way of packets to an address, as the kernel would route them, by rtnetlink. Calls are answered at once, and need
// no rights. Thread: control.
#pragma once
#include <string>

#include "dataplane/base/nid.h"

namespace ulnet {

/// Would packets between these addresses leave over an interface that runs? False if there is no route, or if the link
/// of its interface is down. True if the kernel gives no
/// answer, or one of another kind.
[[nodiscard]] bool route_runs(const Nid& from, const Nid& to);

/// The interface over which packets between these addresses would leave. For an address of this machine, that is lo. An
/// empty name: there is no way, or no answer.
[[nodiscard]] std::string route_interface(const Nid& from, const Nid& to);

}  // namespace ulnet
