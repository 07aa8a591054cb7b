#include "config/udsp.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "config/ranges.h"
#include "dataplane/base/nid_text.h"

namespace ulnet::config {

bool UdspPattern::contains(const Range* begin, const Range* end, uint32_t value) {
  const Range* after = std::upper_bound(begin, end, value, [](uint32_t v, const Range& r) { return v < r.first; });
  return after != begin && value <= after[-1].last;
}

bool UdspPattern::matches(Net net) const {
  return contains(nets_.data(), nets_.data() + nets_.size(), net.value);
}

bool UdspPattern::matches(const Nid& nid) const {
  if (!matches(nid.net())) return false;
  if (parts_ == 0) return true;
  if (nid.size != nid_size_) return false;
  const Range* begin = addresses_.data();
  const uint8_t* byte = nid.addr.data();
  for (unsigned part = 0; part < parts_; ++part) {
    uint32_t value = 0;
    for (unsigned i = 0; i < part_bytes_; ++i) value = (value << 8) | *byte++;
    const Range* end = addresses_.data() + part_ends_[part];
    if (!contains(begin, end, value)) return false;
    begin = end;
  }
  return true;
}

void UdspPattern::key_append(std::string& key) const {
  const auto put = [&](const auto& value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); };
  put(is_net_), put(parts_), put(part_bytes_), put(nid_size_), put(part_ends_), put(nets_.size());
  for (const Range& range : nets_) put(range.first), put(range.last);
  put(addresses_.size());
  for (const Range& range : addresses_) put(range.first), put(range.last);
}

void UdspPattern::merge(std::vector<Range>& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
  size_t kept = 0;
  for (const Range& range : ranges) {
    if (kept > 0 && (ranges[kept - 1].last == UINT32_MAX || range.first <= ranges[kept - 1].last + 1))
      ranges[kept - 1].last = std::max(ranges[kept - 1].last, range.last);
    else
      ranges[kept++] = range;
  }
  ranges.resize(kept);
}

/// Parses one descriptor from its first character to its last. The first mistake stays in `wrong_`; each function that
/// returns false has set it.
class UdspReader {
 public:
  explicit UdspReader(std::string_view text) : text_(text), end_(std::min(text.find('@'), text.size())) {}

  tl::expected<UdspPattern, UdspWrong> parse() {
    if (all()) return std::move(pattern_);
    return tl::unexpected(std::move(wrong_));
  }

 private:
  using Range = UdspPattern::Range;
  using Ranges = std::vector<Range>;

  /// The numbers that a part of an address, or of the name of a network, may have.
  struct Numbers {
    int base;
    uint32_t max;
    const char* example;
  };
  static constexpr Numbers kNetNumbers = {10, UINT16_MAX, "a number, or a list such as [1-5,8] or [2-8/2]"};
  static constexpr Numbers kOctet = {10, UINT8_MAX, "a number, * or a list such as [1-5,8] or [2-8/2]"};
  static constexpr Numbers kGroup = {16, UINT16_MAX, "hexadecimal digits, * or a list such as [1-f] or [0-ff/2,a0]"};
  static constexpr Numbers kNumber = {10, UINT32_MAX, "a number, or a list such as [1-5,8] or [2-8/2]"};

  bool fail(size_t index, std::string what) {
    wrong_ = {index + 1, std::move(what)};
    return false;
  }
  [[nodiscard]] bool at(char c) const { return at_ < limit_ && text_[at_] == c; }
  bool take(char c) { return at(c) && ++at_ > 0; }

  bool all() {
    if (text_.empty()) return fail(0, "the text is empty");
    if (text_.size() > kUdspTextMax)
      return fail(kUdspTextMax, fmt::format("the text has more than {} characters", kUdspTextMax));
    const bool with_address = end_ < text_.size();
    if (!nets(with_address ? end_ + 1 : 0)) return false;
    const std::string_view address = text_.substr(0, end_);
    pattern_.is_net_ = !with_address || address == "*";
    if (pattern_.is_net_ || address == "*.*.*.*") return true;
    if (address.empty()) return fail(0, "the address is missing before the '@'");
    return address_read(address);
  }

  // ---- networks ----

  bool nets(size_t begin) {
    if (begin == text_.size()) return fail(begin, "the network is missing");
    if (const size_t second = text_.find('@', begin); second != std::string_view::npos)
      return fail(second, "a descriptor has one '@'; write a rule for each of the NIDs");
    bool inside = false;
    for (size_t i = begin; i <= text_.size(); ++i) {
      if (i < text_.size() && text_[i] == '[') inside = true;
      if (i < text_.size() && text_[i] == ']') inside = false;
      if (i < text_.size() && (text_[i] != ',' || inside)) continue;
      if (!net_element(begin, i)) return false;
      begin = i + 1;
    }
    UdspPattern::merge(pattern_.nets_);
    return true;
  }

