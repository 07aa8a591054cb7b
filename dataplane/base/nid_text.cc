// Text forms of nets and NIDs. Control side only. If upstream has no text form (an unknown type, an address of unusual
// size), the generic form "<hex>[:<hex>..]@<type:num>" is used. The generic form can also be parsed, so that any NID
// that is shown can also be typed.
#include "dataplane/base/nid_text.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <charconv>
#include <optional>

namespace ulnet {
namespace {

enum class AddressForm { kIp, kIpv4, kNumber };

struct TypeName {
  NetType type;
  std::string_view name;
  AddressForm form;
};

// docs/wire/lnet.md §1.3, in the order in which prefixes are tried.
constexpr TypeName kTypeNames[] = {
    {NetType::kLo, "lo", AddressForm::kNumber},       {NetType::kTcp, "tcp", AddressForm::kIp},
    {NetType::kO2ib, "o2ib", AddressForm::kIp},       {NetType::kGni, "gni", AddressForm::kNumber},
    {NetType::kGip, "gip", AddressForm::kIpv4},       {NetType::kPtlf, "ptlf", AddressForm::kNumber},
    {NetType::kKfi, "kfi", AddressForm::kNumber},     {NetType::kEfa, "efa", AddressForm::kIp},
    {NetType::kBxi3f, "bxi3f", AddressForm::kNumber},
};

const TypeName* type_find(NetType type) {
  for (const TypeName& entry : kTypeNames)
    if (entry.type == type) return &entry;
  return nullptr;
}

/// The whole of `text` as an unsigned number, or nothing.
template <class T>
std::optional<T> number_parse(std::string_view text, int base) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

/// "<type:num>", the form of nets without a name.
std::optional<Net> generic_net_parse(std::string_view text) {
  if (text.size() < 5 || text.front() != '<' || text.back() != '>') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto type = number_parse<uint8_t>(text.substr(0, colon), 10);
  const auto number = number_parse<uint16_t>(text.substr(colon + 1), 10);
  if (!type || !number || *type == uint8_t(NetType::kAny)) return std::nullopt;
  return Net::of(NetType(*type), *number);
}

/// "<hex>[:<hex>..]", one 32-bit word each: the address of a NID in the generic form.
std::optional<Nid> generic_address_parse(std::string_view text, Net net) {
  Nid nid = Nid::v4(net, 0);
  for (unsigned words = 0; words < 4; ++words) {
    const size_t colon = text.find(':');
    const auto word = number_parse<uint32_t>(text.substr(0, colon), 16);
    if (!word) return std::nullopt;
    for (unsigned i = 0; i < 4; ++i) nid.addr[4 * words + i] = uint8_t(*word >> (24 - 8 * i));
    nid.size = uint8_t(4 * words);
    if (colon == std::string_view::npos) return nid;
    text.remove_prefix(colon + 1);
  }
  return std::nullopt;
}

std::string generic_text(const Nid& nid) {
  const unsigned words = nid.size < 12 ? (nid.size + 4u + 3) / 4 : 4;
  std::string text;
  for (unsigned w = 0; w < words; ++w) {
    uint32_t word = 0;
    for (unsigned i = 0; i < 4; ++i) word = (word << 8) | nid.addr[4 * w + i];
    text += fmt::format("{}{:x}", w == 0 ? "" : ":", word);
  }
  return text + fmt::format("@<{}:{}>", nid.type, nid.net().number());
}

std::optional<Nid> ip_parse(std::string_view text, Net net, bool with_ipv6) {
  const std::string address(text);
  uint8_t raw[4];
  if (inet_pton(AF_INET, address.c_str(), raw) == 1) {
    return Nid::v4(net, (uint32_t(raw[0]) << 24) | (uint32_t(raw[1]) << 16) | (uint32_t(raw[2]) << 8) | raw[3]);
  }
  std::array<uint8_t, 16> raw6;
  if (with_ipv6 && inet_pton(AF_INET6, address.c_str(), raw6.data()) == 1) return Nid::v6(net, raw6);
  return std::nullopt;
}

std::optional<Nid> numbered_parse(std::string_view text, Net net) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  const auto address = hex ? number_parse<uint32_t>(text.substr(2), 16) : number_parse<uint32_t>(text, 10);
  return address ? std::optional(Nid::v4(net, *address)) : std::nullopt;
}

}  // namespace

