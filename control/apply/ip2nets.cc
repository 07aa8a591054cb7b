#include "control/apply/ip2nets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "config/ranges.h"
#include "dataplane/base/nid_text.h"

namespace ulnet {
namespace {

constexpr size_t kAddressesShown = 16;

/// The address of a NID, without its net.
std::string address_text(const Nid& nid) {
  const std::string text = nid_text(nid);
  return text.substr(0, text.find('@'));
}

}  // namespace

std::vector<config::NetAdd> Ip2nets::match(const config::Ip2netsRule& rule, size_t index) {
  if (!first_) first_ = index;
  std::vector<config::NetAdd> adds;
  if (devices_ == nullptr || std::find(matched_.begin(), matched_.end(), rule.net) != matched_.end()) return adds;
  std::vector<std::string> others;  // interfaces that match and are not named
  for (const Devices::Interface& interface : devices_->list()) {
    const auto fits = [&](const Nid& nid) {
      return nid.fits_u64() && std::any_of(rule.patterns.begin(), rule.patterns.end(), [&](const std::string& pattern) {
               return config::ip_pattern_matches(pattern, nid.address_v4());
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
    for (const config::InterfaceSpec& one : rule.interfaces) named.push_back(one.name);
    errors_.push_back(
        config::problem_of(-EINVAL,
                           fmt::format("ip2nets: the rule of {} names {}, but the address that it matches is {}",
                                       net_text(rule.net), fmt::join(named, ", "), fmt::join(others, ", ")),
                           index));
  }
  return adds;
}

config::Problems Ip2nets::errors() const {
  if (!errors_.empty() || !first_ || !matched_.empty()) return errors_;
  std::vector<std::string> addresses;
  if (devices_ != nullptr)
    for (const Devices::Interface& interface : devices_->list())
      for (const Nid& nid : interface.addresses)
        if (nid.fits_u64()) addresses.push_back(address_text(nid) + " on " + interface.name);
  if (addresses.size() > kAddressesShown) addresses.resize(kAddressesShown);
  return {config::problem_of(-ENOMSG,
                             fmt::format("no interfaces match ip2nets rules; addresses of this node: {}",
                                         addresses.empty() ? "none" : fmt::format("{}", fmt::join(addresses, ", "))),
                             *first_)};
}

}  // namespace ulnet
