// Text forms of nets and NIDs: docs/wire/lnet.md §1.3.
#include "dataplane/base/nid_text.h"

#include <gtest/gtest.h>

namespace ulnet {
namespace {

// Goal: printed text is read back, and is in the canonical form.
TEST(NidText, round_trip) {
  for (const char* text :
       {"10.0.0.1@tcp", "10.0.0.1@tcp65535", "192.168.122.10@o2ib1", "fd00::1@tcp", "fd00:10::2@o2ib3", "7@gni",
        "4294967295@ptlf2", "0@lo", "1.2.3.4@gip", "5@kfi9", "9@bxi3f1", "10.1.1.1@efa", "<?>", "1f:2:3@<99:7>",
        "a@<99:0>", "1:2:3:4@<13:0>", "5@<9:0>", "5@<17:3>"}) {
    const auto nid = nid_parse(text);
    ASSERT_TRUE(nid) << text << ": " << nid.error().what;
    EXPECT_EQ(nid_text(*nid), text);
  }
}

// Goal: other spellings mean the canonical one.
TEST(NidText, other_spellings) {
  const std::pair<const char*, const char*> cases[] = {
      {"10.0.0.1", "10.0.0.1@tcp"},       {"fd00::1", "fd00::1@tcp"},
      {"10.0.0.1@tcp0", "10.0.0.1@tcp"},  {"0x10@gni", "16@gni"},
      {"0X1f@gni1", "31@gni1"},           {"*", "<?>"},
      {"10.0.0.1@o2ib", "10.0.0.1@o2ib"}, {"FD00:0:0::1@tcp", "fd00::1@tcp"},
      {"a@<2:0>", "0.0.0.10@tcp"}};
  for (const auto& [text, canonical] : cases) {
    const auto nid = nid_parse(text);
    ASSERT_TRUE(nid) << text << ": " << nid.error().what;
    EXPECT_EQ(nid_text(*nid), canonical);
  }
}

// Goal: a text that is no NID or net is refused with EINVAL and a sentence, and never read as another NID.
TEST(NidText, refused) {
  for (const char* text : {"",
                           "@",
                           "@tcp",
                           "10.0.0@tcp",
                           "10.0.0.256@tcp",
                           "10.0.0.1@",
                           "10.0.0.1@foo",
                           "10.0.0.1@tcp65536",
                           "10.0.0.1@tcp-1",
                           "10.0.0.1@tcp1x",
                           "10.0.0.1 @tcp",
                           "10.0.0.1@@tcp",
                           "fd00::1@gip",
                           "7@tcp",
                           "10.0.0.1@gni",
                           "0x@gni",
                           "-1@gni",
                           "1@lo",
                           "0@lo1",
                           "0@lo0",
                           "4294967296@gni",
                           "1:2:3:4:5@<99:0>",
                           "1@<256:0>",
                           "1@<99>",
                           "1@<255:0>",
                           "g@<99:0>"}) {
    const auto nid = nid_parse(text);
    ASSERT_FALSE(nid) << text << " became " << nid_text(*nid);
    EXPECT_EQ(nid.error().code, -EINVAL);
    EXPECT_STRNE(nid.error().what, "");
  }
  for (const char* text : {"", "*", "tc", "1tcp", "tcp 1", "lo1", "tcp1.0", "<1:2", "TCP"})
    EXPECT_FALSE(net_parse(text)) << text;
}

// Goal: nets, both ways.
TEST(NidText, nets) {
  EXPECT_EQ(net_parse("tcp0").value(), Net::of(NetType::kTcp, 0));
  EXPECT_EQ(net_parse("o2ib12").value(), Net::of(NetType::kO2ib, 12));
  EXPECT_EQ(net_text(Net::of(NetType::kTcp, 0)), "tcp");
  EXPECT_EQ(net_text(Net::of(NetType::kBxi3f, 3)), "bxi3f3");
  EXPECT_EQ(net_text(Net::of(NetType(99), 3)), "<99:3>");
  EXPECT_EQ(net_parse("<99:3>").value(), Net::of(NetType(99), 3));
  EXPECT_EQ(net_text(kAnyNet), "*");
}

}  // namespace
}  // namespace ulnet
