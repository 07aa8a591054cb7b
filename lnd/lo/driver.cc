// The record of the loopback driver: no settings.
#include "lnd/driver.h"

#include "lnd/lo/lo.h"

namespace ulnet {
namespace {

class LoDriver final : public Driver {
 public:
  std::unique_ptr<LndControl> make_control(LndControlHost& host) override { return std::make_unique<LoControl>(host); }
  std::unique_ptr<Lnd> make_worker(LndCore& core) override { return std::make_unique<LoLnd>(core); }
};

}  // namespace

const DriverType kLoDriver{
    .name = "lo", .net_type = NetType::kLo, .open = [](const DriverContext&) -> Result<std::unique_ptr<Driver>> {
      return std::make_unique<LoDriver>();
    }};

LndEntry lnd_loopback() {
  return {&kLoDriver, [](LndCore& core) { return std::make_unique<LoLnd>(core); },
          [](LndControlHost& host) { return std::make_unique<LoControl>(host); }};
}

}  // namespace ulnet
