#include "control/api/base64.h"

#include <cstdint>

namespace ulnet::api {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string base64_encode(std::span<const std::byte> bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t left = bytes.size() - at;
    uint32_t group = 0;
    for (size_t i = 0; i < 3; ++i) group = group << 8 | (i < left ? uint32_t(bytes[at + i]) : 0);
    for (size_t i = 0; i < 4; ++i) out += i <= left ? kDigits[group >> (18 - 6 * i) & 63] : '=';
  }
  return out;
}

std::optional<std::vector<std::byte>> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) return {};
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  std::vector<std::byte> out;
  out.reserve(text.size() / 4 * 3);
  uint32_t group = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t digit = i < text.size() - padding ? kDigits.find(text[i]) : 0;
    if (digit == std::string_view::npos) return {};
    group = group << 6 | uint32_t(digit);
    if (i % 4 != 3) continue;
    for (int shift : {16, 8, 0}) out.push_back(std::byte(group >> shift & 0xFF));
  }
  out.resize(out.size() - padding);
  return out;
}

}  // namespace ulnet::api
