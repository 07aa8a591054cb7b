// config/reference.md, generated from the field table.
#include <fmt/format.h>

#include "config/schema.h"

namespace ulnet::config {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string type_text(const Field& field) {
  switch (field.type) {
    case FieldType::kMap: return "map";
    case FieldType::kList: return "list";
    case FieldType::kBool: return "true or false";
    case FieldType::kText: return "text";
    case FieldType::kNet: return "network";
    case FieldType::kNid: return "NID";
    case FieldType::kInterfaces: return "map of interfaces";
    case FieldType::kTextList: return "map or list of texts";
    case FieldType::kIgnored: return "ignored";
    case FieldType::kRaw: return "list";
    case FieldType::kInteger:
    case FieldType::kSeconds:
    case FieldType::kMilliseconds:
    case FieldType::kEnum:
    case FieldType::kCptList:
    case FieldType::kCoreList: return field_allowed(field);
  }
  return "";
}

constexpr const char* kIntro =
    "# Every key of the configuration\n\n"
    "Generated from config/schema_lnet.cc, config/schema_ulnet.cc and the rows of the drivers, such as\n"
    "lnd/socklnd/fields.cc. To change this file, change those tables, then\n"
    "run `ninja config/reference-md && config/reference-md > ../config/reference.md` in the build directory.\n\n"
    "The file is YAML in lnetctl's schema, in any of its layouts, plus one section `ulnet`. `ulnetd --config FILE`\n"
    "reads the file at start. `ulnetctl import FILE` applies the file to a running node: either all of it or nothing.\n"
    "Unknown keys are errors. Every entry of a list may carry `seq_no: N`; errors about that entry repeat it.\n\n"
    "*restart* marks keys that a running ulnetd takes only at its next start. Import of such a key gives a warning.\n"
    "*no effect* marks keys that are accepted, kept and exported, and that change nothing yet. If such a key gets\n"
    "another value than its default, ulnet gives a warning.\n\n"
    "`export` prints the whole node. An import of that text gives the same node, and fixes addresses and connections\n"
    "that followed the machine before. Discovered peers are left out; discovery finds them again.\n\n"
    "`export --backup` prints only the configured values. The backup has no discovered peers, no health values, no\n"
    "addresses that the interface alone determines and no driver settings that nobody set. Instead of the rules of\n"
    "`ip2nets`, the backup has the NIs that the rules gave.\n";

/// True if the key, or its parent key, takes effect only at the start.
bool is_restart(const Field& field) {
  if (field.needs_restart) return true;
  const std::string_view path = field.path;
  const size_t dot = path.rfind('.');
  const Field* parent = dot == std::string_view::npos ? nullptr : field_find(path.substr(0, dot));
  return parent != nullptr && is_restart(*parent);
}

/// The marks of a key, which follow its meaning.
std::string marks(const Field& field) {
  std::string out = is_restart(field) ? " *restart*" : "";
  if (field.no_effect[0] != 0) out += fmt::format(" *no effect*: {}.", field.no_effect);
  return out;
}

/// The keys of `section` that are accepted and not used, as one sentence.
std::string ignored_text(std::string_view section) {
  std::string keys;
  for (const Field& field : fields()) {
    std::string_view path = field.path;
    if (field.type != FieldType::kIgnored || field.text[0] != 0 || path.substr(0, path.find('.')) != section) continue;
    keys += fmt::format("{}`{}`", keys.empty() ? "" : ", ", path.substr(path.find('.') + 1));
  }
  return keys.empty() ? keys : fmt::format("\nShown, and ignored on import: {}.\n", keys);
}

}  // namespace

std::string reference_markdown() {
  std::string out = kIntro;
  std::string_view section;
  for (const Field& field : fields()) {
    std::string_view path = field.path;
    if (path.find('.') == std::string_view::npos) {
      out += ignored_text(section);
      section = path;
      out += fmt::format("\n## {}\n\n{}{}\n", path, field.text, marks(field));
      if (field.type == FieldType::kMap || field.type == FieldType::kList) {
        out += "\n| key | value | default | meaning |\n|---|---|---|---|\n";
      }
      continue;
    }
    if (field.type == FieldType::kIgnored && field.text[0] == 0) continue;
    out += fmt::format("| `{}` | {} | {} | {}{} |\n", path.substr(path.find('.') + 1), escaped(type_text(field)),
                       escaped(field_default(field)), escaped(field.text), escaped(marks(field)));
  }
  return out + ignored_text(section);
}

}  // namespace ulnet::config
