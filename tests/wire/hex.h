// Bytes as the documents print them, for golden tests.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ulnet::test {

/// "14 7a a8" to bytes; blanks and line ends are skipped, "00*24" means 24 such bytes.
inline std::vector<std::byte> hex(std::string_view text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::vector<std::byte> out;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == ' ' || text[i] == '\n') {
      ++i;
      continue;
    }
    const auto byte = std::byte(digit(text[i]) * 16 + digit(text[i + 1]));
    size_t count = 1;
    i += 2;
    if (i < text.size() && text[i] == '*') {
      for (count = 0, ++i; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i)
        count = count * 10 + size_t(digit(text[i]));
    }
    out.insert(out.end(), count, byte);
  }
  return out;
}

/// The other way round, 16 bytes a line, so that a failed comparison can be read.
inline std::string hex_text(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < bytes.size(); ++i) {
    out += kDigits[size_t(bytes[i]) >> 4];
    out += kDigits[size_t(bytes[i]) & 15];
    out += (i % 16 == 15) ? '\n' : ' ';
  }
  return out;
}

}  // namespace ulnet::test
