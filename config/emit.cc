#include "config/emit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace ulnet::config {
namespace {

constexpr std::string_view kIndicators = "-?:,[]{}#&*!|>'\"%@`";

/// True when `text`, written plain, would not be read back as this same text.
bool needs_quotes(const Doc& doc, const std::string& text) {
  if (doc.kind() != Doc::Kind::kText) return false;
  if (text.empty() || text == "~" || text == "null" || doc.boolean() || text == "..." || text == "---") return true;
  if (text.front() == ' ' || text.back() == ' ' || text.back() == ':') return true;
  if (kIndicators.find(text.front()) != std::string_view::npos || canonical_integer(text)) return true;
  return text.find(": ") != std::string::npos || text.find(" #") != std::string::npos ||
         std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

std::string double_quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\t': out += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
          constexpr const char* kHex = "0123456789ABCDEF";
          out += "\\x";
          out += kHex[static_cast<unsigned char>(c) >> 4];
          out += kHex[static_cast<unsigned char>(c) & 15];
        } else {
          out += c;
        }
    }
  }
  return out + '"';
}

bool has_control(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

std::string single_quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) {
    out += c;
    if (c == '\'') out += c;
  }
  return out + "'";
}

/// Writes one document in one layout. Columns are counted from 0.
class YamlWriter {
 public:
  YamlWriter(std::string& out, Layout layout) : out_(out), layout_(layout) {}

  /// Entries of `map`, each on a line of its own at `column`; the first one continues the line when `inline_first`.
  void map_write(const Doc& map, size_t column, bool inline_first) {
    for (const Doc::Entry& entry : map.entries()) {
      if (!inline_first) out_.append(column, ' ');
      inline_first = false;
      out_ += key_text(entry.key);
      out_ += ':';
      value_write(entry.key, entry.value, column);
    }
  }

 private:
  void value_write(const std::string& key, const Doc& value, size_t column) {
    if (value.is_map() && value.size() > 0) {
      out_ += '\n';
      map_write(value, column + map_indent(), false);
    } else if (value.is_list() && value.size() > 0) {
      out_ += '\n';
      list_write(value, column + list_indent(column));
    } else {
      std::string text = scalar_text(key, value);
      if (!text.empty()) out_ += ' ' + text;
      out_ += '\n';
    }
  }

  void list_write(const Doc& list, size_t column) {
    size_t gap = layout_ == Layout::kNetlink ? 5 : 1;
    for (const Doc::Entry& item : list.entries()) {
      out_.append(column, ' ');
      out_ += '-';
      if (item.value.is_map() && item.value.size() > 0) {
        out_.append(gap, ' ');
        map_write(item.value, column + 1 + gap, true);
      } else if (item.value.is_list() && item.value.size() > 0) {
        out_ += '\n';
        list_write(item.value, column + 1 + gap);
      } else {
        out_.append(gap, ' ');
        out_ += scalar_text({}, item.value) + '\n';
      }
    }
  }

  [[nodiscard]] size_t map_indent() const {
    switch (layout_) {
      case Layout::kClassic: return 4;
      case Layout::kNetlink: return 6;
      case Layout::kNetlink2: return 2;
    }
    return 2;
  }
  [[nodiscard]] size_t list_indent(size_t column) const {
    if (layout_ != Layout::kClassic) return 0;
    return column == 0 ? 4 : 2;
  }

  [[nodiscard]] std::string key_text(const std::string& key) const {
    bool number = !key.empty() && key.find_first_not_of("0123456789") == std::string::npos;  // 0: eth0
    return !number && needs_quotes(Doc(key), key) ? double_quoted(key) : key;
  }

  [[nodiscard]] std::string scalar_text(const std::string& key, const Doc& value) const {
    if (value.is_null()) return {};
    if (value.is_map()) return "{}";
    if (value.is_list()) return "[]";
    std::string text = value.text();
    if (value.kind() == Doc::Kind::kBool && layout_ == Layout::kClassic) return text == "true" ? "True" : "False";
    if (key == "descr" && value.kind() == Doc::Kind::kText) {  // how each layout prints the text of an error
      if (layout_ == Layout::kClassic) return double_quoted(text);
      if (layout_ == Layout::kNetlink || has_control(text)) return "! " + double_quoted(text);
      return "! " + single_quoted(text);
    }
    return needs_quotes(value, text) ? double_quoted(text) : text;
  }

  std::string& out_;
  Layout layout_;
};

}  // namespace

Layout layout_of_section(std::string_view key) {
  constexpr std::array kNetlink = {"net", "peer", "peer list", "route", "Local NI recovery", "Peer NI recovery"};
  constexpr std::array kErrorVerbs = {"add", "del", "show", "set", "configure", "reset", "parser", "export"};
  if (key == "ping" || key == "discover" || key == "manage") return Layout::kNetlink2;
  if (std::find(kNetlink.begin(), kNetlink.end(), key) != kNetlink.end()) return Layout::kNetlink;
  if (std::find(kErrorVerbs.begin(), kErrorVerbs.end(), key) != kErrorVerbs.end()) return Layout::kNetlink;
  return Layout::kClassic;
}

