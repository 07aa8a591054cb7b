// The field table: complete, in step with the model, and the source of config/reference.md.
#include <set>

#include "config/schema.h"
#include "tests/unit/config/golden.h"

namespace ulnet::config {
namespace {

TEST(ConfigSchema, reference_is_what_is_generated) {
  EXPECT_EQ(file_text(ULNET_REFERENCE), reference_markdown())
      << "run: ninja config/reference-md && config/reference-md > ../config/reference.md";
}

TEST(ConfigSchema, every_key_is_complete_and_its_default_is_allowed) {
  std::set<std::string> paths;
  for (const Field& field : fields()) {
    SCOPED_TRACE(field.path);
    EXPECT_TRUE(paths.insert(field.path).second) << "twice in the table";
    if (std::string path = field.path; path.find('.') != std::string::npos) {
      const Field* parent = field_find(path.substr(0, path.rfind('.')));
      ASSERT_NE(parent, nullptr);
      EXPECT_TRUE(parent->type == FieldType::kMap || parent->type == FieldType::kList);
    }
    EXPECT_TRUE(field.type == FieldType::kIgnored || field.text[0] != 0);
    if (field.at == nullptr) continue;
    Slots slots;
    EXPECT_EQ(field_assign(field, field_value(field, slots), slots), "");
    EXPECT_FALSE(field_default(field).empty());
  }
}

// Each field writes to a member of its own: a copied line of the table that kept its neighbour's member is found here.
TEST(ConfigSchema, no_two_keys_share_a_member) {
  Slots slots;
  std::set<std::string> seen;
  for (const Field& field : fields()) {
    if (field.at == nullptr || std::string_view(field.path).starts_with("numa.")) continue;
    std::string place = std::visit(
        [](auto target) {
          if constexpr (std::is_pointer_v<decltype(target)>) return std::to_string(reinterpret_cast<uintptr_t>(target));
          return std::string();
        },
        field.at(slots));
    EXPECT_TRUE(seen.insert(place).second) << field.path;
  }
}

TEST(ConfigSchema, values_are_checked) {
  auto wrong = [](const char* path, const Doc& value) {
    Slots slots;
    return field_assign(*field_find(path), value, slots);
  };
  EXPECT_EQ(wrong("global.discovery", "verify"), "");
  EXPECT_EQ(wrong("global.discovery", 1), "");
  EXPECT_EQ(wrong("global.discovery", 2), "is not one of the choices");
  EXPECT_EQ(wrong("global.health_sensitivity", 1001), "is out of range");
  EXPECT_EQ(wrong("global.health_sensitivity", "0x10"), "");
  EXPECT_EQ(wrong("global.health_sensitivity", "ten"), "is not a number");
  EXPECT_EQ(wrong("ulnet.perf_target", "True"), "");
  EXPECT_EQ(wrong("ulnet.perf_target", "maybe"), "is not true or false");
  EXPECT_EQ(wrong("ulnet.idle", "busy"), "");
  EXPECT_EQ(wrong("ulnet.cores", "2-5,8"), "");
  EXPECT_EQ(wrong("ulnet.cores", "five"), "is not a list of cores");
  Slots slots;
  EXPECT_EQ(field_assign(*field_find("ulnet.idle"), "interrupt", slots), "");
  EXPECT_EQ(slots.ulnet.idle, Idle::kInterrupt);
  EXPECT_EQ(field_value(*field_find("global.discovery"), slots), Doc(1));
  EXPECT_EQ(field_allowed(*field_find("ulnet.idle")), "busy, adaptive or interrupt");
  EXPECT_EQ(field_allowed(*field_find("ulnet.accept_port")), "1..65535");
}

TEST(ConfigSchema, nearest_key) {
  EXPECT_EQ(field_nearest("ulnet", "unpriviledged_ports"), "unprivileged_ports");
  EXPECT_EQ(field_nearest("", "nets"), "net");
  EXPECT_EQ(field_nearest("net.local NI(s).tunables", "peer_credit"), "peer_credits");
  EXPECT_EQ(field_nearest("", "something else"), "");
}

}  // namespace
}  // namespace ulnet::config
