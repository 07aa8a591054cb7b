// Replaces eal.cc in a build without DPDK.
#include "lnd/net/dpdk/eal.h"

namespace ulnet::dpdk {

Eal::Eal(std::vector<std::string> arguments, unsigned workers)
    : arguments_(std::move(arguments)), worker_count_(workers) {}

Result<std::unique_ptr<Eal>> Eal::start(const EalConfig&) {
  return fail(ENOTSUP, "this program was built without DPDK (libdpdk-dev); sockets work without it");
}

Eal::~Eal() = default;

Result<void> Eal::launch(unsigned worker, int (*)(void*), void*) {
  return fail(ENOTSUP, "this program was built without DPDK", worker);
}

void Eal::join(unsigned) {}

}  // namespace ulnet::dpdk
