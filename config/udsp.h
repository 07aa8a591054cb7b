// Selection policies (UDSP) as values that match networks and NIDs. The configuration keeps the texts of a rule
// (UdspRule); control parses each rule once and then evaluates it. Pure. Source: docs/wire/lnetctl.md §4 (syntax),
// docs/wire/lnet.md §11 (meaning), docs/decisions.md #10, #11, #77, #81.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "config/model.h"

namespace ulnet::config {

inline constexpr const char* kUdspAllowed =
    "a network such as tcp1, tcp[1-3] or o2ib*, or addresses on one such as *@tcp, 10.1.1.[5-8]@o2ib, "
    "10.1.0.0/16@tcp or fd00::/64@tcp";

inline constexpr size_t kUdspTextMax = 256;     ///< characters of a descriptor
inline constexpr size_t kUdspNetsMax = 4096;    ///< networks that the ranges of a descriptor stand for, without `*`
inline constexpr size_t kUdspRangesMax = 1024;  ///< ranges of a descriptor, after ranges with a stride are resolved
inline constexpr size_t kUdspRulesMax = 65535;  ///< rules of a node

/// The error in a descriptor, and the position of the character with the error, counted from 1.
struct UdspWrong {
  size_t position = 0;
  std::string what;
};

/// One descriptor of a rule: a set of networks, or a set of addresses on them. Equal descriptors have the same meaning;
/// their texts may differ: `*@tcp`, `tcp` and `tcp0`, or `10.1.0.0/16@tcp` and `10.1.*.*@tcp`.
class UdspPattern {
 public:
  /// Whether the descriptor names networks and no addresses: `tcp1`, `tcp[1-3]`, `o2ib*`, `*@tcp1`. A rule with such a
  /// descriptor is a net rule. `*.*.*.*@tcp1` is no net rule: each NID of tcp1, also with an IPv6 address, matches it.
  [[nodiscard]] bool is_net() const { return is_net_; }
  /// Whether the network is one of the descriptor. Cost: a binary search in its ranges.
  [[nodiscard]] bool matches(Net net) const;
  /// Whether network and address are those of the descriptor. A descriptor of networks matches each NID on them. ANY
  /// matches nothing. Cost: a binary search for each part of the address; no allocation.
  [[nodiscard]] bool matches(const Nid& nid) const;
  bool operator==(const UdspPattern&) const = default;

  /// Appends bytes that are the same exactly for equal descriptors.
  void key_append(std::string& key) const;

 private:
  friend class UdspReader;
  /// Numbers from `first` to `last`, both included. The ranges of a set are sorted and do not touch each other.
  struct Range {
    uint32_t first = 0, last = 0;
    bool operator==(const Range&) const = default;
  };
  [[nodiscard]] static bool contains(const Range* begin, const Range* end, uint32_t value);
  static void merge(std::vector<Range>& ranges);

  std::vector<Range> nets_;              ///< values of Net
  std::vector<Range> addresses_;         ///< of the first part of the address, then of the second, ...
  std::array<uint16_t, 8> part_ends_{};  ///< index in `addresses_` after the last range of each part
  uint8_t parts_ = 0;                    ///< 4 for IPv4, 8 for IPv6, 1 for numbers; 0: every address
  uint8_t part_bytes_ = 0;               ///< bytes of a part of the address
  uint8_t nid_size_ = 0;                 ///< Nid::size of addresses with these parts
  bool is_net_ = false;
};

/// Parses a descriptor. Errors: the first character that is wrong, with a sentence.
[[nodiscard]] tl::expected<UdspPattern, UdspWrong> udsp_parse(std::string_view text);

/// A rule that is ready to be evaluated. At least one descriptor is present, and never `src` together with `rte`.
struct UdspMatch {
  std::optional<UdspPattern> src, dst, rte;  ///< `rte` without `dst`: for every destination
  /// 0..255, 0 is the highest; -1 is lower than every other. A rule of `src` or `dst` alone always has one. A rule that
  /// makes a list (`src` with `dst`, or `rte`) has one if it was written.
  std::optional<int64_t> priority;
  bool operator==(const UdspMatch&) const = default;

  /// Bytes that are the same exactly for rules with equal descriptors, whatever their priority.
  [[nodiscard]] std::string key() const;
};

/// Parses a rule. Errors: a sentence that names the descriptor, the position in it, and the allowed texts.
[[nodiscard]] tl::expected<UdspMatch, std::string> udsp_rule_parse(const UdspRule& rule);

}  // namespace ulnet::config
