// The drivers of driver_test: those of lnd/registry.cc, and one line for the fake one.
#include "lnd/registry.h"

#include "lnd/lo/lo.h"
#include "lnd/socklnd/socklnd.h"

namespace ulnet {

namespace test {
extern const DriverType kFakeDriver;
}

std::span<const DriverType* const> driver_types() {
  static constexpr const DriverType* kTypes[] = {
      &kLoDriver,
      &socklnd::kSockDriver,
      &test::kFakeDriver,
  };
  return kTypes;
}

}  // namespace ulnet
