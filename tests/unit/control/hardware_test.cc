// Which interfaces are hardware. The machine's own ones, since /sys cannot be made up.
#include <gtest/gtest.h>

#include <filesystem>

#include "lnd/net/kernel/hardware_ctl.h"

namespace ulnet {
namespace {

TEST(Hardware, interfaces_of_this_machine) {
  EXPECT_FALSE(is_hardware("lo")) << "its packets stay on the machine";
  for (const char* none : {"", "no-such-interface", "..", "../../kernel", ":1"})
    EXPECT_FALSE(is_hardware(none)) << none;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/net", missing)) {
    const std::string name = entry.path().filename();
    if (!std::filesystem::exists(entry.path() / "device", missing)) continue;
    EXPECT_TRUE(is_hardware(name)) << name;
    EXPECT_TRUE(is_hardware(name + ":1")) << "an alias of " << name;
  }
}

}  // namespace
}  // namespace ulnet
