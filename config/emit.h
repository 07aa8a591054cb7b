// A Doc as text: YAML in the layouts that lnetctl prints, and JSON both ways. Source: docs/wire/lnetctl.md §3, §6.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "config/doc.h"
#include "config/problem.h"

namespace ulnet::config {

using Json = nlohmann::ordered_json;  // its users include <nlohmann/json.hpp>

/// How a document is laid out as YAML. All carry the same data; a reader must take all three.
enum class Layout : uint8_t {
  kClassic,   ///< the older one: list items "    - key:", booleans True and False
  kNetlink,   ///< today's net, peer and route: indent 6, lists start in the column of their key
  kNetlink2,  ///< today's ping and discover: the same with indent 2
};

/// The layout in which lnetctl prints the section `key` today (docs/decisions.md #25).
[[nodiscard]] Layout layout_of_section(std::string_view key);
/// The whole document in one layout. Requires: a map at the top (anything else gives "").
[[nodiscard]] std::string emit(const Doc& doc, Layout layout);
/// Each top-level section in the layout that lnetctl prints it in today: a map, or nothing for an empty one.
[[nodiscard]] std::string emit(const Doc& doc);
/// emit(doc, Layout::kClassic).
[[nodiscard]] std::string emit_classic(const Doc& doc);

/// Maps keep their order; null, booleans, numbers and text keep their types.
[[nodiscard]] Json to_json(const Doc& doc);
/// The reverse. Deeper nesting than kDepthMax becomes null (json_parse() refuses it before).
[[nodiscard]] Doc from_json(const Json& json);
/// Parses JSON text from an untrusted source. Never throws; refuses nesting deeper than kDepthMax and maps above
/// kMapKeysMax. Errors: a sentence with the byte offset.
[[nodiscard]] tl::expected<Json, std::string> json_parse(std::string_view text);

/// Upper bound of the bytes needed to parse this text, or to make text of this document, and to free the result again.
/// The destructor of Json allocates, and a failure there ends the process: check first that this memory is available.
[[nodiscard]] size_t json_memory(std::string_view text);
[[nodiscard]] size_t json_memory_of(const Doc& doc);

/// JSON text on one line; bytes that are not UTF-8 are replaced. Never throws.
[[nodiscard]] std::string json_dump(const Json& json);

/// Deepest nesting of a document, read or received.
inline constexpr int kDepthMax = 64;
/// Most keys of one map: they are searched one by one.
inline constexpr size_t kMapKeysMax = 4096;

}  // namespace ulnet::config
