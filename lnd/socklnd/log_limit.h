// Lines of the journal that strangers can cause: so many in a while, then only their number. Thread: control.
#pragma once
#include <cstdint>
#include <string>

#include "dataplane/base/time.h"

namespace ulnet::socklnd {

class LogLimit {
 public:
  static constexpr unsigned kLines = 10;  ///< in each kWindow
  static constexpr Duration kWindow = 10s;

  /// Whether a line may be written now. `note` is what to put behind it: how many were left out since the last one.
  [[nodiscard]] bool allows(Instant now, std::string& note) {
    if (window_ == kNever || now - window_ >= kWindow) {
      window_ = now;
      lines_ = 0;
    }
    if (lines_ == kLines) {
      ++left_out_;
      return false;
    }
    ++lines_;
    note = left_out_ == 0 ? "" : " (" + std::to_string(left_out_) + " such lines left out before)";
    left_out_ = 0;
    return true;
  }

 private:
  Instant window_ = kNever;
  unsigned lines_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace ulnet::socklnd
