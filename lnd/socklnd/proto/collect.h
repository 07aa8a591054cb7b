// Collects the first bytes of a stream piece by piece into a fixed buffer, for the incremental decoders here. The
// reader of the socket does not need to find the end of a structure. The reader hands over the bytes that it has, and
// the decoder takes the bytes that it needs.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>

#include "dataplane/base/check.h"

namespace ulnet::socklnd {

template <size_t kCapacity>
class Collector {
 public:
  /// Bytes still missing to the goal.
  [[nodiscard]] size_t need() const { return goal_ - have_; }
  [[nodiscard]] size_t have() const { return have_; }
  [[nodiscard]] const std::byte* data() const { return bytes_.data(); }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {bytes_.data(), have_}; }
  /// Requires have() <= goal <= capacity.
  void set_goal(size_t goal) {
    ULNET_CHECK(goal >= have_ && goal <= kCapacity);
    goal_ = goal;
  }
  void reset(size_t goal) {
    have_ = 0;
    set_goal(goal);
  }
  /// Moves bytes from the front of `in` until the goal is reached; true when it is.
  bool take(std::span<const std::byte>& in) {
    const size_t count = std::min(need(), in.size());
    if (count != 0) std::memcpy(bytes_.data() + have_, in.data(), count);
    have_ += count;
    in = in.subspan(count);
    return have_ == goal_;
  }

 private:
  std::array<std::byte, kCapacity> bytes_{};
  size_t have_ = 0;
  size_t goal_ = 0;
};

}  // namespace ulnet::socklnd
