#include "control/handlers/ip2nets.h"

#include <algorithm>
#include <charconv>

#include "config/ranges.h"

namespace ulnet {
namespace {

bool part_matches(std::string_view part, unsigned value) {
  if (part == "*") return true;
  auto texts = config::range_expand(part);
  return texts && std::any_of(texts->begin(), texts->end(), [&](const std::string& text) {
           unsigned number = 0;
           const auto end = text.data() + text.size();
           return std::from_chars(text.data(), end, number).ptr == end && number == value;
         });
}

}  // namespace

// Dots inside brackets are not to be expected: ranges are of numbers.
bool ip_pattern_matches(std::string_view pattern, uint32_t address) {
  for (unsigned i = 0; i < 4; ++i) {
    const size_t dot = pattern.find('.');
    if ((dot == std::string_view::npos) != (i == 3)) return false;
    if (!part_matches(pattern.substr(0, dot), (address >> (24 - 8 * i)) & 0xFF)) return false;
    if (i < 3) pattern.remove_prefix(dot + 1);
  }
  return true;
}

std::vector<config::NetAdd> ip2nets_match(const config::Ip2netsRule& rule, Devices* devices) {
  std::vector<config::NetAdd> adds;
  if (devices == nullptr) return adds;
  for (const Devices::Interface& interface : devices->list()) {
    const auto fits = [&](const Nid& nid) {
      return nid.fits_u64() && std::any_of(rule.patterns.begin(), rule.patterns.end(), [&](const std::string& pattern) {
               return ip_pattern_matches(pattern, nid.address_v4());
             });
    };
    const auto address = std::find_if(interface.addresses.begin(), interface.addresses.end(), fits);
    if (address == interface.addresses.end()) continue;
    config::NetAdd add;
    add.net = rule.net;
    add.ni = rule.ni;
    add.ni.interface = interface.name;
    add.ni.nid = Nid::v4(rule.net, address->address_v4());
    if (!rule.interfaces.empty()) {
      const auto named = std::find_if(rule.interfaces.begin(), rule.interfaces.end(),
                                      [&](const config::InterfaceSpec& one) { return one.name == interface.name; });
      if (named == rule.interfaces.end()) continue;
      if (!named->cpts.empty()) add.ni.cpts = named->cpts;
    }
    adds.push_back(std::move(add));
  }
  return adds;
}

}  // namespace ulnet
