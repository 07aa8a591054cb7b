#include "config/ip2nets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "config/ranges.h"
#include "dataplane/base/nid_text.h"

namespace ulnet::config {
namespace {

constexpr size_t kAddressesShown = 16;

/// The address of a NID, without its net.
std::string address_text(const Nid& nid) {
  const std::string text = nid_text(nid);
  return text.substr(0, text.find('@'));
}

}  // namespace

std::vector<NetAdd> Ip2nets::match(const Ip2netsRule& rule, size_t index) {
  if (!first_) first_ = index;
  std::vector<NetAdd> adds;
  if (std::find(matched_.begin(), matched_.end(), rule.net) != matched_.end()) return adds;
  std::vector<std::string> others;  // interfaces that match and are not named
  for (const Interface& interface : list_()) {
    const auto fits = [&](const Nid& nid) {
      return nid.fits_u64() && std::any_of(rule.patterns.begin(), rule.patterns.end(), [&](const std::string& pattern) {
               return ip_pattern_matches(pattern, nid.address_v4());
             });
    };
    const auto address = std::find_if(interface.addresses.begin(), interface.addresses.end(), fits);
    if (address == interface.addresses.end()) continue;
    NetAdd add;
    add.net = rule.net;
    add.ni = rule.ni;
    add.ni.interface = interface.name;
    add.ni.nid = Nid::v4(rule.net, address->address_v4());
    if (!rule.interfaces.empty()) {
      const auto named = std::find_if(rule.interfaces.begin(), rule.interfaces.end(),
                                      [&](const InterfaceSpec& one) { return one.name == interface.name; });
      if (named == rule.interfaces.end()) {
        others.push_back(fmt::format("{} on {}", nid_text(*add.ni.nid), interface.name));
        continue;
      }
      if (!named->cpts.empty()) add.ni.cpts = named->cpts;
    }
    adds.push_back(std::move(add));
  }
  if (!adds.empty()) matched_.push_back(rule.net);
  if (adds.empty() && !others.empty()) {
    std::vector<std::string> named;
    for (const InterfaceSpec& one : rule.interfaces) named.push_back(one.name);
    errors_.push_back(problem_of(-EINVAL,
                                 fmt::format("ip2nets: the rule of {} names {}, but the address that it matches is {}",
                                             net_text(rule.net), fmt::join(named, ", "), fmt::join(others, ", ")),
                                 index));
  }
  return adds;
}

Problems Ip2nets::errors() const {
  if (!errors_.empty() || !first_ || !matched_.empty()) return errors_;
  std::vector<std::string> addresses;
  for (const Interface& interface : list_())
    for (const Nid& nid : interface.addresses)
      if (nid.fits_u64()) addresses.push_back(address_text(nid) + " on " + interface.name);
  if (addresses.size() > kAddressesShown) addresses.resize(kAddressesShown);
  return {problem_of(-ENOMSG,
                     fmt::format("no interfaces match ip2nets rules; addresses of this node: {}",
                                 addresses.empty() ? "none" : fmt::format("{}", fmt::join(addresses, ", "))),
                     *first_)};
}

}  // namespace ulnet::config
