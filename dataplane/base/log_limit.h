// Rate limit for log lines that untrusted peers can trigger. Above the limit, only a count is logged. Each cause has
// its own object, so that one flood does not hide other lines. Thread: control.
#pragma once
#include <cstdint>
#include <optional>
#include <utility>

#include "dataplane/base/time.h"

namespace ulnet {

class LogLimit {
 public:
  static constexpr unsigned kLines = 10;  ///< in each kWindow, unless said otherwise
  static constexpr Duration kWindow = 10s;

  LogLimit() = default;
  explicit LogLimit(unsigned lines_max) : lines_max_(lines_max) {}

  /// Whether a line may be written now; then how many were left out since the last one.
  [[nodiscard]] std::optional<uint64_t> allows(Instant now) {
    if (window_ == kNever || now - window_ >= kWindow) {
      window_ = now;
      lines_ = 0;
    }
    if (lines_ == lines_max_) {
      ++left_out_;
      return {};
    }
    ++lines_;
    return std::exchange(left_out_, 0);
  }

 private:
  Instant window_ = kNever;
  unsigned lines_max_ = kLines;
  unsigned lines_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace ulnet
