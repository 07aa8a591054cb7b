#include "tools/ulnetd/check.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/apply.h"
#include "config/devices.h"
#include "config/ip2nets.h"
#include "control/lib/boot.h"
#include "dataplane/base/nid_text.h"
#include "dataplane/host/host.h"
#include "lnd/registry.h"
#include "tools/ulnetd/ports/ports.h"

namespace ulnet {
namespace {

class Check {
 public:
  Check(const config::ChangeList& changes, Devices* devices) : changes_(changes), ip2nets_(devices) {}

  config::Problems run(bool with_ip2nets) {
    state_ = config::state_of(changes_, problems_);
    if (!problems_.empty()) return std::move(problems_);
    place_workers();
    for (size_t i = 0; i < changes_.size(); ++i) {
      if (const auto* add = std::get_if<config::NetAdd>(&changes_[i].change)) ni(i, add->net, add->ni);
      if (const auto* rule = std::get_if<config::NetAddMatching>(&changes_[i].change)) {
        ni(i, rule->rule.net, rule->rule.ni);
        for (const config::NetAdd& add : ip2nets_.match(rule->rule, i)) ni(i, add.net, add.ni);
      }
    }
    if (with_ip2nets)
      for (const config::Problem& error : ip2nets_.errors()) wrong(error.index, error.code, error.what);
    return std::move(problems_);
  }

 private:
  /// Once for each place and text.
  void wrong(size_t index, int code, const std::string& what) {
    config::Problem problem = placed(changes_, config::problem_of(code, what, index));
    const std::string text = config::problem_text(problem);
    const bool said = std::any_of(problems_.begin(), problems_.end(),
                                  [&](const config::Problem& one) { return config::problem_text(one) == text; });
    if (!said) problems_.push_back(std::move(problem));
  }
  /// The place of the first of these `ulnet:` keys that the file sets; else that of its first change.
  [[nodiscard]] size_t place_of(std::initializer_list<const char*> keys) const {
    for (const char* key : keys)
      for (size_t i = 0; i < changes_.size(); ++i) {
        const auto* set = std::get_if<config::UlnetSet>(&changes_[i].change);
        if (set != nullptr && set->key == key) return i;
      }
    return 0;
  }
  void place_workers() {
    if (changes_.empty()) return;
    auto host = boot_host(state_, DpdkMode::kNone);
    if (!host) return wrong(place_of({"cores"}), host.error().code, host.error().what);
    const auto devices = config::devices_of(state_.ulnet.devices);
    if (!devices) return wrong(place_of({"devices"}), -EINVAL, devices.error());
    if (!devices->empty()) {
      if (auto needs = Ports::host_needs(*devices, *host); !needs)
        wrong(place_of({"devices"}), needs.error().code, needs.error().what);
    }
    const auto placement = Host::plan(*host);
    if (!placement)
      return wrong(place_of({"cores", "workers"}), placement.error().code,
                   fmt::format("cannot place the workers: {} ({})", placement.error().what, placement.error().object));
    groups_ = placement->groups.size();
  }
  void ni(size_t index, Net net, const config::NiConfig& ni) {
    if (!driver_serves(net.type())) wrong(index, -EINVAL, fmt::format("this node has no driver for {}", net_text(net)));
    for (uint16_t cpt : ni.cpts)
      if (groups_ > 0 && cpt >= groups_)
        wrong(index, -ERANGE, fmt::format("invalid CPT value {}: this node has worker groups 0..{}", cpt, groups_ - 1));
  }

  const config::ChangeList& changes_;
  config::Ip2nets ip2nets_;
  config::DesiredState state_;
  config::Problems problems_;
  size_t groups_ = 0;  // 0: not known
};

}  // namespace

config::Problems check_configuration(const config::ChangeList& changes, Devices* devices) {
  return Check(changes, devices).run(devices != nullptr);
}

}  // namespace ulnet
