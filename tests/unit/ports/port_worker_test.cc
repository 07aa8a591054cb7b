// The sleep of a port's worker where no interrupt can wake it: naps that grow while they find no work.
#include "lnd/net/dpdk/port_worker.h"

#include "tests/unit/ports/port_host.h"

namespace ulnet {
namespace {

/// Finds work when the test sets some.
class Now final : public PortApp {
 public:
  explicit Now(unsigned& work) : work_(work) {}
  unsigned turn(Instant) override { return std::exchange(work_, 0); }

 private:
  unsigned& work_;
};

// Goal: a turn without work does not lengthen the nap. Each nap that ends without work does, up to a millisecond. Work
// shortens it again.
TEST(PortWorker, naps_grow_while_they_find_no_work) {
  dpdk::PortConfig config;
  config.name = "nap";
  config.device = "ring";
  config.in_flight = 64;
  config.rx_depth = config.tx_depth = 64;
  auto port = dpdk::Port::open(config, 1, port_index());
  ASSERT_TRUE(port.has_value()) << port.error().what;
  unsigned work = 0;
  const auto app = [&](unsigned, dpdk::PortQueue&, dpdk::Stack&, const dpdk::Mac&) -> Result<std::unique_ptr<PortApp>> {
    return std::make_unique<Now>(work);
  };
  auto made = PortWorker::make(app, **port, 0, nullptr);
  ASSERT_TRUE(made.has_value());
  PortWorker& worker = **made;
  (*port)->start();
  Instant now = kNever + 1s;
  const auto nap = [&] { return worker.next_deadline() - now; };
  for (unsigned i = 0; i < 100; ++i) worker.turn(now += 1us);  // spins before it sleeps
  for (const Duration expected : {50us, 100us, 200us, 400us, 800us, 1000us, 1000us}) {
    EXPECT_EQ(expected, nap());
    worker.note_asleep();
    worker.note_awake({});
    worker.turn(now += expected);
  }
  work = 1;
  worker.turn(now);
  EXPECT_EQ(Duration(50us), nap());
  (*port)->stop_begin();
  worker.turn(now);
  worker.finish(now);
  EXPECT_TRUE((*port)->packets_conserved());
}

// Goal: a worker is about to sleep while control starts or stops its queue. The worker does not sleep: control only
// wakes workers that already sleep, and a stopped queue wakes no worker.
TEST(PortWorker, stays_awake_for_a_request_of_control) {
  dpdk::PortConfig config;
  config.name = "asked";
  config.device = "ring";
  config.in_flight = 64;
  config.rx_depth = config.tx_depth = 64;
  auto port = dpdk::Port::open(config, 1, port_index());
  ASSERT_TRUE(port.has_value()) << port.error().what;
  auto made = PortWorker::make({}, **port, 0, nullptr);
  ASSERT_TRUE(made.has_value());
  PortWorker& worker = **made;
  Instant now = kNever + 1s;
  worker.turn(now);
  EXPECT_FALSE(worker.pending());
  (*port)->start();
  EXPECT_TRUE(worker.pending());
  worker.turn(now);
  EXPECT_FALSE(worker.pending());
  (*port)->stop_begin();
  EXPECT_TRUE(worker.pending());
  worker.turn(now);
  EXPECT_FALSE(worker.pending());
  worker.finish(now);
}

}  // namespace
}  // namespace ulnet
