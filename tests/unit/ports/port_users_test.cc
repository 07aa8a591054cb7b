// Ports that RoCE uses, opened together: if one of them fails, all are closed again, and the error names it.
#include <thread>

#include "lnd/rc/roce/ports_ctl.h"
#include "tests/unit/ports/port_host.h"
#include "tools/ulnetd/ports/ports.h"

namespace ulnet {
namespace {

using rc::roce::RoceProvider;

constexpr unsigned kWorkers = 2;  ///< of port_host()

/// Counts the queues that workers have given it. The rest is that of the real provider.
class CountingProvider final : public RoceProvider {
 public:
  rc::Control& control() override { return real_->control(); }
  rc::Worker& worker(WorkerId id) override { return real_->worker(id); }
  Result<uint8_t> add_port(rc::roce::PortFacts facts) override { return real_->add_port(std::move(facts)); }
  void set_link(uint8_t port, const rc::roce::PortLink& link) override { real_->set_link(port, link); }
  void attach(uint8_t port, WorkerId worker, rc::roce::WorkerPort& queue) override {
    real_->attach(port, worker, queue);
    ++attached;
  }
  void detach(uint8_t port, WorkerId worker) override {
    real_->detach(port, worker);
    --attached;
  }
  size_t connections() const override { return real_->connections(); }
  uint64_t count(uint8_t port, rc::roce::Count which) const override { return real_->count(port, which); }

  std::atomic<unsigned> attached{0};  // workers: w, control: r

 private:
  std::unique_ptr<RoceProvider> real_ = *rc::roce::open_provider({.workers = kWorkers, .seed = 1});
};

/// RoCE, which opens each port after the workers have all queues of the ports before it.
class PatientUser final : public PortUser {
 public:
  explicit PatientUser(CountingProvider& provider) : provider_(provider), roce_(provider) {}
  PortAppMaker opening(const dpdk::PortConfig& config) override {
    if (!turn_until([] { std::this_thread::yield(); }, [&] { return provider_.attached == kWorkers * opened_; }))
      ADD_FAILURE() << "the workers did not take the queues: " << provider_.attached;
    attached_before = provider_.attached;
    PortAppMaker maker = roce_.opening(config);
    if (config.name != takes_udp_port) return maker;
    return [this, maker](unsigned queue, dpdk::PortQueue& port_queue, dpdk::Stack& stack, const dpdk::Mac& mac) {
      if (queue == 1) (void)stack.udp_bind(4791, other_);
      return maker(queue, port_queue, stack, mac);
    };
  }
  Result<void> opened(const dpdk::Port& port, const dpdk::LinkState& link) override {
    auto done = roce_.opened(port, link);
    if (done) ++opened_;
    return done;
  }
  void link_changed(const std::string& name, const dpdk::LinkState& link) override { roce_.link_changed(name, link); }
  std::vector<Count> counts(const std::string& name) const override { return roce_.counts(name); }
  const char* protocol() const override { return roce_.protocol(); }

  std::string takes_udp_port;    ///< name of the port on whose second queue something else has UDP port 4791
  unsigned attached_before = 0;  ///< queues that workers had when the last port was opened

 private:
  struct Other final : dpdk::UdpSink {
    void udp_received(std::span<dpdk::Datagram>, Instant) override {}
  };
  CountingProvider& provider_;
  rc::roce::RocePorts roce_;
  unsigned opened_ = 0;
  Other other_;
};

class PortUsers : public testing::Test {
 protected:
  static config::DeviceConfig device(const std::string& name, const std::string& address) {
    config::DeviceConfig device;
    device.name = name;
    device.device = "null";
    device.addresses = {address};
    device.in_flight = 64;
    device.rx_depth = device.tx_depth = 64;
    return device;
  }
  /// The error of opening them; empty if there is none.
  std::string open(const std::vector<config::DeviceConfig>& list) {
    Ports::Deps deps;
    deps.log = [](const std::string&) {};
    deps.users = {&user};
    auto opened = Ports::open(list, port_host(), std::move(deps));
    if (!opened) return opened.error().what;
    ports = std::move(*opened);
    return "";
  }
  /// The second port fails: the first had its queues, and has been closed.
  void expect_closed() {
    EXPECT_EQ(ports, nullptr);
    EXPECT_EQ(user.attached_before, kWorkers);
    EXPECT_EQ(provider.attached, 0u);
  }

  CountingProvider provider;
  PatientUser user{provider};
  std::unique_ptr<Ports> ports;
};

TEST_F(PortUsers, the_second_device_does_not_open) {
  auto second = device("rail1", "10.0.1.1/24");
  second.device = "memif,role=client,socket=" + Folder().path("none");
  const std::string error = open({device("rail0", "10.0.0.1/24"), second});
  EXPECT_TRUE(error.starts_with("port rail1: memif's client finds no server at its socket")) << error;
  expect_closed();
}

TEST_F(PortUsers, the_second_address_is_taken) {
  EXPECT_EQ("port rail1: another port has the same IP address",
            open({device("rail0", "10.0.0.1/24"), device("rail1", "10.0.0.1/24")}));
  expect_closed();
}

// Goal: the first queue of the second port was made already.
TEST_F(PortUsers, a_udp_port_of_the_second_is_taken) {
  user.takes_udp_port = "rail1";
  EXPECT_EQ("port rail1: RoCE needs UDP port 4791 of the packet port, which is bound to something else",
            open({device("rail0", "10.0.0.1/24"), device("rail1", "10.0.1.1/24")}));
  expect_closed();
}

TEST_F(PortUsers, both_open) {
  EXPECT_EQ("", open({device("rail0", "10.0.0.1/24"), device("rail1", "10.0.1.1/24")}));
  ASSERT_NE(ports, nullptr);
  ASSERT_TRUE(turn_until([] { std::this_thread::yield(); }, [&] { return provider.attached == 2 * kWorkers; }));
  ports->close();
  EXPECT_EQ(provider.attached, 0u);
}

}  // namespace
}  // namespace ulnet
