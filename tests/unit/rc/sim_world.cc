// The world of the simulated provider.
#include "lnd/rc/sim/net.h"
#include "tests/unit/rc/world.h"

namespace ulnet::test {
namespace {

class SimWorld final : public World {
 public:
  explicit SimWorld(uint64_t seed) : net_(seed) {
    for (unsigned i = 0; i < 2; ++i) nodes_.push_back(net_.make_node({address(i)}, 1));
  }
  ~SimWorld() override {
    EXPECT_EQ(net_.conns(), 0u) << "a connection was not destroyed";
    nodes_.clear();
  }
  rc::Provider& node(unsigned index) override { return *nodes_[index]; }
  rc::IpAddress address(unsigned index) const override { return rc::IpAddress::of_v4(0x0A000001 + index); }
  void cut() override { net_.cut(address(0), address(1)); }
  Instant pass() override { return now += 1ms; }

 private:
  rc::sim::Net net_;
  std::vector<std::unique_ptr<rc::Provider>> nodes_;
};

}  // namespace

std::unique_ptr<World> make_world() {
  return std::make_unique<SimWorld>(1);
}

}  // namespace ulnet::test
