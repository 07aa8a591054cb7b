// Documents: lnetctl output is read, and is written again in each layout and as JSON without loss.
#include "config/doc.h"
#include "config/emit.h"
#include "tests/unit/config/golden.h"

namespace ulnet::config {
namespace {

const std::vector<std::string> kGolden = {"tcp-mr.net-show",       "tcp-mr.net-show-v4",
                                          "tcp-mr.peer-show",      "tcp-mr.peer-list",
                                          "tcp-mr.peer-show-v4",   "tcp-mr.export",
                                          "tcp-mr.export-backup",  "router.export",
                                          "o2ib-mr.export-backup", "tcp-ipv6.export",
                                          "router.routing-show",   "router.stats-show",
                                          "tcp-mr.global-show",    "routed-client.route-show-v",
                                          "tcp-mr.udsp-show",      "tcp-mr.import-roundtrip",
                                          "tcp-mr.discover"};

// Goal: our output has the same bytes as lnetctl output, so that a program can read either.
// Method: read lnetctl output, write it again.
TEST(ConfigDoc, golden_outputs_are_written_as_they_were_read) {
  for (const std::string& name : kGolden) {
    SCOPED_TRACE(name);
    EXPECT_EQ(emit(document_of(golden_text(name))), golden_text(name));
  }
}

TEST(ConfigDoc, golden_outputs_survive_every_layout_and_json) {
  for (const std::string& name : kGolden) {
    SCOPED_TRACE(name);
    Doc doc = document_of(golden_text(name));
    for (Layout layout : {Layout::kClassic, Layout::kNetlink, Layout::kNetlink2}) {
      EXPECT_EQ(document_of(emit(doc, layout)), doc) << emit(doc, layout);
    }
    auto json = json_parse(json_dump(to_json(doc)));
    ASSERT_TRUE(json.has_value());
    EXPECT_EQ(from_json(*json), doc);
  }
}

TEST(ConfigDoc, errors_are_read_as_documents_of_their_own) {
  std::vector<Doc> documents = documents_of(golden_text("errors"));
  ASSERT_EQ(documents.size(), 5u);
  EXPECT_EQ(documents[0].find("show")->at(0).find("errno")->integer(), -2);
  EXPECT_EQ(documents[2].find("manage")->at(0).find("descr")->text(),
            "failed to ping 10.10.0.77@tcp: No route to host");
  EXPECT_EQ(documents_of(golden_text("tcp-mr.import-full-export")).size(), 2u);
}

// The older layout, as the manual prints it.
TEST(ConfigDoc, classic_layout_of_a_net) {
  Doc doc = Doc::map();
  Doc& net = doc.set("net", Doc::list()).push(Doc::map());
  net.set("net type", "tcp");
  Doc& ni = net.set("local NI(s)", Doc::list()).push(Doc::map());
  ni.set("nid", "192.168.122.10@tcp");
  ni.set("status", "up");
  ni.set("interfaces", Doc::map()).set("0", "eth0");
  ni.set("tunables", Doc::map()).set("credits", 256);
  ni.set("CPT", "[0,1]");
  ni.set("map_on_demand", true);
  EXPECT_EQ(emit_classic(doc),
            "net:\n"
            "    - net type: tcp\n"
            "      local NI(s):\n"
            "        - nid: 192.168.122.10@tcp\n"
            "          status: up\n"
            "          interfaces:\n"
            "              0: eth0\n"
            "          tunables:\n"
            "              credits: 256\n"
            "          CPT: \"[0,1]\"\n"
            "          map_on_demand: True\n");
}

TEST(ConfigDoc, text_that_would_read_as_something_else_is_quoted) {
  for (const char* text :
       {"",   "true", "False", "null",   "~",  "17",      "-1", "- a", "a: b",        "a #b",      " a",
        "a ", "[0]",  "{x}",   "*@tcp1", "!x", "%x",      "@x", "`x",  "line\nbreak", "tab\there", "quote\"back\\slash",
        "a:", "---",  "...",   "'x'",    "&a", "\x01\x7F"}) {
    Doc doc = Doc::map();
    doc.set("key", text);
    doc.set("list", Doc::list()).push(text);
    for (Layout layout : {Layout::kClassic, Layout::kNetlink, Layout::kNetlink2}) {
      EXPECT_EQ(document_of(emit(doc, layout)), doc) << emit(doc, layout);
    }
  }
}

TEST(ConfigDoc, scalars) {
  EXPECT_EQ(integer_parse("0x10"), 16);
  EXPECT_EQ(integer_parse("010"), 8);
  EXPECT_EQ(integer_parse("-5"), -5);
  for (const char* text : {"", "-", "1a", "0x", "09", "9223372036854775808", "--1", "1 ", "+-1"}) {
    EXPECT_EQ(integer_parse(text), std::nullopt) << text;
  }
  EXPECT_EQ(Doc("True").boolean(), true);
  EXPECT_EQ(Doc(0).boolean(), false);
  EXPECT_EQ(Doc(2).boolean(), std::nullopt);
  EXPECT_EQ(Doc(UINT64_MAX).text(), "18446744073709551615");
  Doc doc = document_of("a: 17\nb: '17'\nc: true\nd: 'true'\ne: 0660\nf:\ng: 1.5\n");
  EXPECT_EQ(doc.find("a")->kind(), Doc::Kind::kInteger);
  EXPECT_EQ(doc.find("b")->kind(), Doc::Kind::kText);
  EXPECT_EQ(doc.find("c")->kind(), Doc::Kind::kBool);
  EXPECT_EQ(doc.find("d")->kind(), Doc::Kind::kText);
  EXPECT_EQ(doc.find("e")->integer(), 0660);
  EXPECT_TRUE(doc.find("f")->is_null());
  EXPECT_EQ(doc.find("g")->text(), "1.5");
  EXPECT_EQ(doc.find("c")->mark.line, 3u);
  EXPECT_EQ(doc.find("c")->mark.column, 4u);
}

// Goal: reading a file ends, whatever its content, and a mistake gives an error that names the place.
TEST(ConfigDoc, hostile_yaml_is_refused) {
  struct Case {
    std::string text;
    const char* error;
  };
  const std::vector<Case> cases = {
      {"a: &x [1]\nb: *x\n", "f:2:4: is an alias (*name), which is not supported; write the value out\n"},
      {"a: 1\na: 2\n", "f:2:1: 'a' is here twice\n"},
      {"? [a]\n: b\n", "f:1:3: a key must be a plain text, not a list or map\n"},
      {"a: [1\n", "f:2:1: is not YAML: end of sequence flow not found\n"},
      {"a: \"b\nc: 1\n", "f:1:4: begins a quoted text that does not end\n"},
      {"a: ! 'b''\nc: 1\n", "f:1:4: begins a quoted text that does not end\n"},
  };
  for (const Case& one : cases) EXPECT_EQ(texts_of(yaml_read(one.text, "f").errors), one.error) << one.text;
  for (const char* bytes : {"\x01", "\x7F", "\x80", "\xC1\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                            "\xF0\x9F", "\xFF\xFE"}) {
    EXPECT_EQ(texts_of(yaml_read("a: 1\nb: \xC3\xA4" + std::string(bytes), "f").errors),
              "f:2:5: is a byte that is not UTF-8 text, or a control character\n");
  }
  EXPECT_EQ(document_of("\xEF\xBB\xBF"
                        "a: \xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80\n")
                .find("a")
                ->text(),
            "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80");
  EXPECT_FALSE(yaml_read(std::string(200, '['), "f").errors.empty());
  EXPECT_FALSE(yaml_read(std::string(100000, '['), "f").errors.empty());
  EXPECT_FALSE(yaml_read(std::string(kConfigBytesMax + 1, ' '), "f").errors.empty());
  std::string wide;
  for (size_t i = 0; i <= kMapKeysMax; ++i) wide += "k" + std::to_string(i) + ": 1\n";
  EXPECT_FALSE(yaml_read(wide, "f").errors.empty());
}

TEST(ConfigDoc, hostile_json_is_refused) {
  EXPECT_FALSE(json_parse("{").has_value());
  EXPECT_FALSE(json_parse(std::string(100000, '[')).has_value());
  EXPECT_FALSE(json_parse("{\"a\":\"\xff\"}").has_value());
  EXPECT_FALSE(json_parse("]]]]").has_value());
  EXPECT_TRUE(json_parse("{\"a\":\"[[[{{{::\\\"\"}").has_value());
  std::string wide = "{\"k\":0";
  for (size_t i = 0; i <= kMapKeysMax; ++i) wide += ",\"k" + std::to_string(i) + "\":1";
  EXPECT_FALSE(json_parse(wide + "}").has_value());
  EXPECT_EQ(json_dump(Json("\xff")), "\"\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace ulnet::config
