// The world of the verbs provider: two nodes at one port of a real RDMA device, whose address ULNET_RC_ADDRESS is.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "dataplane/host/clock.h"
#include "lnd/net/packet/net_address_text.h"
#include "lnd/rc/verbs/verbs.h"
#include "tests/unit/rc/world.h"

namespace ulnet::test {
namespace {

rc::IpAddress address_of_test() {
  const char* text = std::getenv("ULNET_RC_ADDRESS");
  const auto parsed = dpdk::ip_parse(text == nullptr ? "" : text);
  if (!parsed) {
    std::fputs("ULNET_RC_ADDRESS has to be the address of an RDMA device\n", stderr);
    std::exit(2);
  }
  return *parsed;
}

class VerbsWorld final : public World {
 public:
  VerbsWorld() : address_(address_of_test()) {
    now = clock_now();
    for (auto& node : nodes_) node = std::move(*rc::verbs::open_provider(1));
  }
  rc::Provider& node(unsigned index) override { return *nodes_[index]; }
  rc::IpAddress address(unsigned) const override { return address_; }
  void cut() override { FAIL() << "not possible"; }
  bool can_cut() const override { return false; }
  bool windows_have_bounds() const override { return false; }  // rdma_rxe of Linux 6.1
  Instant pass() override {
    ::usleep(50);
    return now = clock_now();
  }

 private:
  const rc::IpAddress address_;
  std::unique_ptr<rc::Provider> nodes_[2];
};

}  // namespace

std::unique_ptr<World> make_world() {
  return std::make_unique<VerbsWorld>();
}

}  // namespace ulnet::test
