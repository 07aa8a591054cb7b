// The descriptors of selection policies: a network, or addresses on one. Pure. Source: docs/wire/lnetctl.md §4.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace ulnet::config {

inline constexpr const char* kUdspAllowed =
    "a network such as tcp1 or tcp[1-3], or addresses on one such as *@tcp or 10.1.1.[5-8]@o2ib";

/// The error in a descriptor, and the position of the character with the error, counted from 1.
struct UdspWrong {
  size_t position = 0;
  std::string what;
};
/// Nothing when the descriptor is good.
[[nodiscard]] std::optional<UdspWrong> udsp_wrong(std::string_view text);

}  // namespace ulnet::config
