#include "config/udsp_text.h"

#include <fmt/format.h>

#include "config/ranges.h"
#include "dataplane/base/nid_text.h"

namespace ulnet::config {
namespace {

/// Index of the first character that cannot be part of an address or of a range of addresses. 0 if there is none.
size_t odd_character(std::string_view text) {
  const size_t found = text.find_first_not_of("0123456789abcdefABCDEF.:*[],-/");
  return found == std::string_view::npos ? 0 : found;
}

}  // namespace

std::optional<UdspWrong> udsp_wrong(std::string_view text) {
  const size_t at = text.rfind('@');
  const size_t net_begins = at == std::string_view::npos ? 0 : at + 1;
  const std::string_view net = text.substr(net_begins);
  if (const auto nets = nets_parse(net); net.empty() || !nets)
    return UdspWrong{net_begins + 1, net.empty() ? "the network is missing" : nets.error()};
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view addresses = text.substr(0, at);
  if (addresses == "*" || ip_pattern_valid(addresses)) return std::nullopt;
  // An IPv6 address, or a number of a network that has numbers.
  if (const auto nid = nid_parse(text); nid && !nid->is_any()) return std::nullopt;
  return UdspWrong{odd_character(addresses) + 1,
                   fmt::format("'{}' is neither an address nor a range of addresses", addresses)};
}

}  // namespace ulnet::config
