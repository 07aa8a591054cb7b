// YAML to typed changes. The only place that touches yaml-cpp and catches its exceptions. Source: docs/wire/lnetctl.md
// §5. Reading never throws, and memory stays in proportion to the text: aliases are refused, depth and keys are
// bounded.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "config/change.h"

namespace ulnet::config {

/// Documents of a text (lnetctl separates errors by `---`), or its mistakes.
struct YamlText {
  std::vector<Doc> documents;
  Problems errors;
};
/// Reads any of lnetctl's layouts. Plain true/false become booleans, plain decimal numbers integers, all else text.
/// `file` is only named in errors.
[[nodiscard]] YamlText yaml_read(std::string_view text, const std::string& file);

/// The purpose of an import (`ulnetctl import --add`, ...).
enum class ImportMode : uint8_t { kAdd, kDel, kShow, kExec };

/// A ping or discovery that a file requests (--exec).
struct ExecRequest {
  std::string object;  ///< "ping" or "discover"
  std::vector<Nid> nids;
  Milliseconds timeout{1000};
  std::optional<Nid> source;
  bool force = false;
};

/// The whole content of a file. If `errors` is not empty, no part of it may be applied.
struct Imported {
  ChangeList changes;                 ///< kAdd: in the order of the file; kDel: nets last
  std::vector<std::string> sections;  ///< kShow: sections to show
  std::vector<ExecRequest> exec;      ///< kExec
  Problems errors;                    ///< all mistakes, not only the first
  Problems warnings;
};

/// Reads and checks a configuration text.
[[nodiscard]] Imported load_text(std::string_view text, const std::string& file, ImportMode mode = ImportMode::kAdd);
/// The same from a file; "-" is standard input. A file that cannot be read is an error of the result.
[[nodiscard]] Imported load_file(const std::string& path, ImportMode mode = ImportMode::kAdd);

/// Most bytes of a configuration.
inline constexpr size_t kConfigBytesMax = 16u << 20;

}  // namespace ulnet::config