  /// One network, or a range of networks, between two commas.
  bool net_element(size_t begin, size_t end) {
    while (begin < end && text_[begin] == ' ') ++begin;
    while (begin < end && text_[end - 1] == ' ') --end;
    const std::string_view element = text_.substr(begin, end - begin);
    if (element.empty()) return fail(begin, "the list of networks has an empty element");
    const size_t special = element.find_first_of("[*");
    const std::string_view name = element.substr(0, special);
    const auto net = net_parse(name);
    const bool type_only = net && *net != kAnyNet && net_text(*net) == name && net->number() == 0;
    if (special == std::string_view::npos) return net_ranges(begin, element);
    if (element[special] == '*') {
      if (!type_only || special + 1 != element.size())
        return fail(begin + special, "a '*' may only stand for the whole number of a network, as in o2ib*");
      return net_add(begin, *net, {{0, UINT16_MAX}}, 0);
    }
    at_ = begin + special;
    limit_ = end;
    Ranges numbers;
    if (!list(kNetNumbers, numbers)) return false;
    if (!type_only || at_ != end) return net_ranges(begin, element);
    size_t count = 0;
    for (const Range& range : numbers) count += range.last - range.first + 1;
    return net_add(begin, *net, numbers, count);
  }

  /// Networks whose names are not just a type with one list of numbers: tcp1, tcp1[0-3].
  bool net_ranges(size_t begin, std::string_view element) {
    const auto nets = nets_parse(element);
    if (!nets) return fail(begin, nets.error());
    for (const Net net : *nets)
      if (!net_add(begin, net, {{net.number(), net.number()}}, 1)) return false;
    return true;
  }

  bool net_add(size_t begin, Net net, const Ranges& numbers, size_t count) {
    if (net.type() == NetType::kLo) return fail(begin, "0@lo has no policies: it is the only way to the node itself");
    net_count_ += count;
    if (net_count_ > kUdspNetsMax)
      return fail(begin, fmt::format("the text stands for more than {} networks", kUdspNetsMax));
    for (const Range& range : numbers) {
      const uint32_t base = Net::of(net.type(), 0).value;
      pattern_.nets_.push_back({base + range.first, base + range.last});
    }
    if (pattern_.nets_.size() > kUdspRangesMax) return too_many(begin);
    return true;
  }

  // ---- addresses ----

  /// Forms of an address that the text of a NID on a network may have.
  struct Forms {
    bool ipv4 = false, ipv6 = false, number = false;
    bool operator==(const Forms&) const = default;
  };
  static Forms forms_of(Net net) {
    const std::string name = net_text(net);
    if (name.front() == '<') return {};
    const auto good = [&](const char* address) { return nid_parse(address + ('@' + name)).has_value(); };
    return {good("0.0.0.1"), good("::1"), good("1")};
  }

  bool address_read(std::string_view address) {
    // The address of a network without a name, or of unusual size: exactly as nid_text() writes it.
    if (text_[end_ + 1] == '<') {
      const auto nid = nid_parse(text_);
      if (!nid) return fail(0, std::string(nid.error().what));
      return exact(*nid);
    }
    const Forms forms = forms_of(Net{pattern_.nets_.front().first});
    for (const Range& range : pattern_.nets_)
      for (uint32_t type = range.first >> 16; type <= range.last >> 16; ++type)
        if (!(forms_of(Net{type << 16}) == forms))
          return fail(0, "addresses of these networks have different forms; write a rule for each network");
    at_ = 0;
    limit_ = end_;
    if (forms.number) return number_read();
    if (!forms.ipv4) return fail(0, "a network without a name has exact addresses only, as in 1f:2@<99:0>");
    if (address.find(':') == std::string_view::npos) return ipv4_read();
    if (!forms.ipv6) return fail(address.find(':'), "this network has IPv4 addresses only");
    if (address.find('.') == std::string_view::npos) return ipv6_read();
    const auto nid = nid_parse(fmt::format("{}@{}", address, net_text(Net{pattern_.nets_.front().first})));
    if (!nid) return fail(address.find('.'), "this is not an IPv6 address");
    return exact(*nid);
  }

