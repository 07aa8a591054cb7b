#include "config/ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "dataplane/base/nid_text.h"

namespace ulnet::config {
namespace {

constexpr size_t kRangeTextMax = 256;
constexpr size_t kInterfaceNameMax = 15;  // IFNAMSIZ - 1

tl::unexpected<std::string> bad(std::string what) {
  return tl::unexpected<std::string>(std::move(what));
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// Reads a decimal number off the front of `text`.
std::optional<uint32_t> number_take(std::string_view& text) {
  uint32_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

bool take(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

/// The numbers of "1-5/2,8", the text between two brackets.
Parsed<std::vector<uint32_t>> numbers_parse(std::string_view inside, size_t max) {
  std::vector<uint32_t> numbers;
  std::string_view rest = inside;
  do {
    std::optional<uint32_t> first = number_take(rest), last = first, stride = 1u;
    if (take(rest, '-')) last = number_take(rest);
    if (take(rest, '/')) stride = number_take(rest);
    if (!first || !last || !stride || *stride == 0) {
      return bad(fmt::format("'[{}]' is not a list of numbers and ranges such as [1-5,8] or [2-8/2]", inside));
    }
    if (*first > *last) return bad(fmt::format("in '[{}]' the start of a range is above its end", inside));
    if ((*last - *first) / *stride >= max) return bad(fmt::format("'[{}]' stands for more than {}", inside, max));
    for (uint64_t n = *first; n <= *last; n += *stride) {
      if (numbers.size() >= max) return bad(fmt::format("'[{}]' stands for more than {}", inside, max));
      numbers.push_back(static_cast<uint32_t>(n));
    }
  } while (take(rest, ','));
  if (!rest.empty())
    return bad(fmt::format("'[{}]' is not a list of numbers and ranges such as [1-5,8] or [2-8/2]", inside));
  return numbers;
}

bool part_matches(std::string_view part, unsigned value) {
  if (part == "*") return true;
  auto texts = range_expand(part);
  return texts && std::any_of(texts->begin(), texts->end(), [&](const std::string& text) {
           unsigned number = 0;
           const auto end = text.data() + text.size();
           return std::from_chars(text.data(), end, number).ptr == end && number == value;
         });
}

}  // namespace

Parsed<std::vector<std::string>> list_split(std::string_view text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  bool inside = false;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') inside = true;
    if (i < text.size() && text[i] == ']') inside = false;
    if (i < text.size() && (text[i] != ',' || inside)) continue;
    std::string_view part = trimmed(text.substr(begin, i - begin));
    if (part.empty()) return bad(fmt::format("'{}' has an empty element", text));
    if (parts.size() >= kRangeMax) return bad(fmt::format("a list of more than {} elements", kRangeMax));
    parts.emplace_back(part);
    begin = i + 1;
  }
  if (inside) return bad(fmt::format("'{}' has a bracket that is not closed", text));
  return parts;
}

Parsed<std::vector<std::string>> range_expand(std::string_view text, size_t max) {
  if (text.size() > kRangeTextMax) return bad(fmt::format("a range of more than {} characters", kRangeTextMax));
  std::vector<std::string> out{""};
  while (true) {
    size_t open = text.find('[');
    for (std::string& prefix : out) prefix += text.substr(0, open);
    if (open == std::string_view::npos) return out;
    size_t close = text.find(']', open);
    if (close == std::string_view::npos) return bad(fmt::format("'{}' has a bracket that is not closed", text));
    auto numbers = numbers_parse(text.substr(open + 1, close - open - 1), max);
    if (!numbers) return bad(numbers.error());
    if (out.size() * numbers->size() > max) return bad(fmt::format("a range that stands for more than {}", max));
    std::vector<std::string> longer;
    longer.reserve(out.size() * numbers->size());
    for (const std::string& prefix : out) {
      for (uint32_t number : *numbers) longer.push_back(prefix + std::to_string(number));
    }
    out = std::move(longer);
    text.remove_prefix(close + 1);
  }
}

Parsed<std::vector<std::string>> list_expand(std::string_view text, size_t max) {
  auto parts = list_split(text);
  if (!parts) return parts;
  std::vector<std::string> out;
  for (const std::string& part : *parts) {
    auto texts = range_expand(part, max);
    if (!texts) return texts;
    if (out.size() + texts->size() > max) return bad(fmt::format("a list that stands for more than {}", max));
    out.insert(out.end(), std::make_move_iterator(texts->begin()), std::make_move_iterator(texts->end()));
  }
  return out;
}

Parsed<std::vector<Net>> nets_parse(std::string_view text) {
  auto texts = list_expand(text);
  if (!texts) return bad(texts.error());
  std::vector<Net> nets;
  for (const std::string& one : *texts) {
    auto net = net_parse(one);
    if (!net || *net == kAnyNet) return bad(fmt::format("'{}' is not a network such as tcp, tcp1 or o2ib3", one));
    nets.push_back(*net);
  }
  return nets;
}

Parsed<std::vector<Nid>> nids_parse(std::string_view text) {
  auto texts = list_expand(text);
  if (!texts) return bad(texts.error());
  std::vector<Nid> nids;
  for (const std::string& one : *texts) {
    auto nid = nid_parse(one);
    if (!nid || nid->is_any()) return bad(fmt::format("'{}' is not a NID such as 10.0.0.1@tcp", one));
    nids.push_back(*nid);
  }
  return nids;
}

Parsed<std::vector<InterfaceSpec>> interfaces_parse(std::string_view text) {
  auto parts = list_split(text);
  if (!parts) return bad(parts.error());
  std::vector<InterfaceSpec> interfaces;
  for (const std::string& part : *parts) {
    InterfaceSpec spec;
    size_t open = part.find('[');
    spec.name = part.substr(0, open);
    if (spec.name.empty() || spec.name.size() > kInterfaceNameMax ||
        spec.name.find_first_of(" \t/]") != std::string::npos) {
      return bad(fmt::format("'{}' is not the name of an interface", part));
    }
    if (open != std::string::npos) {
      auto cpts = cpt_list_parse(std::string_view(part).substr(open));
      if (!cpts) return bad(cpts.error());
      spec.cpts = std::move(*cpts);
    }
    for (const InterfaceSpec& other : interfaces) {
      if (other.name == spec.name) return bad(fmt::format("interface '{}' is listed twice", spec.name));
    }
    interfaces.push_back(std::move(spec));
  }
  return interfaces;
}

Parsed<std::vector<uint16_t>> cpt_list_parse(std::string_view text) {
  std::string_view inside = trimmed(text);
  if (inside.size() >= 2 && inside.front() == '[' && inside.back() == ']') {
    inside.remove_prefix(1);
    inside.remove_suffix(1);
  }
  std::string packed;
  for (char c : inside) {
    if (c != ' ') packed += c;
  }
  auto numbers = numbers_parse(packed, 1024);
  if (!numbers) return bad(fmt::format("'{}' is not a list of CPTs such as [0,1]", text));
  std::vector<uint16_t> cpts;
  for (uint32_t number : *numbers) {
    if (number >= 1024) return bad(fmt::format("CPT {} is out of range 0..1023", number));
    if (std::find(cpts.begin(), cpts.end(), number) == cpts.end()) cpts.push_back(static_cast<uint16_t>(number));
  }
  return cpts;
}

Parsed<std::vector<uint16_t>> core_list_parse(std::string_view text) {
  auto numbers = numbers_parse(trimmed(text), 4096);
  if (!numbers) return bad(fmt::format("'{}' is not a list of cores such as 2-5,8", text));
  std::vector<uint16_t> cores;
  for (uint32_t number : *numbers) {
    if (number >= 4096) return bad(fmt::format("core {} is out of range 0..4095", number));
    cores.push_back(static_cast<uint16_t>(number));
  }
  std::sort(cores.begin(), cores.end());
  cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
  return cores;
}

bool ip_pattern_valid(std::string_view text) {
  for (int part = 0; part < 4; ++part) {
    if (part > 0 && !take(text, '.')) return false;
    if (take(text, '*')) continue;
    size_t length = 0;
    std::string_view inside;
    if (!text.empty() && text.front() == '[') {
      length = text.find(']');
      if (length == std::string_view::npos) return false;
      inside = text.substr(1, length - 1);
      ++length;
    } else {
      length = std::min(text.find('.'), text.size());
      inside = text.substr(0, length);
      if (inside.find_first_not_of("0123456789") != std::string_view::npos) return false;
    }
    auto numbers = numbers_parse(inside, 256);
    if (!numbers || std::any_of(numbers->begin(), numbers->end(), [](uint32_t n) { return n > 255; })) return false;
    text.remove_prefix(length);
  }
  return text.empty();
}

// No dot is expected inside brackets: ranges hold numbers only.
bool ip_pattern_matches(std::string_view pattern, uint32_t address) {
  for (unsigned i = 0; i < 4; ++i) {
    const size_t dot = pattern.find('.');
    if ((dot == std::string_view::npos) != (i == 3)) return false;
    if (!part_matches(pattern.substr(0, dot), (address >> (24 - 8 * i)) & 0xFF)) return false;
    if (i < 3) pattern.remove_prefix(dot + 1);
  }
  return true;
}

std::string cpt_list_text(const std::vector<uint16_t>& cpts) {
  return fmt::format("[{}]", fmt::join(cpts, ","));
}

std::string interface_text(const InterfaceSpec& interface) {
  return interface.cpts.empty() ? interface.name : interface.name + cpt_list_text(interface.cpts);
}

}  // namespace ulnet::config
