// The severity of a line of the journal: its first word says it. Any thread.
#pragma once
#include <string>
#include <string_view>

#include "config/model.h"

namespace ulnet {

inline constexpr std::string_view kWarning = "warning: ";

/// Of "error: ...", "warning: ..." and "debug: ..."; every other line is info.
[[nodiscard]] inline config::LogLevel level_of(std::string_view line) {
  if (line.starts_with("error: ")) return config::LogLevel::kError;
  if (line.starts_with("warning: ")) return config::LogLevel::kWarning;
  return line.starts_with("debug: ") ? config::LogLevel::kDebug : config::LogLevel::kInfo;
}

}  // namespace ulnet
