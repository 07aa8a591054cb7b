// Two providers as one. Each address belongs to one of them, and so do the connections of that address.
#pragma once
#include "lnd/rc/rc.h"

namespace ulnet::rc {

/// The ids of the second provider start here, those of the first stay below.
inline constexpr ConnId kSecondConns = ConnId{1} << 63;
inline constexpr ListenerId kSecondListeners = ListenerId{1} << 31;

/// Both have as many workers. An address for which `second` has no device is the first one's.
[[nodiscard]] std::unique_ptr<Provider> join(std::unique_ptr<Provider> first, std::unique_ptr<Provider> second,
                                             unsigned workers);

}  // namespace ulnet::rc
