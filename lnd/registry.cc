#include "lnd/registry.h"

#include "lnd/lo/lo.h"
#include "lnd/socklnd/socklnd.h"

namespace ulnet {

std::span<const DriverType* const> driver_types() {
  static constexpr const DriverType* kTypes[] = {
      &kLoDriver,
      &socklnd::kSockDriver,
  };
  return kTypes;
}

}  // namespace ulnet