std::string emit(const Doc& doc, Layout layout) {
  std::string out;
  if (doc.is_map()) YamlWriter(out, layout).map_write(doc, 0, false);
  return out;
}

std::string emit(const Doc& doc) {
  std::string out;
  for (const Doc::Entry& entry : doc.entries()) {
    if (!doc.is_map()) break;
    Doc section = Doc::map();
    section.set(entry.key, entry.value);
    out += emit(section, layout_of_section(entry.key));
  }
  return out;
}

std::string emit_classic(const Doc& doc) {
  return emit(doc, Layout::kClassic);
}

Json to_json(const Doc& doc) {
  switch (doc.kind()) {
    case Doc::Kind::kNull: return nullptr;
    case Doc::Kind::kBool: return *doc.boolean();
    case Doc::Kind::kInteger: return *doc.integer();
    case Doc::Kind::kReal: return doc.real();
    case Doc::Kind::kText: return doc.text();
    case Doc::Kind::kList: {
      Json list = Json::array();
      for (const Doc::Entry& item : doc.entries()) list.push_back(to_json(item.value));
      return list;
    }
    case Doc::Kind::kMap: {
      Json map = Json::object();
      for (const Doc::Entry& entry : doc.entries()) map[entry.key] = to_json(entry.value);
      return map;
    }
  }
  return nullptr;
}

namespace {

Doc from_json_at(const Json& json, int depth) {
  if (depth > kDepthMax) return {};
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned()) return json.get<uint64_t>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return json.get_ref<const std::string&>();
  if (json.is_array()) {
    Doc list = Doc::list();
    for (const Json& item : json) list.push(from_json_at(item, depth + 1));
    return list;
  }
  if (!json.is_object()) return {};
  Doc map = Doc::map();  // entries are appended directly: set() searches, and JSON keys are unique already
  for (const auto& [key, value] : json.items()) map.entries().push_back({key, {}, from_json_at(value, depth + 1)});
  return map;
}

}  // namespace

Doc from_json(const Json& json) {
  return from_json_at(json, 0);
}

tl::expected<Json, std::string> json_parse(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  std::array<size_t, kDepthMax + 1> keys{};  // of the open object at each depth: looking one up is linear
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDepthMax) return tl::unexpected("JSON nested too deeply at byte " + std::to_string(i));
      keys[static_cast<size_t>(depth)] = 0;
    } else if (c == ']' || c == '}') {
      if (--depth < 0) break;
    } else if (c == ':' && ++keys[static_cast<size_t>(depth)] > kMapKeysMax) {
      return tl::unexpected("JSON object with too many keys at byte " + std::to_string(i));
    }
  }
  Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  if (json.is_discarded()) return tl::unexpected(std::string("not valid JSON"));
  return json;
}

namespace {

/// Memory of one value: the value and its key, copies while a vector grows and while the destructor moves it, and the
/// result.
constexpr size_t kValueBytes = 384;
/// Memory of one byte of text: in a string that grows, and once more in the value.
constexpr size_t kTextBytes = 4;

}  // namespace

size_t json_memory(std::string_view text) {
  const auto ends_value = [](char c) { return c == ',' || c == '[' || c == '{'; };
  return size_t(std::count_if(text.begin(), text.end(), ends_value)) * kValueBytes + text.size() * kTextBytes;
}

size_t json_memory_of(const Doc& doc) {
  size_t bytes = kValueBytes + (doc.kind() == Doc::Kind::kText ? doc.text().size() * kTextBytes : 0);
  for (const Doc::Entry& entry : doc.entries()) bytes += entry.key.size() * kTextBytes + json_memory_of(entry.value);
  return bytes;
}

std::string json_dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Problem problem_of(int code, std::string what, size_t index) {
  Problem problem;
  problem.code = code > 0 ? -code : code;
  problem.what = std::move(what);
  problem.index = index;
  return problem;
}

Problem problem_of(const char* doing, const Error& error) {
  return problem_of(error.code, error.object == 0 ? fmt::format("{}: {}", doing, error.what)
                                                  : fmt::format("{}: {} ({})", doing, error.what, error.object));
}

std::string problem_text(const Problem& problem) {
  std::string out;
  if (!problem.file.empty()) {
    out += problem.file + ':';
    if (problem.mark.line != 0) {
      out += std::to_string(problem.mark.line) + ':' + std::to_string(problem.mark.column) + ':';
    }
    out += ' ';
  }
  if (!problem.path.empty()) out += problem.path + ": ";
  if (!problem.value.empty()) out += '\'' + problem.value + "' ";
  out += problem.what;
  if (!problem.allowed.empty()) out += "; allowed: " + problem.allowed;
  return out;
}

}  // namespace ulnet::config
