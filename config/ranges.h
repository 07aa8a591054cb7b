// Lists and ranges as they are written on a command line or in YAML: 10.1.1.[1-5]@tcp, tcp[1-3], [2-8/2],
// eth0[0,2],eth1. Source: docs/wire/lnetctl.md §1, §2. All lists have a bound, so that input cannot make them grow
// without limit.
#pragma once
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "config/model.h"

namespace ulnet::config {

/// Most texts that one range, or one list of ranges, may stand for.
inline constexpr size_t kRangeMax = 4096;

/// An error is a sentence about the mistake in the text.
template <class T>
using Parsed = tl::expected<T, std::string>;

/// Splits at commas that are not inside brackets; blanks around the parts are dropped. Errors: an empty part, a bracket
/// that is not closed.
[[nodiscard]] Parsed<std::vector<std::string>> list_split(std::string_view text);
/// Every text that `text` stands for, in order: each [a-b/stride,c] is replaced by each of its numbers. Errors: not a
/// range of numbers, first above last, more than `max` texts.
[[nodiscard]] Parsed<std::vector<std::string>> range_expand(std::string_view text, size_t max = kRangeMax);
/// list_split, then range_expand of each part; `max` bounds the whole.
[[nodiscard]] Parsed<std::vector<std::string>> list_expand(std::string_view text, size_t max = kRangeMax);

/// Networks of a list or range: "tcp[1-3]". Errors: as range_expand, or not a network.
[[nodiscard]] Parsed<std::vector<Net>> nets_parse(std::string_view text);
/// NIDs of a list or range: "1.1.1.[2-5/2]@tcp,2.2.2.2@tcp". Errors: as range_expand, or not a NID, or ANY.
[[nodiscard]] Parsed<std::vector<Nid>> nids_parse(std::string_view text);
/// The interfaces of `--if eth0[0,2],eth1`. Errors: empty or over-long names, CPT lists that do not parse.
[[nodiscard]] Parsed<std::vector<InterfaceSpec>> interfaces_parse(std::string_view text);
/// Numbers of "[0,1]" or "[0-3]"; the brackets may be missing; each must be below 1024.
[[nodiscard]] Parsed<std::vector<uint16_t>> cpt_list_parse(std::string_view text);
/// Cores of "2-5,8" (no brackets), sorted, each once; below 4096.
[[nodiscard]] Parsed<std::vector<uint16_t>> core_list_parse(std::string_view text);
/// True for an ip2nets pattern: four dotted parts of a number, `*`, or `[a-b/stride,c]` within 0..255.
[[nodiscard]] bool ip_pattern_valid(std::string_view text);
/// True when the IPv4 address (host order) fits the ip2nets pattern.
[[nodiscard]] bool ip_pattern_matches(std::string_view pattern, uint32_t address);

/// "[0,1]", as shown after CPT.
[[nodiscard]] std::string cpt_list_text(const std::vector<uint16_t>& cpts);
/// "eth0[0,2]" or "eth0".
[[nodiscard]] std::string interface_text(const InterfaceSpec& interface);

}  // namespace ulnet::config
