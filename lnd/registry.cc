#include "lnd/registry.h"

#include "lnd/lo/lo.h"
#include "lnd/o2iblnd/o2iblnd.h"
#include "lnd/socklnd/socklnd.h"

namespace ulnet {

std::span<const DriverType* const> driver_types() {
  static constexpr const DriverType* kTypes[] = {
      &kLoDriver,
      &socklnd::kSockDriver,
      &o2iblnd::kIbDriver,
  };
  return kTypes;
}

}  // namespace ulnet
