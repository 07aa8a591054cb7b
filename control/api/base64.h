// Bytes as JSON text can carry them (RFC 4648 §4, with padding).
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ulnet::api {

[[nodiscard]] std::string base64_encode(std::span<const std::byte> bytes);
/// Nothing when `text` is not base64.
[[nodiscard]] std::optional<std::vector<std::byte>> base64_decode(std::string_view text);

}  // namespace ulnet::api
