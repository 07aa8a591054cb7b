// Lists and ranges of a command line.
#include <gtest/gtest.h>

#include "config/ranges.h"
#include "dataplane/base/nid_text.h"

namespace ulnet::config {
namespace {

using Texts = std::vector<std::string>;

TEST(ConfigRanges, expand) {
  EXPECT_EQ(range_expand("tcp"), Texts{"tcp"});
  EXPECT_EQ(range_expand("tcp[1-3]"), (Texts{"tcp1", "tcp2", "tcp3"}));
  EXPECT_EQ(range_expand("10.1.1.[2-8/2]@tcp"),
            (Texts{"10.1.1.2@tcp", "10.1.1.4@tcp", "10.1.1.6@tcp", "10.1.1.8@tcp"}));
  EXPECT_EQ(range_expand("[1,5-6].[8-9]"), (Texts{"1.8", "1.9", "5.8", "5.9", "6.8", "6.9"}));
  EXPECT_EQ(list_expand("1.1.1.[2-5/2]@tcp, 2.2.2.2@tcp"), (Texts{"1.1.1.2@tcp", "1.1.1.4@tcp", "2.2.2.2@tcp"}));
  EXPECT_EQ(range_expand("[0-4095]")->size(), 4096u);
}

TEST(ConfigRanges, mistakes) {
  auto error = [](const char* text) {
    auto expanded = list_expand(text);
    return expanded ? std::string("none") : expanded.error();
  };
  EXPECT_EQ(error("tcp[1-3"), "'tcp[1-3' has a bracket that is not closed");
  EXPECT_EQ(error("tcp[3-1]"), "in '[3-1]' the start of a range is above its end");
  EXPECT_EQ(error("tcp[]"), "'[]' is not a list of numbers and ranges such as [1-5,8] or [2-8/2]");
  EXPECT_EQ(error("tcp[1-5/0]"), "'[1-5/0]' is not a list of numbers and ranges such as [1-5,8] or [2-8/2]");
  EXPECT_EQ(error("a,,b"), "'a,,b' has an empty element");
  EXPECT_EQ(error(""), "'' has an empty element");
  EXPECT_EQ(error("[0-4096]"), "'[0-4096]' stands for more than 4096");
  EXPECT_EQ(error("[0-99].[0-99]"), "a range that stands for more than 4096");
  EXPECT_EQ(error("[0-4294967295]"), "'[0-4294967295]' stands for more than 4096");
  EXPECT_EQ(error("[0-4294967295/4294967295]"), "none");
  EXPECT_EQ(error("[0-4095],x"), "a list that stands for more than 4096");
  EXPECT_FALSE(range_expand(std::string(1000, 'x')).has_value());
}

TEST(ConfigRanges, nids_and_nets) {
  auto nids = nids_parse("10.0.0.[1-2]@tcp1,fd00::1@tcp");
  ASSERT_TRUE(nids.has_value());
  ASSERT_EQ(nids->size(), 3u);
  EXPECT_EQ(nid_text((*nids)[1]), "10.0.0.2@tcp1");
  EXPECT_EQ(nids_parse("10.0.0.[254-256]@tcp").error(), "'10.0.0.256@tcp' is not a NID such as 10.0.0.1@tcp");
  EXPECT_FALSE(nids_parse("*").has_value());
  EXPECT_EQ(nets_parse("tcp[1-2]")->size(), 2u);
  EXPECT_EQ(nets_parse("tpc").error(), "'tpc' is not a network such as tcp, tcp1 or o2ib3");
}

TEST(ConfigRanges, interfaces) {
  auto interfaces = interfaces_parse("eth0[0,2],eth1");
  ASSERT_TRUE(interfaces.has_value());
  EXPECT_EQ(*interfaces, (std::vector<InterfaceSpec>{{"eth0", {0, 2}}, {"eth1", {}}}));
  EXPECT_EQ(interface_text((*interfaces)[0]), "eth0[0,2]");
  EXPECT_EQ(interfaces_parse("eth0,eth0").error(), "interface 'eth0' is listed twice");
  EXPECT_EQ(interfaces_parse("eth0[a]").error(), "'[a]' is not a list of CPTs such as [0,1]");
  EXPECT_EQ(interfaces_parse("averyveryverylongname").error(),
            "'averyveryverylongname' is not the name of an interface");
  EXPECT_EQ(interfaces_parse("[0]").error(), "'[0]' is not the name of an interface");
}

TEST(ConfigRanges, cpts_cores_and_patterns) {
  EXPECT_EQ(cpt_list_parse("[0,1]"), (std::vector<uint16_t>{0, 1}));
  EXPECT_EQ(cpt_list_parse("0-3"), (std::vector<uint16_t>{0, 1, 2, 3}));
  EXPECT_EQ(cpt_list_text({0, 1}), "[0,1]");
  EXPECT_FALSE(cpt_list_parse("[1024]").has_value());
  EXPECT_EQ(core_list_parse("8,2-4,3"), (std::vector<uint16_t>{2, 3, 4, 8}));
  for (const char* good : {"192.168.0.*", "*.*.*.*", "10.[1-3].0.[2-8/2]", "1.2.3.[4,6]"})
    EXPECT_TRUE(ip_pattern_valid(good)) << good;
  for (const char* bad : {"", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.[1-256]", "1.2.3.a", "1.2.3.", "1..2.3",
                          "1.2.3.4-5", "1.2.3.[4", "****"}) {
    EXPECT_FALSE(ip_pattern_valid(bad)) << bad;
  }
}

}  // namespace
}  // namespace ulnet::config