Result<Net> net_parse(std::string_view text) {
  if (const auto net = generic_net_parse(text)) return *net;
  for (const TypeName& entry : kTypeNames) {
    if (!text.starts_with(entry.name)) continue;
    const std::string_view rest = text.substr(entry.name.size());
    if (rest.empty()) return Net::of(entry.type, 0);
    if (entry.type == NetType::kLo) return fail(EINVAL, "the loopback net is just \"lo\", without a number");
    const auto number = number_parse<uint16_t>(rest, 10);
    if (!number) return fail(EINVAL, "a net name ends in a number of 0 to 65535 or in nothing, as in tcp1");
    return Net::of(entry.type, *number);
  }
  return fail(EINVAL, "unknown net type, expected a net such as tcp, tcp1 or o2ib");
}

std::string net_text(Net net) {
  if (net == kAnyNet) return "*";
  const TypeName* entry = type_find(net.type());
  if (entry == nullptr || (net.type() == NetType::kLo && net.number() != 0)) {
    return fmt::format("<{}:{}>", unsigned(net.type()), net.number());
  }
  return net.number() == 0 ? std::string(entry->name) : fmt::format("{}{}", entry->name, net.number());
}

Result<Nid> nid_parse(std::string_view text) {
  if (text == "<?>" || text == "*") return kAnyNid;
  const size_t at = text.find('@');
  const std::string_view address = text.substr(0, at);
  const std::string_view net_name = at == std::string_view::npos ? "tcp" : text.substr(at + 1);
  if (const auto net = generic_net_parse(net_name)) {
    const auto nid = generic_address_parse(address, *net);
    if (!nid)
      return fail(EINVAL, "an address on a net without a name is one to four hexadecimal words, as in 1f:2@<99:0>");
    return *nid;
  }
  const auto net = net_parse(net_name);
  if (!net) return tl::unexpected(net.error());
  const TypeName* entry = type_find(net->type());
  std::optional<Nid> nid;
  if (entry->form == AddressForm::kNumber)
    nid = numbered_parse(address, *net);
  else
    nid = ip_parse(address, *net, entry->form == AddressForm::kIp);
  if (!nid && entry->form == AddressForm::kNumber) {
    return fail(EINVAL, "the address of this net type is a number, decimal or 0x..");
  }
  if (!nid && entry->form == AddressForm::kIpv4) return fail(EINVAL, "the address of this net type is an IPv4 address");
  if (!nid) return fail(EINVAL, "the address of this net type is an IPv4 or IPv6 address, as in 10.0.0.1@tcp");
  if (nid->is_lo() && *nid != kLoNid) return fail(EINVAL, "the only address on lo is 0@lo");
  return *nid;
}

std::string nid_text(const Nid& nid) {
  if (nid.is_any()) return "<?>";
  const TypeName* entry = type_find(NetType(nid.type));
  const bool large = nid.size == 12;
  if (entry == nullptr || (nid.size != 0 && !(large && entry->form == AddressForm::kIp)) ||
      (nid.is_lo() && nid != kLoNid)) {
    return generic_text(nid);
  }
  const std::string net = net_text(nid.net());
  if (entry->form == AddressForm::kNumber) return fmt::format("{}@{}", nid.address_v4(), net);
  char address[INET6_ADDRSTRLEN];
  inet_ntop(large ? AF_INET6 : AF_INET, nid.addr.data(), address, sizeof address);
  return fmt::format("{}@{}", address, net);
}

}  // namespace ulnet
