// The interfaces of a node with packet ports, as o2ib and other networks find them by name and by address.
#include "tools/ulnetd/ports/port_devices.h"

#include "tests/unit/ports/port_host.h"

namespace ulnet {
namespace {

using Interface = Devices::Interface;

constexpr Net kTcp0 = Net::of(NetType::kTcp, 0), kO2ib5 = Net::of(NetType::kO2ib, 5);
constexpr std::array<uint8_t, 16> kSix{0xFD, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

/// "eth0" with 192.168.0.1, and an interface that has the name of a port.
class System final : public Devices {
 public:
  std::vector<Interface> list() override { return {one("eth0", 0xC0A80001), one("rail0", 0xC0A80002)}; }
  Result<Interface> find(const std::string& name, NetType) override {
    for (Interface& each : list())
      if (each.name == name) return std::move(each);
    return fail(ENODEV, "the system has none");
  }
  Result<Interface> find_address(const Nid& nid) override {
    for (Interface& each : list())
      if (each.addresses[0].addr == nid.addr) return std::move(each);
    return fail(ENODEV, "the system has none");
  }
  bool changed() override { return true; }
  int wait_fd() override { return 77; }
  bool reaches(const Nid&, const Nid&) override { return system_reaches; }
  std::vector<std::string> advice(const Nid&) override { return {"set this"}; }

  bool system_reaches = false;

 private:
  static Interface one(const char* name, uint32_t address) {
    Interface interface;
    interface.name = name;
    interface.addresses = {Nid::v4(kTcp0, address)};
    return interface;
  }
};

/// "rail0" has a link and both kinds of addresses. "rail1" is memif without another process, so it has no link.
class PortDevicesTest : public testing::Test {
 protected:
  PortDevicesTest() {
    auto own = std::make_unique<System>();
    system = own.get();
    devices = std::make_unique<PortDevices>(std::move(own));
    std::vector<config::DeviceConfig> list(2);
    list[0].name = "rail0";
    list[0].device = "null";
    list[0].addresses = {"fd09::1/64", "10.0.0.1/24"};
    list[1].name = "rail1";
    list[1].device = "memif,role=server,socket=" + folder.path("rail1");
    list[1].addresses = {"10.0.1.1/24"};
    for (config::DeviceConfig& one : list) {
      one.in_flight = 64;
      one.rx_depth = one.tx_depth = 64;
    }
    Ports::Deps deps;
    deps.log = [](const std::string&) {};
    auto opened = Ports::open(list, port_host(), std::move(deps));
    EXPECT_TRUE(opened.has_value()) << opened.error().what;
    if (opened) ports = std::move(*opened);
    devices->set_ports(ports.get());
  }
  /// The name that a network of this type finds, or the error.
  std::string found(const std::string& name, NetType type) {
    const auto interface = devices->find(name, type);
    if (!interface) return interface.error().what;
    return interface->name + (interface->addresses.size() == 2 ? ", a port" : "");
  }
  std::string found(const Nid& nid) {
    const auto interface = devices->find_address(nid);
    return interface ? interface->name : interface.error().what;
  }

  const Nid port4 = Nid::v4(kO2ib5, 0x0A000001), port6 = Nid::v6(kO2ib5, kSix), down = Nid::v4(kO2ib5, 0x0A000101),
            eth0 = Nid::v4(kO2ib5, 0xC0A80001), far = Nid::v4(kO2ib5, 0x0A0000FE);
  Folder folder;
  System* system = nullptr;
  std::unique_ptr<PortDevices> devices;
  std::unique_ptr<Ports> ports;
};

TEST_F(PortDevicesTest, by_name) {
  EXPECT_EQ("rail0, a port", found("rail0", NetType::kO2ib));
  EXPECT_EQ("rail0", found("rail0", NetType::kTcp)) << "the system's";
  EXPECT_EQ("rail1", found("rail1", NetType::kO2ib));
  EXPECT_EQ("this interface is a packet port: only o2ib networks use ports", found("rail1", NetType::kTcp));
  EXPECT_EQ("eth0", found("eth0", NetType::kO2ib));
  EXPECT_EQ("the system has none", found("rail2", NetType::kO2ib));
  const auto rail0 = devices->find("rail0", NetType::kO2ib);
  EXPECT_EQ(port4.addr, rail0->addresses.at(0).addr) << "IPv4 first";
  EXPECT_EQ(port6.addr, rail0->addresses.at(1).addr);
  EXPECT_TRUE(rail0->link_up);
  EXPECT_FALSE(devices->find("rail1", NetType::kO2ib)->link_up);
}

TEST_F(PortDevicesTest, by_address) {
  EXPECT_EQ("rail0", found(port4));
  EXPECT_EQ("rail0", found(port6));
  EXPECT_EQ("rail1", found(down));
  EXPECT_EQ("eth0", found(eth0));
  EXPECT_EQ("the system has none", found(far));
  // An IPv6 address that begins with the bytes of an IPv4 address is another one.
  std::array<uint8_t, 16> bytes{10, 0, 0, 1};
  EXPECT_EQ("the system has none", found(Nid::v6(kO2ib5, bytes)));
}

// Goal: whether packets of a port leave is a matter of its link. The system's routes and settings are for others.
TEST_F(PortDevicesTest, ways_of_a_port) {
  EXPECT_TRUE(devices->reaches(port4, far));
  EXPECT_TRUE(devices->reaches(port6, far));
  EXPECT_FALSE(devices->reaches(eth0, far));
  system->system_reaches = true;
  EXPECT_FALSE(devices->reaches(down, far));
  EXPECT_TRUE(devices->reaches(eth0, far));
  EXPECT_EQ(std::vector<std::string>{}, devices->advice(port4));
  EXPECT_EQ(std::vector<std::string>{"set this"}, devices->advice(eth0));
}

TEST_F(PortDevicesTest, the_rest_is_the_systems) {
  ASSERT_EQ(2u, devices->list().size()) << "no ports";
  EXPECT_EQ("eth0", devices->list()[0].name);
  EXPECT_TRUE(devices->changed());
  EXPECT_EQ(77, devices->wait_fd());
}

TEST_F(PortDevicesTest, without_ports) {
  devices->set_ports(nullptr);
  ports.reset();
  EXPECT_EQ("rail0", found("rail0", NetType::kO2ib)) << "the system's";
  EXPECT_EQ("the system has none", found("rail1", NetType::kO2ib));
  EXPECT_EQ("the system has none", found(port4));
  EXPECT_FALSE(devices->reaches(port4, far));
  EXPECT_EQ(std::vector<std::string>{"set this"}, devices->advice(port4));
}

}  // namespace
}  // namespace ulnet
