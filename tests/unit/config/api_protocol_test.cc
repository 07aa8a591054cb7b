// The table of the control socket's requests: faults that it finds, and the document that is printed from it.
#include "control/api/protocol.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "control/api/schema.h"

namespace ulnet::api {
namespace {

using config::Json;

std::string wrong(Call call, const Json& args) {
  return args_wrong(row_of(call), args);
}

// Goal: a request is found by its verb and object, and by nothing else.
TEST(ApiProtocol, each_row_is_found_by_its_verb_and_object) {
  std::set<std::pair<Verb, std::string>> seen;
  for (const CallRow& row : protocol()) {
    EXPECT_TRUE(seen.emplace(row.verb, row.object).second) << row.object;
    EXPECT_EQ(call_find(row.verb, row.object), row.call) << row.object;
    EXPECT_TRUE(row.text.ends_with('.')) << row.text;
  }
  EXPECT_EQ(call_find(Verb::kShow, "ping"), std::nullopt);
  EXPECT_EQ(call_find(Verb::kShow, ""), std::nullopt);
}

// Goal: no argument is accepted and then ignored: each that contradicts its row is refused, by name.
TEST(ApiProtocol, arguments_are_those_of_the_row) {
  EXPECT_EQ(wrong(Call::kShowNet, {{"net", "tcp"}, {"verbose", 4}}), "");
  EXPECT_EQ(wrong(Call::kShowNet, {{"nett", "tcp"}}), "unknown argument 'nett'; known: net, verbose");
  EXPECT_EQ(wrong(Call::kShowStatus, {{"verbose", 1}}), "unknown argument 'verbose'; known: none");
  EXPECT_EQ(wrong(Call::kShowNet, {{"net", 5}}), "'net' is 5; it must be a text");
  EXPECT_EQ(wrong(Call::kShowNet, {{"verbose", "1"}}), "'verbose' is \"1\"; it must be a whole number");
  EXPECT_EQ(wrong(Call::kShowExport, {{"backup", 1}}), "'backup' is 1; it must be true or false");
  EXPECT_EQ(wrong(Call::kDiscover, {{"nids", "10.0.0.1@tcp"}}),
            "'nids' is \"10.0.0.1@tcp\"; it must be a list of NIDs");
  EXPECT_EQ(wrong(Call::kDiscover, Json::object()), "'nids' is missing: a list of NIDs");
  EXPECT_EQ(wrong(Call::kPortReset, Json::object()), "'name' is missing: a text");
  EXPECT_EQ(wrong(Call::kPerf, {{"anything", 1}}), "") << "a job is checked by what runs it";
}

TEST(ApiProtocol, numbers_are_within_their_bounds) {
  for (const CallRow& row : protocol()) {
    for (const ArgRow& arg : row.args) {
      if (arg.type != ArgType::kInteger) continue;
      ASSERT_LT(arg.min, arg.max) << arg.name;
      const std::string name(arg.name);
      const auto judged = [&](const Json& value) {
        Json args = {{name, value}};
        for (const ArgRow& other : row.args)
          if (other.required) args[std::string(other.name)] = other.type == ArgType::kNids ? Json::array() : Json("x");
        return args_wrong(row, args);
      };
      EXPECT_EQ(judged(arg.min), "");
      EXPECT_EQ(judged(arg.max), "");
      for (const Json& beyond : {Json(arg.min - 1), Json(arg.max + 1), Json(UINT64_MAX)})
        EXPECT_NE(judged(beyond).find("allowed: "), std::string::npos) << name;
    }
  }
}

// Goal: the server refuses such a request before any handler sees it, under the request's id, verb and object.
TEST(ApiProtocol, a_frame_with_a_wrong_argument_is_refused) {
  const auto read = request_from_json({{"id", 3}, {"verb", "show"}, {"object", "net"}, {"args", {{"x", 1}}}});
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().id, 3u);
  EXPECT_EQ(read.error().error, (ApiError{"show", "net", -EINVAL, "unknown argument 'x'; known: net, verbose", {}}));
  EXPECT_TRUE(request_from_json({{"id", 3}, {"verb", "show"}, {"object", "later"}, {"args", {{"x", 1}}}}).has_value())
      << "a request of another version reaches the handler, which names its version";
}

// Goal: docs/control-socket.md is what the table says. To renew it: build control-socket-md, and run it.
TEST(ApiProtocol, the_document_is_printed_from_the_table) {
  std::ifstream file(ULNET_CONTROL_SOCKET_MD);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), protocol_reference());
}

}  // namespace
}  // namespace ulnet::api
