// The packet ports under `ulnet: devices:`.
#include <gtest/gtest.h>

#include "config/devices.h"
#include "config/load.h"
#include "config/schema.h"

namespace ulnet::config {
namespace {

/// All problems of importing `yaml`, one per line.
std::string problems_of(const std::string& yaml) {
  std::string out;
  for (const Problem& problem : load_text(yaml, "f").errors) out += problem_text(problem) + "\n";
  return out;
}

TEST(ConfigDevices, values) {
  const std::string yaml =
      "ulnet:\n  devices:\n    - name: rail0\n      device: memif,role=server\n      addresses: [10.0.0.1/24, "
      "fd00::1/64]\n"
      "      gateways: 10.0.0.254\n      mtu: 9000\n      vlan: 5\n      pcp: 3\n      neighbours:\n"
      "        - {address: 10.0.0.2, mac: '02:00:00:00:00:02'}\n    - {name: rail1, device: 0000:03:00.0}\n";
  ASSERT_EQ("", problems_of(yaml));
  const auto loaded = load_text(yaml, "f");
  ASSERT_EQ(1u, loaded.changes.size());
  const auto devices = devices_of(std::get<UlnetSet>(loaded.changes[0].change).value);
  ASSERT_TRUE(devices.has_value()) << devices.error();
  ASSERT_EQ(2u, devices->size());
  const DeviceConfig& first = devices->front();
  EXPECT_EQ("memif,role=server", first.device);
  EXPECT_EQ((std::vector<std::string>{"10.0.0.1/24", "fd00::1/64"}), first.addresses);
  EXPECT_EQ(std::vector<std::string>{"10.0.0.254"}, first.gateways);
  EXPECT_EQ(9000, first.mtu);
  EXPECT_EQ(5, first.vlan);
  EXPECT_EQ(3, first.pcp);
  EXPECT_EQ((std::vector<DeviceConfig::Neighbour>{{"10.0.0.2", "02:00:00:00:00:02"}}), first.neighbours);
  DeviceConfig second;
  second.name = "rail1";
  second.device = "0000:03:00.0";
  EXPECT_EQ(second, devices->back());
}

TEST(ConfigDevices, mistakes_are_reported_with_their_place) {
  const auto of = [](const char* item) { return problems_of(std::string("ulnet:\n  devices:\n    - ") + item + "\n"); };
  EXPECT_NE(std::string::npos, of("{name: a}").find("ulnet.devices[0]: 'device' is missing"));
  EXPECT_NE(std::string::npos, of("{name: a, device: tap, mtu: 100}").find("mtu: '100' is out of range; allowed: "));
  EXPECT_NE(std::string::npos, of("{name: a, device: tap, mtus: 1}").find("unknown key; did you mean 'mtu'?"));
  EXPECT_NE(std::string::npos, of("tap").find("ulnet.devices[0]: "));
}

TEST(ConfigDevices, lists_that_no_import_has_checked) {
  EXPECT_TRUE(devices_of(Doc{})->empty());
  EXPECT_EQ("devices: is not a list", devices_of(Doc{"tap"}).error());
  Doc list = Doc::list();
  Doc& item = list.push(Doc::map());
  item.set("name", "a");
  EXPECT_EQ("devices[0]: 'name' and 'device' are needed", devices_of(list).error());
  item.set("vlan", 5000);
  EXPECT_EQ("devices[0].vlan: '5000' is out of range; allowed: 0..4094", devices_of(list).error());
}

// Goal: defaults in the struct are those that the reference shows.
TEST(ConfigDevices, defaults) {
  const DeviceConfig device;
  for (const auto& [key, value] : std::initializer_list<std::pair<const char*, int64_t>>{{"mtu", device.mtu},
                                                                                         {"vlan", device.vlan},
                                                                                         {"pcp", device.pcp},
                                                                                         {"queues", device.queues},
                                                                                         {"rx_depth", device.rx_depth},
                                                                                         {"tx_depth", device.tx_depth}})
    EXPECT_EQ(std::to_string(value), field_default(*field_find(std::string("ulnet.devices.") + key))) << key;
}

}  // namespace
}  // namespace ulnet::config
