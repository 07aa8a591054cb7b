// Selection policies: the descriptors, and the NIDs that they match.
#include "config/apply.h"
#include "config/export.h"
#include "config/ranges.h"
#include "config/udsp.h"
#include "dataplane/base/nid_text.h"
#include "dataplane/base/rng.h"
#include "tests/unit/config/golden.h"

namespace ulnet::config {
namespace {

UdspPattern pattern(const std::string& text) {
  auto parsed = udsp_parse(text);
  EXPECT_TRUE(parsed.has_value()) << text << ": " << (parsed ? "" : parsed.error().what);
  return parsed ? *parsed : UdspPattern{};
}

/// The NIDs of `nids` (blanks between them) that match, in their order.
std::string matches_of(const std::string& text, const std::string& nids) {
  const UdspPattern one = pattern(text);
  std::istringstream words(nids);
  std::string out;
  for (std::string word; words >> word;)
    if (one.matches(nid_parse(word).value())) out += (out.empty() ? "" : " ") + word;
  return out;
}

struct Row {
  const char* text;
  bool is_net;
  const char* yes;  ///< NIDs that match
  const char* no;   ///< NIDs that do not match
};

/// Each form of the grammar. The first eight texts are those of the documents.
const Row kRows[] = {
    {"*@o2ib1", true, "10.0.0.1@o2ib1 fd00::1@o2ib1", "10.0.0.1@o2ib 10.0.0.1@tcp1"},
    {"10.10.10.2@o2ib1", false, "10.10.10.2@o2ib1", "10.10.10.3@o2ib1 10.10.10.2@o2ib 10.10.10.2@tcp1"},
    {"10.10.10.[5-8]@o2ib", false, "10.10.10.5@o2ib 10.10.10.8@o2ib", "10.10.10.4@o2ib 10.10.10.9@o2ib"},
    {"*.*.*.*@tcp1", false, "1.2.3.4@tcp1 fd00::1@tcp1", "1.2.3.4@tcp"},
    {"o2ib1", true, "10.0.0.1@o2ib1", "10.0.0.1@o2ib 10.0.0.1@o2ib11"},
    {"o2ib*", true, "10.0.0.1@o2ib 10.0.0.1@o2ib7 10.0.0.1@o2ib65535", "10.0.0.1@tcp 7@gni"},
    {"o2ib[1,2]", true, "10.0.0.1@o2ib1 10.0.0.1@o2ib2", "10.0.0.1@o2ib 10.0.0.1@o2ib3"},
    {"tcp[1-3]", true, "10.0.0.1@tcp1 10.0.0.1@tcp2 10.0.0.1@tcp3", "10.0.0.1@tcp 10.0.0.1@tcp4"},

    {"o2ib[2-8/2]", true, "10.0.0.1@o2ib2 10.0.0.1@o2ib8", "10.0.0.1@o2ib3 10.0.0.1@o2ib10"},
    {"tcp", true, "10.0.0.1@tcp fd00::1@tcp", "10.0.0.1@tcp1"},
    {"*@tcp*", true, "10.0.0.1@tcp9", "10.0.0.1@o2ib9"},
    {"tcp,o2ib[1-2], gni", true, "10.0.0.1@tcp 10.0.0.1@o2ib2 7@gni", "10.0.0.1@o2ib 7@gni1"},
    {"tcp1[0-1]", true, "10.0.0.1@tcp10 10.0.0.1@tcp11", "10.0.0.1@tcp1 10.0.0.1@tcp12"},
    {"<99:0>", true, "1f:2@<99:0> 7@<99:0>", "7@<99:1>"},
    {"10.1.1.1@tcp*", false, "10.1.1.1@tcp 10.1.1.1@tcp44", "10.1.1.2@tcp 10.1.1.1@o2ib"},
    {"10.1.1.1@tcp,o2ib", false, "10.1.1.1@tcp 10.1.1.1@o2ib", "10.1.1.2@o2ib"},

    {"10.*.1.*@tcp", false, "10.0.1.9@tcp 10.255.1.0@tcp", "10.0.2.9@tcp 11.0.1.9@tcp"},
    {"10.[2-8/2].*.*@tcp", false, "10.2.0.0@tcp 10.8.9.9@tcp", "10.3.0.0@tcp 10.10.0.0@tcp"},
    {"10.0.0.[1,9,4-6]@tcp", false, "10.0.0.1@tcp 10.0.0.5@tcp 10.0.0.9@tcp", "10.0.0.2@tcp 10.0.0.7@tcp"},
    {"10.1.0.0/16@tcp", false, "10.1.0.0@tcp 10.1.255.255@tcp", "10.0.255.255@tcp 10.2.0.0@tcp"},
    {"10.1.16.0/20@tcp", false, "10.1.16.0@tcp 10.1.31.255@tcp", "10.1.15.255@tcp 10.1.32.0@tcp"},
    {"10.1.1.1/32@tcp", false, "10.1.1.1@tcp", "10.1.1.0@tcp"},
    {"0.0.0.0/0@tcp", false, "255.255.255.255@tcp", "fd00::1@tcp"},
    {"10.1.1.1@gip", false, "10.1.1.1@gip", "10.1.1.2@gip"},

    {"fd00::1@tcp", false, "fd00::1@tcp", "fd00::2@tcp fd00::1@tcp1 0.0.0.1@tcp"},
    {"fd00::/64@tcp", false, "fd00::1@tcp fd00::ffff:0:0:1@tcp", "fd00:0:0:1::1@tcp 10.0.0.1@tcp"},
    {"fc00::/7@tcp", false, "fc00::1@tcp fdff::1@tcp", "fe00::1@tcp"},
    {"::/0@tcp", false, "fd00::1@tcp ::@tcp", "10.0.0.1@tcp"},
    {"fd00::[1-4]@tcp", false, "fd00::1@tcp fd00::4@tcp", "fd00::@tcp fd00::5@tcp fd00::1:1@tcp"},
    {"fd00::[1-f]@tcp", false, "fd00::a@tcp", "fd00::10@tcp"},
    {"fd00:*::[0-ff/2,a1]@o2ib", false, "fd00:7::fe@o2ib fd00::a1@o2ib", "fd00:7::ff@o2ib fd00:7:1::2@o2ib"},
    {"1:2:3:4:5:6:7:*@tcp", false, "1:2:3:4:5:6:7:8@tcp", "1:2:3:4:5:6:8:8@tcp"},
    {"*::@tcp", false, "7::@tcp", "7::1@tcp"},
    {"::ffff:10.0.0.1@tcp", false, "::ffff:a00:1@tcp", "10.0.0.1@tcp"},

    {"*@gni", true, "7@gni 4294967295@gni", "7@gni1"},
    {"*.*.*.*@gni", false, "7@gni", "7@gni1"},
    {"7@gni1", false, "7@gni1", "8@gni1 7@gni"},
    {"0x1f@ptlf", false, "31@ptlf", "1@ptlf"},
    {"[2-8/2,100]@kfi", false, "2@kfi 8@kfi 100@kfi", "3@kfi 10@kfi"},
    {"[1-4294967295]@bxi3f2", false, "1@bxi3f2 4294967295@bxi3f2", "0@bxi3f2"},
    {"1f:2@<99:0>", false, "1f:2@<99:0>", "1f:3@<99:0> 1f@<99:0>"},
};

TEST(ConfigUdsp, a_descriptor_matches_its_nids_and_no_others) {
  for (const Row& row : kRows) {
    EXPECT_EQ(matches_of(row.text, row.yes), row.yes) << row.text;
    EXPECT_EQ(matches_of(row.text, row.no), "") << row.text;
    EXPECT_EQ(pattern(row.text).is_net(), row.is_net) << row.text;
    EXPECT_FALSE(pattern(row.text).matches(kAnyNid)) << row.text;
    EXPECT_FALSE(pattern(row.text).matches(kLoNid)) << row.text;
  }
}

TEST(ConfigUdsp, a_descriptor_of_nids_matches_the_networks_of_the_nids) {
  EXPECT_TRUE(pattern("10.1.1.[1-2]@tcp[1-2]").matches(*net_parse("tcp2")));
  EXPECT_FALSE(pattern("10.1.1.[1-2]@tcp[1-2]").matches(*net_parse("tcp")));
  EXPECT_TRUE(pattern("o2ib*").matches(*net_parse("o2ib77")));
  EXPECT_FALSE(pattern("o2ib*").matches(kAnyNet));
}

// Method: compare an IPv4 descriptor with the ip2nets matcher, which reads the text for each address.
TEST(ConfigUdsp, ipv4_parts_match_as_in_ip2nets) {
  for (const char* text : {"10.[0-255/7].*.[1,3-5]", "*.1.[200-255].9", "0.0.0.[0-255/2]"}) {
    const UdspPattern one = pattern(std::string(text) + "@tcp");
    for (uint32_t i = 0; i < 200000; ++i) {
      const uint32_t address = i % 3 == 0 ? (10u << 24) + i * 2654435u % 0x1000000 : i * 2654435761u % 0x1000000;
      ASSERT_EQ(one.matches(Nid::v4(*net_parse("tcp"), address)), ip_pattern_matches(text, address)) << address;
    }
  }
}

// Goal: any text is parsed, or refused at a character of it. A NID that matches lies on a network that matches.
TEST(ConfigUdsp, any_text_is_parsed_or_refused_at_a_character) {
  constexpr const char* kPieces[] = {"*",   "[",  "]",      "-",           "/",   ",",       ".",    ":",
                                     "::",  "@",  "@tcp",   "0",           "255", "[1-9/3]", "ffff", "o2ib",
                                     "gni", "lo", "<99:0>", "99999999999", " ",   "0x",      "\xff"};
  std::vector<Nid> nids;
  for (const Row& row : kRows) {
    std::istringstream words(std::string(row.yes) + " " + row.no);
    for (std::string word; words >> word;) nids.push_back(nid_parse(word).value());
  }
  Rng rng(20);
  const auto below = [&](size_t limit) { return rng.below(static_cast<uint32_t>(limit)); };
  size_t parsed_count = 0;
  for (int round = 0; round < 50000; ++round) {
    std::string text = kRows[below(std::size(kRows))].text;
    for (uint64_t count = below(4); count > 0; --count) {
      const size_t at = below(text.size() + 1);
      if (rng.below(3) == 0)
        text.erase(at, 1 + below(3));
      else
        text.insert(at, kPieces[below(std::size(kPieces))]);
    }
    SCOPED_TRACE(text);
    const auto parsed = udsp_parse(text);
    if (!parsed) {
      ASSERT_TRUE(parsed.error().position >= 1 && parsed.error().position <= text.size() + 1);
      ASSERT_FALSE(parsed.error().what.empty());
      continue;
    }
    ++parsed_count;
    for (const Nid& nid : nids) ASSERT_TRUE(!parsed->matches(nid) || parsed->matches(nid.net()));
    ASSERT_FALSE(parsed->matches(kAnyNid) || parsed->matches(kLoNid) || parsed->matches(kAnyNet));
  }
  EXPECT_GT(parsed_count, 10000u) << "most rounds must reach the parts behind the first";
}

struct Same {
  const char* a;
  const char* b;
  bool same;
};
const Same kSame[] = {{"*@tcp", "tcp", true},
                      {"tcp0", "tcp", true},
                      {"tcp[1-3]", "tcp[1,2,3]", true},
                      {"tcp[1-3]", "tcp3,tcp1,tcp2,tcp1", true},
                      {"tcp[1-3]", "tcp[1-4]", false},
                      {"tcp,o2ib", "o2ib,tcp", true},
                      {"o2ib*", "*@o2ib*", true},
                      {"tcp", "o2ib", false},
                      {"*@tcp", "*.*.*.*@tcp", false},
                      {"*.*.*.*@tcp", "0.0.0.0/0@tcp", false},
                      {"10.1.0.0/16@tcp", "10.1.*.*@tcp", true},
                      {"10.1.0.0/17@tcp", "10.1.[0-127].*@tcp0", true},
                      {"10.1.1.[1-3]@tcp", "10.1.1.[3,1-2]@tcp", true},
                      {"10.1.1.[1-5/2]@tcp", "10.1.1.[1,3,5]@tcp", true},
                      {"10.1.1.[1-3]@tcp", "10.1.1.[1-3]@tcp1", false},
                      {"fd00::1@tcp", "fd00:0:0:0:0:0:0:1@tcp", true},
                      {"FD00::A@tcp", "fd00::a@tcp", true},
                      {"fd00::/112@tcp", "fd00::*@tcp", true},
                      {"::1@tcp", "0.0.0.1@tcp", false},
                      {"0x10@gni", "16@gni", true},
                      {"a000001@<2:0>", "10.0.0.1@tcp", true},
                      {"7@<13:1>", "7@gni1", true}};

TEST(ConfigUdsp, descriptors_with_the_same_meaning_are_equal) {
  for (const Same& row : kSame) {
    std::string a, b;
    pattern(row.a).key_append(a);
    pattern(row.b).key_append(b);
    EXPECT_EQ(pattern(row.a) == pattern(row.b), row.same) << row.a << " " << row.b;
    EXPECT_EQ(a == b, row.same) << row.a << " " << row.b;
  }
}

struct Refused {
  const char* text;
  size_t position;
  const char* what;
};
const Refused kRefused[] = {
    {"", 1, "the text is empty"},
    {"garbage!!", 1, "'garbage!!' is not a network such as tcp, tcp1 or o2ib3"},
    {"10.0.0.1", 1, "'10.0.0.1' is not a network such as tcp, tcp1 or o2ib3"},
    {"*", 1, "a '*' may only stand for the whole number of a network, as in o2ib*"},
    {"tcp1*", 5, "a '*' may only stand for the whole number of a network, as in o2ib*"},
    {"tcp*1", 4, "a '*' may only stand for the whole number of a network, as in o2ib*"},
    {"*@", 3, "the network is missing"},
    {"@tcp", 1, "the address is missing before the '@'"},
    {"10.1.1.2@tpc", 10, "'tpc' is not a network such as tcp, tcp1 or o2ib3"},
    {"tcp,tpc", 5, "'tpc' is not a network such as tcp, tcp1 or o2ib3"},
    {"tcp,,o2ib", 5, "the list of networks has an empty element"},
    {"tcp65536", 1, "'tcp65536' is not a network such as tcp, tcp1 or o2ib3"},
    {"tcp[1-65536]", 7, "65536 is above 65535"},
    {"tcp[1-", 4, "the bracket is not closed"},
    {"tcp[]", 5, "a number, or a list such as [1-5,8] or [2-8/2] is expected, not ']'"},
    {"tcp[3-1]", 7, "the end of the range is below its start"},
    {"tcp[1-5/0]", 9, "the stride of a range is 1 or more"},
    {"tcp[1;2]", 6, "a comma or ']' is expected, not ';'"},
    {"tcp[0-4096]", 1, "the text stands for more than 4096 networks"},
    {"tcp[0-4000/2]", 4, "the ranges stand for more than 1024 separate ranges"},
    {"lo", 1, "0@lo has no policies: it is the only way to the node itself"},
    {"0@lo", 3, "0@lo has no policies: it is the only way to the node itself"},
    {"tcp,lo", 5, "0@lo has no policies: it is the only way to the node itself"},
    {"10.0.0.1@tcp,10.0.0.2@tcp", 22, "a descriptor has one '@'; write a rule for each of the NIDs"},
    {"7@gni,tcp", 1, "addresses of these networks have different forms; write a rule for each network"},

    {"10.1.1@tcp", 7, "a dot (an IPv4 address has four parts) is missing"},
    {"10.1.!.2@tcp", 6, "a number, * or a list such as [1-5,8] or [2-8/2] is expected, not '!'"},
    {"10.1.1.256@tcp", 8, "256 is above 255"},
    {"10.1.1.[1-256]@tcp", 11, "256 is above 255"},
    {"10.1.1.2.3@tcp", 9, "the end of the address is expected, not '.'"},
    {"10.1.1.@tcp", 8, "a number, * or a list such as [1-5,8] or [2-8/2] is missing"},
    {"10.1.1.[1@tcp", 8, "the bracket is not closed"},
    {"10.1.0.0/33@tcp", 10, "33 is above 32"},
    {"10.1.0.0/x@tcp", 10, "the number of bits of a prefix is expected, not 'x'"},
    {"10.1.0.0/@tcp", 10, "the number of bits of a prefix is missing"},
    {"10.1.0.5/16@tcp", 10, "the address has bits after the first 16; set these bits to 0"},
    {"10.1.*.0/16@tcp", 9, "a prefix length needs an address without * and ranges before it"},
    {"fd00::1@gip", 5, "this network has IPv4 addresses only"},

    {"fd00:1@tcp", 7, "an IPv6 address has eight groups, or a '::'"},
    {"fd00::1::2@tcp", 9, "hexadecimal digits, * or a list such as [1-f] or [0-ff/2,a0] is expected, not ':'"},
    {"1:2:3:4:5:6:7:8:9@tcp", 17, "an IPv6 address has eight groups, and this is the ninth"},
    {"1:2:3:4::5:6:7:8@tcp", 1, "eight groups leave no room for the '::'"},
    {"fd00:@tcp", 5, "a group is missing after the colon"},
    {"fd00::12345@tcp", 7, "12345 is above ffff"},
    {"fd00::g@tcp", 7, "hexadecimal digits, * or a list such as [1-f] or [0-ff/2,a0] is expected, not 'g'"},
    {"fd00::1g@tcp", 8, "a colon is expected, not 'g'"},
    {"fd00::/129@tcp", 8, "129 is above 128"},
    {"fd00::1/64@tcp", 9, "the address has bits after the first 64; set these bits to 0"},
    {"fd00::[0-ffff/3]@tcp", 7, "the ranges stand for more than 1024 separate ranges"},
    {"::10.0.0.x@tcp", 5, "this is not an IPv6 address"},

    {"x@gni", 1, "a number, or a list such as [1-5,8] or [2-8/2] is expected, not 'x'"},
    {"4294967296@gni", 1, "4294967296 is above 4294967295"},
    {"7.8@gni", 2, "the end of the address is expected, not '.'"},
    {"[0-4294967295/2]@gni", 1, "the ranges stand for more than 1024 separate ranges"},
    {"x@<99:0>", 1, "an address on a net without a name is one to four hexadecimal words, as in 1f:2@<99:0>"},
};

TEST(ConfigUdsp, other_texts_are_refused_at_the_character) {
  for (const Refused& row : kRefused) {
    const auto parsed = udsp_parse(row.text);
    ASSERT_FALSE(parsed.has_value()) << row.text;
    EXPECT_EQ(parsed.error().position, row.position) << row.text;
    EXPECT_EQ(parsed.error().what, row.what) << row.text;
  }
  const auto parsed = udsp_parse(std::string(253, ' ') + "tcp1");
  ASSERT_FALSE(parsed.has_value());
  EXPECT_EQ(parsed.error().position, 257u);
  EXPECT_EQ(parsed.error().what, "the text has more than 256 characters");
}

TEST(ConfigUdsp, a_rule_has_the_descriptors_that_were_written) {
  const auto match = udsp_rule_parse({.src = "*@tcp", .dst = "10.0.0.1@tcp", .priority = 3});
  ASSERT_TRUE(match.has_value());
  EXPECT_TRUE(match->src == pattern("tcp") && match->dst == pattern("10.0.0.1@tcp") && !match->rte);
  EXPECT_EQ(match->priority, 3);
  EXPECT_EQ(udsp_rule_parse({.src = "tcp"})->priority, 0) << "a single descriptor";
  EXPECT_EQ(udsp_rule_parse({.dst = "tcp"})->priority, 0) << "a single descriptor";
  EXPECT_EQ(udsp_rule_parse({.rte = "tcp"})->priority, std::nullopt) << "a list";
  EXPECT_EQ(udsp_rule_parse({.src = "tcp", .dst = "tcp"})->priority, std::nullopt) << "a list";
  EXPECT_EQ(udsp_rule_parse({.src = "tcp"})->key(), udsp_rule_parse({.src = "*@tcp0", .priority = 9})->key());
  EXPECT_NE(udsp_rule_parse({.src = "tcp"})->key(), udsp_rule_parse({.dst = "tcp"})->key());
  EXPECT_EQ(udsp_rule_parse({}).error(), "at least one of src, dst and rte is needed");
  EXPECT_EQ(udsp_rule_parse({.src = "tcp", .rte = "tcp"}).error(), "src and rte cannot be combined");
  EXPECT_EQ(udsp_rule_parse({.src = "tcp", .dst = "tcp", .rte = "tcp"}).error(),
            "The combination of src, dst and rte is not supported");
  EXPECT_EQ(udsp_rule_parse({.dst = "1.2.3.4@tcp", .rte = "10.1.1.x@tcp"}).error(),
            "rte '10.1.1.x@tcp', at character 8: a number, * or a list such as [1-5,8] or [2-8/2] is expected, not "
            "'x'; allowed: " +
                std::string(kUdspAllowed));
}

// Goal: the error of a file names the descriptor with its line and column, and the character in it.
TEST(ConfigUdsp, a_wrong_descriptor_of_a_file_is_refused_with_its_place) {
  const auto errors = [](const std::string& text) { return texts_of(load_text(text, "f").errors); };
  const std::string allowed = "; allowed: " + std::string(kUdspAllowed) + "\n";
  EXPECT_EQ(errors("udsp:\n  - src: nonsense\n"),
            "f:2:10: udsp[0].src: 'nonsense' at character 1: 'nonsense' is not a network such as tcp, tcp1 or o2ib3" +
                allowed);
  EXPECT_EQ(errors("udsp:\n  - src: tcp\n    dst: 10.1.1.256@tcp\n  - dst: tcp\n    rte: 1.2.3.4@lo\n"),
            "f:3:10: udsp[0].dst: '10.1.1.256@tcp' at character 8: 256 is above 255" + allowed +
                "f:5:10: udsp[1].rte: '1.2.3.4@lo' at character 9: 0@lo has no policies: it is the only way to the "
                "node itself" +
                allowed);
  EXPECT_EQ(
      errors("udsp:\n  - src: [tcp]\n  - dst:\n"),
      "f:2:10: udsp[0].src: is a list" + allowed + "f:3:5: udsp[1].dst: at character 1: the text is empty" + allowed);
  EXPECT_EQ(errors("udsp:\n  - src: tcp\n    rte: tcp\n"), "f:2:5: udsp[0]: src and rte cannot be combined\n");
}

/// The rules as "src>dst/rte=priority", in their order.
std::string rules_of(const DesiredState& state) {
  std::string text;
  for (const UdspRule& rule : state.udsp)
    text += (text.empty() ? "" : " ") + rule.src + (rule.dst.empty() ? "" : ">" + rule.dst) +
            (rule.rte.empty() ? "" : "/" + rule.rte) + (rule.priority ? "=" + std::to_string(*rule.priority) : "");
  return text;
}

/// Applies changes of a command, or of a file. "code what" of each refused change, one to a line.
std::string applied(DesiredState& state, std::vector<Change> changes, const std::string& file = {}) {
  ChangeList list;
  for (Change& change : changes) list.push_back({std::move(change), {file, {}, {}}});
  std::string out;
  for (const Problem& error : changes_apply(state, list))
    out += std::to_string(error.index) + " " + std::to_string(error.code) + " " + error.what + "\n";
  return out;
}

TEST(ConfigUdsp, rules_are_inserted_at_their_position) {
  DesiredState state;
  EXPECT_EQ(applied(state, {UdspAdd{{.src = "tcp"}}, UdspAdd{{.idx = 0, .src = "tcp1", .priority = 4}},
                            UdspAdd{{.idx = 1, .dst = "tcp"}}, UdspAdd{{.idx = 99, .src = "tcp", .dst = "tcp"}},
                            UdspAdd{{.idx = -1, .rte = "1.2.3.4@tcp"}}}),
            "");
  EXPECT_EQ(rules_of(state), "tcp1=4 >tcp=0 tcp=0 tcp>tcp /1.2.3.4@tcp");
}

TEST(ConfigUdsp, a_rule_that_is_there_is_compared_by_meaning) {
  DesiredState state;
  ASSERT_EQ(applied(state, {UdspAdd{{.src = "tcp0"}}, UdspAdd{{.src = "tcp[1,2,3]", .priority = 1}},
                            UdspAdd{{.src = "10.1.*.*@tcp", .dst = "tcp"}}}),
            "");
  EXPECT_EQ(applied(state, {UdspAdd{{.idx = 0, .src = "*@tcp"}}}),
            "0 -114 cannot add udsp: there is an identical rule\n");
  EXPECT_EQ(applied(state, {UdspAdd{{.src = "10.1.0.0/16@tcp0", .dst = "*@tcp"}}}),
            "0 -114 cannot add udsp: there is an identical rule\n");
  EXPECT_EQ(rules_of(state), "tcp0=0 tcp[1,2,3]=1 10.1.*.*@tcp>tcp");
  // With another priority the rule stays at its place, with the descriptors as they were written first.
  EXPECT_EQ(applied(state, {UdspAdd{{.idx = 0, .src = "tcp[1-3]", .priority = 255}}}), "");
  EXPECT_EQ(applied(state, {UdspAdd{{.src = "10.1.*.*@tcp", .dst = "tcp", .priority = 0}}}), "");
  EXPECT_EQ(rules_of(state), "tcp0=0 tcp[1,2,3]=255 10.1.*.*@tcp>tcp=0");
  EXPECT_EQ(applied(state, {UdspAdd{{.src = "10.1.*.*@tcp", .dst = "tcp"}}}), "");
  EXPECT_EQ(rules_of(state), "tcp0=0 tcp[1,2,3]=255 10.1.*.*@tcp>tcp");
  EXPECT_EQ(applied(state, {UdspAdd{{.src = "tpc"}}}).substr(0, 70),
            "0 -22 cannot add udsp: src 'tpc', at character 1: 'tpc' is not a netwo");
  // All or nothing: a priority that was changed in place is as before.
  EXPECT_EQ(applied(state, {UdspAdd{{.src = "tcp", .priority = 7}}, UdspDel{.idx = 9}}),
            "1 -2 cannot del udsp: No such file or directory\n");
  EXPECT_EQ(rules_of(state), "tcp0=0 tcp[1,2,3]=255 10.1.*.*@tcp>tcp");
}

// Goal: the import of a file a second time changes nothing. A rule that one file has twice is a mistake.
TEST(ConfigUdsp, a_file_may_have_rules_that_are_in_force) {
  DesiredState state;
  const std::vector<Change> file = {UdspAdd{{.src = "tcp"}}, UdspAdd{{.idx = 0, .dst = "tcp", .priority = 3}}};
  ASSERT_EQ(applied(state, file, "f"), "");
  EXPECT_EQ(applied(state, file, "f"), "");
  EXPECT_EQ(rules_of(state), ">tcp=3 tcp=0");
  EXPECT_EQ(applied(state, {UdspAdd{{.src = "tcp1"}}, UdspAdd{{.src = "*@tcp1"}}}, "f"),
            "1 -114 cannot add udsp: there is an identical rule\n");
  EXPECT_EQ(applied(state, {UdspAdd{{.src = "tcp", .priority = 9}}, UdspAdd{{.src = "tcp", .priority = 9}}}, "f"),
            "1 -114 cannot add udsp: there is an identical rule\n");
}

TEST(ConfigUdsp, rules_are_deleted_by_number_or_by_meaning) {
  const DesiredState five = [] {
    DesiredState state;
    EXPECT_EQ(applied(state, {UdspAdd{{.src = "tcp"}}, UdspAdd{{.src = "tcp1"}}, UdspAdd{{.dst = "tcp1"}},
                              UdspAdd{{.src = "tcp1", .dst = "tcp1"}}, UdspAdd{{.dst = "tcp", .rte = "1.2.3.4@tcp"}}}),
              "");
    return state;
  }();
  const auto del = [&](std::vector<Change> changes) {
    DesiredState state = five;
    const std::string errors = applied(state, std::move(changes));
    return errors.empty() ? rules_of(state) : errors;
  };
  EXPECT_EQ(del({UdspDel{.idx = 1}}), "tcp=0 >tcp1=0 tcp1>tcp1 >tcp/1.2.3.4@tcp");
  EXPECT_EQ(del({UdspDel{.idx = 4}, UdspDel{.idx = 0}}), "tcp1=0 >tcp1=0 tcp1>tcp1");
  EXPECT_EQ(del({UdspDel{.idx = 5}}), "0 -2 cannot del udsp: No such file or directory\n");
  EXPECT_EQ(del({UdspDel{.all = true}}), "");
  EXPECT_EQ(del({UdspDel{.idx = -1}}), "");
  EXPECT_EQ(del({UdspDel{.all = true}, UdspAdd{{.src = "tcp"}}}), "tcp=0");
  EXPECT_EQ(del({LnetUnconfigure{}, UdspAdd{{.src = "tcp"}}}), "tcp=0");
  EXPECT_EQ(del({UdspDel{.rule = UdspRule{.src = "*@tcp1"}}}), "tcp=0 >tcp1=0 tcp1>tcp1 >tcp/1.2.3.4@tcp");
  EXPECT_EQ(del({UdspDel{.idx = 3, .rule = UdspRule{.src = "tcp[1]", .dst = "tcp1"}}}),
            "tcp=0 tcp1=0 >tcp1=0 >tcp/1.2.3.4@tcp");
  EXPECT_EQ(del({UdspDel{.rule = UdspRule{.dst = "tcp0", .rte = "1.2.3.4@tcp0"}}}), "tcp=0 tcp1=0 >tcp1=0 tcp1>tcp1");
  EXPECT_EQ(del({UdspDel{.rule = UdspRule{.src = "o2ib", .dst = "tcp"}}}),
            "0 -2 cannot del udsp: there is no rule with src o2ib and dst tcp\n");
  EXPECT_EQ(del({UdspDel{.idx = 1, .rule = UdspRule{.src = "tcp"}}}),
            "0 -22 cannot del udsp: the rule 1 is not the rule with src tcp, but with src tcp1\n");
  EXPECT_EQ(del({UdspDel{.rule = UdspRule{.src = "tcp1"}, .either_end = true}}), "tcp=0 tcp1>tcp1 >tcp/1.2.3.4@tcp");
  EXPECT_EQ(del({UdspDel{.idx = 2, .rule = UdspRule{.src = "tcp1"}, .either_end = true}}),
            "tcp=0 tcp1=0 tcp1>tcp1 >tcp/1.2.3.4@tcp");
  EXPECT_EQ(del({UdspDel{.idx = 3, .rule = UdspRule{.src = "tcp1"}, .either_end = true}}),
            "0 -22 cannot del udsp: the rule 3 is not the rule with src or dst tcp1, but with src tcp1 and dst tcp1\n");
  EXPECT_EQ(del({UdspDel{.rule = UdspRule{.src = "tcp"}}, UdspAdd{{.src = "tcp"}}}),
            "tcp1=0 >tcp1=0 tcp1>tcp1 >tcp/1.2.3.4@tcp tcp=0");
}

// Goal: the number of rules has a bound, and a list of that length is read in proportion, not by the square.
TEST(ConfigUdsp, there_are_at_most_65535_rules) {
#ifdef ULNET_SANITIZED
  GTEST_SKIP() << "40 s; smaller tests run the same code";
#endif
  ChangeList list;
  for (uint32_t i = 0; i < 65535; ++i)
    list.push_back({UdspAdd{{.src = nid_text(Nid::v4(*net_parse("tcp"), i)), .priority = 1}}, {}});
  DesiredState state;
  ASSERT_TRUE(changes_apply(state, list).empty());
  EXPECT_EQ(applied(state, {UdspAdd{{.src = "tcp"}}}),
            "0 -28 cannot add udsp: there are 65535 rules, which is the maximum\n");
  EXPECT_EQ(applied(state, {UdspAdd{{.src = "0.0.0.9@tcp", .priority = 2}}}), "") << "no rule more";
  EXPECT_EQ(applied(state, {UdspDel{.idx = 65534}, UdspAdd{{.src = "tcp"}}}), "");
}

// Goal: long lists that find, insert or delete rules are read in proportion, too. Squares would take minutes here.
TEST(ConfigUdsp, long_lists_find_insert_and_delete_rules) {
#ifdef ULNET_SANITIZED
  constexpr uint32_t kRules = 5000;
#else
  constexpr uint32_t kRules = 65535;
#endif
  ChangeList in_front, again, last, del;
  for (uint32_t i = 0; i < kRules; ++i) {
    const UdspRule rule{.idx = 0, .src = nid_text(Nid::v4(*net_parse("tcp"), i)), .priority = 1};
    in_front.push_back({UdspAdd{rule}, {}});
    again.push_back({UdspAdd{{.src = rule.src, .priority = 2}}, {}});
    del.push_back({UdspDel{.rule = rule}, {}});
  }
  for (int64_t i = kRules; i-- > 0;) last.push_back({UdspDel{.idx = i}, {}});
  DesiredState state;
  ASSERT_TRUE(changes_apply(state, in_front).empty());
  EXPECT_EQ(state.udsp.front().src, nid_text(Nid::v4(*net_parse("tcp"), kRules - 1)));
  EXPECT_EQ(state.udsp.back().src, nid_text(Nid::v4(*net_parse("tcp"), 0)));
  ASSERT_TRUE(changes_apply(state, again).empty());
  EXPECT_EQ(state.udsp.front().priority, 2);
  DesiredState other = state;
  ASSERT_TRUE(changes_apply(state, del).empty());
  EXPECT_TRUE(state.udsp.empty());
  ASSERT_TRUE(changes_apply(other, last).empty());
  EXPECT_TRUE(other.udsp.empty());
}

TEST(ConfigUdsp, a_rule_that_is_there_keeps_its_place) {
  DesiredState state;
  ASSERT_EQ(applied(state, {UdspAdd{{.src = "tcp"}}, UdspAdd{{.src = "tcp1"}}, UdspAdd{{.src = "tcp2"}}}), "");
  std::vector<std::string> notes;
  const ChangeList list = {{UdspDel{.rule = UdspRule{.src = "tcp"}}, {}},
                           {UdspAdd{{.idx = 0, .src = "*@tcp2", .priority = 7}}, {}},
                           {UdspAdd{{.idx = 0, .src = "tcp1", .priority = 8}}, {}}};
  ASSERT_TRUE(changes_apply(state, list, &notes).empty());
  EXPECT_EQ(rules_of(state), "tcp1=8 tcp2=7");
  EXPECT_EQ(notes, std::vector<std::string>{
                       "the rule with src *@tcp2 is there already: it keeps idx 1, and only its priority changes"});
}

// Goal: an export has each rule as it was written, and its import makes the same list.
TEST(ConfigUdsp, every_descriptor_survives_export_and_import) {
  DesiredState first;
  first.configured = true;
  for (const Row& row : kRows) (void)applied(first, {UdspAdd{{.src = row.text, .priority = 3}}});
  (void)applied(first, {UdspAdd{{.src = "tcp", .dst = "fd00::/64@tcp"}}, UdspAdd{{.idx = 0, .rte = "10.1.1.*@o2ib"}}});
  EXPECT_GT(first.udsp.size(), 36u);
  Problems errors;
  const DesiredState second = state_of(load_text(emit(export_backup(first)), "f").changes, errors);
  EXPECT_EQ(texts_of(errors), "");
  EXPECT_EQ(rules_of(second), rules_of(first));
}

/// The rules that a file makes, or its errors.
std::string rules_of_file(const std::string& text) {
  const Imported imported = load_text(text, "f");
  Problems errors = imported.errors;
  const DesiredState state = state_of(imported.changes, errors);
  return errors.empty() ? rules_of(state) : texts_of(errors);
}

// Method: the YAML of both documents, literally but for the values in <>.
TEST(ConfigUdsp, each_section_of_the_documents_makes_rules) {
  const std::string yaml =
      ":\n    - idx: 0\n      src: 10.10.10.2@o2ib1\n      dst: 10.10.10.4@o2ib1\n      action:\n"
      "        - priority: 1\n";
  EXPECT_EQ(rules_of_file("udsp" + yaml), "10.10.10.2@o2ib1>10.10.10.4@o2ib1=1");
  EXPECT_EQ(rules_of_file("policy" + yaml), "10.10.10.2@o2ib1>10.10.10.4@o2ib1=1");
  EXPECT_EQ(rules_of_file("selection:\n    - type: net\n      net: o2ib[1,2]\n      priority: 3\n"), "o2ib[1,2]=3");
  EXPECT_EQ(rules_of_file("selection:\n    - type: nid\n      nid: 10.1.1.[5-8]@o2ib\n      priority: 3\n"),
            "10.1.1.[5-8]@o2ib=3 >10.1.1.[5-8]@o2ib=3");
  EXPECT_EQ(rules_of_file("selection:\n    - type: peer\n      local: 10.1.1.1@tcp\n      remote: 10.1.1.*@tcp\n"
                          "      priority: 0\n"),
            "10.1.1.1@tcp>10.1.1.*@tcp=0");
  EXPECT_EQ(rules_of_file("udsp: [{src: tcp}]\npolicy: [{src: tcp1, idx: 0}]\n"
                          "selection: [{type: net, net: tcp2, priority: 255}]\n"),
            "tcp1=0 tcp=0 tcp2=255");
}

TEST(ConfigUdsp, a_file_deletes_rules_by_number_and_by_meaning) {
  DesiredState state;
  ASSERT_EQ(applied(state, {UdspAdd{{.src = "tcp"}}, UdspAdd{{.src = "tcp1"}}, UdspAdd{{.src = "tcp2"}},
                            UdspAdd{{.src = "1.2.3.4@tcp"}}, UdspAdd{{.dst = "1.2.3.4@tcp"}},
                            UdspAdd{{.src = "1.2.3.4@tcp", .dst = "tcp"}}, UdspAdd{{.src = "tcp3"}}}),
            "");
  const Imported del = load_text(
      "policy:\n  - src: tcp1\n  - idx: 0\n  - idx: 2\n    src: '*@tcp2'\n"
      "selection:\n  - type: nid\n    nid: 1.2.3.4@tcp\n  - type: peer\n    local: 1.2.3.4@tcp\n    remote: tcp\n"
      "    id: 5\n",
      "f", ImportMode::kDel);
  EXPECT_EQ(texts_of(del.errors), "");
  EXPECT_EQ(changes_apply(state, del.changes).size(), 0u);
  EXPECT_EQ(rules_of(state), "tcp3=0");
  const Imported all = load_text("udsp:\n  - idx: -1\n", "f", ImportMode::kDel);
  EXPECT_EQ(changes_apply(state, all.changes).size(), 0u);
  EXPECT_EQ(rules_of(state), "");
}

TEST(ConfigUdsp, wrong_sections_are_refused_with_their_place) {
  const std::string allowed = "; allowed: " + std::string(kUdspAllowed) + "\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"policy:\n  - src: nonsense\n",
       "f:2:10: policy[0].src: 'nonsense' at character 1: 'nonsense' is not a network such as tcp, tcp1 or o2ib3" +
           allowed},
      {"policy: tcp\n", "f:1:9: policy: 'tcp' is a text; allowed: a list\n"},
      {"policy:\n  - srk: tcp\n", "f:2:5: policy[0].srk: unknown key; did you mean 'src'?\n"},
      {"udsp:\n  - src: tcp\n    action: {priority: 256}\n",
       "f:3:24: udsp[0].action.priority: '256' is out of range; allowed: -1..255\n"},
      {"udsp:\n  - src: tcp\n    action: {prio: 2}\n", "f:3:14: udsp[0].action.prio: unknown key\n"},
      {"udsp:\n  - src: tcp\n    action: mirror\n", "f:3:13: udsp[0].action: 'mirror' is a text; allowed: a list\n"},
      {"udsp:\n  - src: tcp\n    idx: first\n", "f:3:10: udsp[0].idx: 'first' is not a number; allowed: -1 or more\n"},
      {"selection:\n  - net: tcp\n    priority: 1\n",
       "f:2:5: selection[0]: 'type' is missing; allowed: net, nid or peer\n"},
      {"selection:\n  - type: gnu\n    priority: 1\n",
       "f:2:11: selection[0].type: 'gnu' is not a type of rule; allowed: net, nid or peer\n"},
      {"selection:\n  - type: [net]\n    priority: 1\n",
       "f:2:11: selection[0].type: is a list; allowed: net, nid or peer\n"},
      {"selection:\n  - type: net\n    net: tcp\n",
       "f:2:5: selection[0]: 'priority' is missing; allowed: 0..255, 0 is the highest\n"},
      {"selection:\n  - type: net\n    priority: -1\n    net: tcp\n",
       "f:3:15: selection[0].priority: '-1' is out of range; allowed: 0..255\n"},
      {"selection:\n  - type: net\n    priority: 1\n", "f:2:5: selection[0]: 'net' is missing" + allowed},
      {"selection:\n  - type: net\n    priority: 1\n    nid: 1.2.3.4@tcp\n",
       "f:2:5: selection[0]: 'net' is missing" + allowed +
           "f:2:5: selection[0]: 'nid' does not belong to a rule of type net\n"},
      {"selection:\n  - type: net\n    priority: 1\n    net: 1.2.3.4@tcp\n",
       "f:2:5: selection[0]: 'net' is '1.2.3.4@tcp', which is not a network; allowed: a network, or type: nid\n"},
      {"selection:\n  - type: nid\n    priority: 1\n    nid: '*@tcp'\n",
       "f:2:5: selection[0]: 'nid' is '*@tcp', which is a network; "
       "allowed: addresses such as *.*.*.*@tcp, or type: net\n"},
      {"selection:\n  - type: peer\n    priority: 1\n    local: 1.2.3@tcp\n",
       "f:4:12: selection[0].local: '1.2.3@tcp' at character 6: a dot (an IPv4 address has four parts) is missing" +
           allowed},
      {"selection:\n  - type: peer\n    priority: 1\n    local: 1.2.3.4@tcp\n",
       "f:2:5: selection[0]: 'remote' is missing" + allowed},
  };
  for (const auto& [text, errors] : cases) EXPECT_EQ(texts_of(load_text(text, "f").errors), errors) << text;
  EXPECT_EQ(texts_of(load_text("udsp:\n  - {idx: -1, src: tcp}\n", "f", ImportMode::kDel).errors),
            "f:2:5: udsp[0]: 'idx' -1 means all rules; allowed: -1 alone, or 0 or more\n");
  EXPECT_EQ(texts_of(load_text("udsp:\n  - action: {priority: 1}\n", "f", ImportMode::kDel).errors),
            "f:2:5: udsp[0]: at least one of src, dst and rte is needed, or idx\n");
}

}  // namespace
}  // namespace ulnet::config