  bool exact(const Nid& nid) {
    const bool ip = forms_of(nid.net()).ipv4;
    const unsigned bytes = nid.size + 4u;
    form_set(nid.size == 0 && ip ? 1 : nid.size == 0 ? 4 : 2, bytes);
    for (unsigned part = 0; part < pattern_.parts_; ++part) {
      uint32_t value = 0;
      for (unsigned i = 0; i < pattern_.part_bytes_; ++i)
        value = (value << 8) | nid.addr[part * pattern_.part_bytes_ + i];
      (void)part_add(part, {{value, value}});
    }
    return true;
  }

  bool number_read() {
    form_set(4, 4);
    Ranges ranges;
    if (!part_read(kNumber, ranges)) return false;
    return at_ == limit_ ? part_add(0, std::move(ranges)) : odd("the end of the address is");
  }

  bool ipv4_read() {
    form_set(1, 4);
    std::array<Ranges, 8> parts;
    for (unsigned part = 0; part < 4; ++part) {
      if (part > 0 && !take('.')) return odd("a dot (an IPv4 address has four parts) is");
      if (!part_read(kOctet, parts[part])) return false;
    }
    return prefix_read(parts);
  }

  bool ipv6_read() {
    form_set(2, 16);
    std::array<Ranges, 8> parts;
    size_t count = 0, gap = SIZE_MAX;  // `gap`: groups before the "::"
    const auto gap_take = [&] { return gap == SIZE_MAX && text_.substr(at_, 2) == "::" && (gap = count, at_ += 2); };
    (void)gap_take();
    while (at_ < limit_ && !at('/')) {
      if (count == 8) return fail(at_, "an IPv6 address has eight groups, and this is the ninth");
      if (!part_read(kGroup, parts[count++])) return false;
      if (at_ == limit_ || at('/') || gap_take()) continue;
      if (!take(':')) return odd("a colon is");
      if (at_ == limit_ || at('/')) return fail(at_ - 1, "a group is missing after the colon");
    }
    if (gap == SIZE_MAX && count != 8) return fail(limit_, "an IPv6 address has eight groups, or a '::'");
    if (count == 8 && gap != SIZE_MAX) return fail(0, "eight groups leave no room for the '::'");
    if (gap != SIZE_MAX) {
      std::rotate(parts.begin() + static_cast<std::ptrdiff_t>(gap), parts.begin() + static_cast<std::ptrdiff_t>(count),
                  parts.end());
      for (size_t i = gap; i < gap + 8 - count; ++i) parts[i] = {{0, 0}};
    }
    return prefix_read(parts);
  }

  /// The prefix length after the address, if there is one; then adds the parts.
  bool prefix_read(std::array<Ranges, 8>& parts) {
    const size_t slash = at_;
    if (take('/') && !prefix_apply(slash, parts)) return false;
    if (at_ != limit_) return odd("the end of the address is");
    for (unsigned part = 0; part < pattern_.parts_; ++part)
      if (!part_add(part, std::move(parts[part]))) return false;
    return true;
  }

  bool prefix_apply(size_t slash, std::array<Ranges, 8>& parts) {
    const unsigned bits = 8u * pattern_.part_bytes_;
    const size_t begin = at_;
    uint32_t prefix = 0;
    if (!number({10, bits * pattern_.parts_, "the number of bits of a prefix"}, prefix)) return false;
    for (unsigned part = 0; part < pattern_.parts_; ++part) {
      if (parts[part].size() != 1 || parts[part][0].first != parts[part][0].last)
        return fail(slash, "a prefix length needs an address without * and ranges before it");
      const unsigned fixed = std::min(bits, prefix - std::min(prefix, part * bits));
      const uint32_t open = (uint32_t{1} << (bits - fixed)) - 1;
      Range& range = parts[part][0];
      if ((range.first & open) != 0)
        return fail(begin, fmt::format("the address has bits after the first {}; set these bits to 0", prefix));
      range.last = range.first | open;
    }
    return true;
  }

  void form_set(unsigned part_bytes, unsigned bytes) {
    pattern_.part_bytes_ = static_cast<uint8_t>(part_bytes);
    pattern_.parts_ = static_cast<uint8_t>(bytes / part_bytes);
    pattern_.nid_size_ = static_cast<uint8_t>(bytes - 4);
  }

  bool part_add(unsigned part, Ranges ranges) {
    UdspPattern::merge(ranges);
    pattern_.addresses_.insert(pattern_.addresses_.end(), ranges.begin(), ranges.end());
    if (pattern_.addresses_.size() > kUdspRangesMax) return too_many(0);
    pattern_.part_ends_[part] = static_cast<uint16_t>(pattern_.addresses_.size());
    return true;
  }

  // ---- numbers ----

