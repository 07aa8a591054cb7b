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
    if (silent_conn_ != 0) {
      silent_->control().disconnect(silent_conn_, now);
      silent_->control().destroy(silent_conn_, now);
    }
    EXPECT_EQ(net_.conns(), 0u) << "a connection was not destroyed";
    nodes_.clear();
  }
  rc::Provider& node(unsigned index) override { return *nodes_[index]; }
  rc::IpAddress address(unsigned index) const override { return rc::IpAddress::of_v4(0x0A000001 + index); }
  void cut() override { net_.cut(address(0), address(1)); }
  void silent_request() override {
    silent_ = net_.make_node({address(2)}, 1);
    silent_conn_ =
        *silent_->control().dial({.local = address(2), .remote = {address(1), kPort}, .needs = usual_needs()}, now);
    rc::Event event;
    while (silent_->control().poll({&event, 1}, now) == 0) pass();
    ASSERT_EQ(event.kind, rc::EventKind::kReady);
    silent_->control().proceed(silent_conn_, data_of("hello"), now);
    (void)silent_->control().poll({&event, 1}, pass());
    net_.cut(address(1), address(2));
  }
  Instant pass() override { return now += 1ms; }

 private:
  rc::sim::Net net_;
  std::vector<std::unique_ptr<rc::Provider>> nodes_;
  std::unique_ptr<rc::Provider> silent_;
  rc::ConnId silent_conn_ = 0;
};

}  // namespace

std::unique_ptr<World> make_world() {
  return std::make_unique<SimWorld>(1);
}

}  // namespace ulnet::test
