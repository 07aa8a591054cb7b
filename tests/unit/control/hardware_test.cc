// Which interfaces are hardware: in trees like /sys/class/net, and on this machine.
#include <gtest/gtest.h>

#include <fstream>

#include "lnd/net/kernel/hardware_ctl.h"
#include "tests/own_netns.h"

namespace ulnet {
namespace {

/// A tree of interfaces in a folder of its own.
class Tree : public testing::Test {
 protected:
  ~Tree() override { std::filesystem::remove_all(root); }
  void add(const std::string& name, const std::string& type, const std::vector<std::string>& lower = {}) {
    std::filesystem::create_directories(root / name);
    if (type == "hardware") std::filesystem::create_directories(root / name / "device");
    std::ofstream(root / name / "uevent") << "INTERFACE=" << name << "\nDEVTYPE=" << type << "\n";
    for (const std::string& below : lower) std::filesystem::create_directories(root / name / ("lower_" + below));
  }
  [[nodiscard]] bool hardware(const std::string& name) const { return is_hardware_in(root, name); }
  const std::filesystem::path root = std::filesystem::temp_directory_path() / ("tree-" + std::to_string(getpid()));
};

TEST_F(Tree, devices_of_their_own_and_what_lies_over_them) {
  add("eth0", "hardware");
  add("eth1", "hardware");
  add("veth0", "veth");
  add("br0", "bridge", {"eth0"});
  add("bond0", "bond", {"eth0", "eth1"});
  add("bond1", "bond", {"eth0", "veth0"});
  add("bond2", "bond");
  add("vlan0", "vlan", {"bond0"});
  add("vlan1", "vlan", {"br0"});
  add("vlan2", "vlan", {"vlan2"});
  add("vlan3", "vlan", {"gone"});
  for (const char* yes : {"eth0", "eth1", "bond0", "vlan0"}) EXPECT_TRUE(hardware(yes)) << yes;
  for (const char* no : {"veth0", "br0", "bond1", "bond2", "vlan1", "vlan2", "vlan3", "gone", "", "..", "eth0/../eth1"})
    EXPECT_FALSE(hardware(no)) << no;
}

TEST(Hardware, interfaces_of_this_machine) {
  EXPECT_FALSE(is_hardware("lo")) << "its packets stay on the machine";
  for (const char* none : {"", "no-such-interface", "..", "../../kernel", ":1", "a-name-that-is-too-long"})
    EXPECT_FALSE(is_hardware(none)) << none;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/net", missing)) {
    const std::string name = entry.path().filename();
    if (!std::filesystem::exists(entry.path() / "device", missing)) continue;
    EXPECT_TRUE(is_hardware(name)) << name;
    EXPECT_TRUE(is_hardware(name + ":1")) << "an alias of " << name;
  }
}

// Goal: a namespace without this hardware, but with the /sys of another one, has no hardware.
TEST(Hardware, of_another_namespace) {
  const bool allowed = test::in_own_netns([] {
    std::error_code missing;
    for (const auto& entry : std::filesystem::directory_iterator("/sys/class/net", missing))
      EXPECT_FALSE(is_hardware(entry.path().filename())) << entry.path();
  });
  if (!allowed) GTEST_SKIP() << "no network namespaces";
}

}  // namespace
}  // namespace ulnet