  /// One part of an address: a number, `*` or a list in brackets.
  bool part_read(const Numbers& numbers, Ranges& out) {
    if (at('[')) return list(numbers, out);
    if (&numbers != &kNumber && take('*')) return out.push_back({0, numbers.max}), true;
    uint32_t value = 0;
    if (!number(numbers, value)) return false;
    return out.push_back({value, value}), true;
  }

  /// A list in brackets, [a-b/stride,c].
  bool list(const Numbers& numbers, Ranges& out) {
    const size_t open = at_++;
    if (text_.substr(open, limit_ - open).find(']') == std::string_view::npos)
      return fail(open, "the bracket is not closed");
    do {
      uint32_t first = 0, stride = 1;
      if (!number(numbers, first)) return false;
      uint32_t last = first;
      size_t begin = at_;
      if (take('-') && !number(numbers, last)) return false;
      if (last < first) return fail(begin + 1, "the end of the range is below its start");
      begin = at_;
      if (take('/') && !number(numbers, stride)) return false;
      if (stride == 0) return fail(begin + 1, "the stride of a range is 1 or more");
      if (stride == 1) {
        out.push_back({first, last});
        continue;
      }
      if ((last - first) / stride >= kUdspRangesMax) return too_many(open);
      for (uint64_t value = first; value <= last; value += stride)
        out.push_back({static_cast<uint32_t>(value), static_cast<uint32_t>(value)});
      if (out.size() > kUdspRangesMax) return too_many(open);
    } while (take(','));
    return take(']') || odd("a comma or ']' is");
  }

  bool number(const Numbers& numbers, uint32_t& value) {
    const size_t begin = at_;
    int base = numbers.base;
    if (&numbers == &kNumber && (text_.substr(at_, 2) == "0x" || text_.substr(at_, 2) == "0X")) {
      base = 16;
      at_ += 2;
    }
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + limit_, value, base);
    if (error == std::errc::invalid_argument) return odd(fmt::format("{} is", numbers.example));
    at_ = static_cast<size_t>(end - text_.data());
    if (error == std::errc{} && value <= numbers.max) return true;
    const std::string_view digits = text_.substr(begin, at_ - begin);
    return fail(begin, base == 16 ? fmt::format("{} is above {:x}", digits, numbers.max)
                                  : fmt::format("{} is above {}", digits, numbers.max));
  }

  /// Refuses the character at hand, or the end of the part.
  bool odd(const std::string& expected) {
    if (at_ >= limit_) return fail(limit_, expected + " missing");
    return fail(at_, fmt::format("{} expected, not '{}'", expected, text_[at_]));
  }
  bool too_many(size_t index) {
    return fail(index, fmt::format("the ranges stand for more than {} separate ranges", kUdspRangesMax));
  }

  std::string_view text_;
  size_t end_;        ///< index of the '@', or the end of the text
  size_t at_ = 0;     ///< the next character
  size_t limit_ = 0;  ///< end of the part that is being read
  size_t net_count_ = 0;
  UdspPattern pattern_;
  UdspWrong wrong_;
};

tl::expected<UdspPattern, UdspWrong> udsp_parse(std::string_view text) {
  return UdspReader(text).parse();
}

std::string UdspMatch::key() const {
  std::string key;
  for (const auto* pattern : {&src, &dst, &rte}) {
    key += pattern->has_value() ? '+' : '-';
    if (*pattern) (*pattern)->key_append(key);
  }
  return key;
}

tl::expected<UdspMatch, std::string> udsp_rule_parse(const UdspRule& rule) {
  if (rule.src.empty() && rule.dst.empty() && rule.rte.empty())
    return tl::unexpected<std::string>("at least one of src, dst and rte is needed");
  if (!rule.src.empty() && !rule.rte.empty())
    return tl::unexpected<std::string>(rule.dst.empty() ? "src and rte cannot be combined"
                                                        : "The combination of src, dst and rte is not supported");
  UdspMatch match{.priority = rule.priority};
  for (const auto& [name, text, to] :
       {std::tuple("src", &rule.src, &match.src), std::tuple("dst", &rule.dst, &match.dst),
        std::tuple("rte", &rule.rte, &match.rte)}) {
    if (text->empty()) continue;
    auto pattern = udsp_parse(*text);
    if (!pattern)
      return tl::unexpected(fmt::format("{} '{}', at character {}: {}; allowed: {}", name, *text,
                                        pattern.error().position, pattern.error().what, kUdspAllowed));
    *to = std::move(*pattern);
  }
  const bool makes_list = match.rte || (match.src && match.dst);
  if (!makes_list && !match.priority) match.priority = 0;
  return match;
}

}  // namespace ulnet::config
