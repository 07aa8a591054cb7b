#include "lnd/net/packet/net_address_text.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

namespace ulnet::dpdk {

std::string mac_text(const Mac& mac) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const uint8_t byte : mac.bytes) {
    if (!out.empty()) out += ':';
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

Result<Mac> mac_parse(std::string_view text) {
  Mac mac;
  if (text.size() != 17) return fail(EINVAL, "a MAC address has six bytes in hex, like 02:00:00:00:00:01");
  for (unsigned i = 0; i < 6; ++i) {
    const char* at = text.data() + 3 * i;
    const auto parsed = std::from_chars(at, at + 2, mac.bytes[i], 16);
    if (parsed.ec != std::errc{} || parsed.ptr != at + 2 || (i < 5 && at[2] != ':'))
      return fail(EINVAL, "a MAC address has six bytes in hex, like 02:00:00:00:00:01");
  }
  return mac;
}

std::string ip_text(const IpAddress& address) {
  char out[INET6_ADDRSTRLEN] = "";
  if (address.is_v4()) {
    (void)inet_ntop(AF_INET, address.bytes.data() + 12, out, sizeof out);
  } else {
    (void)inet_ntop(AF_INET6, address.bytes.data(), out, sizeof out);
  }
  return out;
}

Result<IpAddress> ip_parse(std::string_view text) {
  const std::string copy(text);
  IpAddress out = IpAddress::of_v4(0);
  if (inet_pton(AF_INET, copy.c_str(), out.bytes.data() + 12) == 1) return out;
  if (inet_pton(AF_INET6, copy.c_str(), out.bytes.data()) == 1) return out;
  return fail(EINVAL, "not an IPv4 or IPv6 address");
}

Result<IpPrefix> prefix_parse(std::string_view text) {
  const size_t slash = text.find('/');
  auto address = ip_parse(text.substr(0, slash));
  if (!address) return tl::unexpected<Error>(address.error());
  const unsigned most = address->is_v4() ? 32 : 128;
  unsigned bits = most;
  if (slash != std::string_view::npos) {
    const std::string_view digits = text.substr(slash + 1);
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
    if (parsed.ec != std::errc{} || parsed.ptr != digits.data() + digits.size() || bits > most)
      return fail(EINVAL, "the prefix length after the slash is 0 to 32, for IPv6 0 to 128");
  }
  return IpPrefix{*address, uint8_t(bits)};
}

std::string prefix_text(const IpPrefix& prefix) {
  return ip_text(prefix.address) + '/' + std::to_string(prefix.bits);
}

}  // namespace ulnet::dpdk
