// ip2nets: "add this net if an address of mine matches". Thread: control. Source: docs/wire/lnetctl.md §2.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/apply.h"

namespace ulnet::config {

/// The rules of one list of changes, matched with this machine. The first rule of each net that matches wins.
class Ip2nets {
 public:
  /// `devices`: this machine's (lnd/net/kernel/devices.h); null: no rule matches.
  template <class Devices>
  explicit Ip2nets(Devices* devices)
      : list_([devices] {
          std::vector<Interface> interfaces;
          if (devices == nullptr) return interfaces;
          for (const auto& one : devices->list()) interfaces.push_back({one.name, one.addresses});
          return interfaces;
        }) {}
  /// The NIs of the rule at `index` of the list: one on each interface with an address that matches. If the rule names
  /// interfaces, only these count.
  [[nodiscard]] std::vector<NetAdd> match(const Ip2netsRule& rule, size_t index);
  /// The errors, to call after the last rule. EINVAL: a rule names interfaces, and only other interfaces have an
  /// address that matches. ENOMSG: no rule matches. Otherwise a rule that does not match is for other nodes, which is
  /// no error.
  [[nodiscard]] Problems errors() const;

 private:
  struct Interface {
    std::string name;
    std::vector<Nid> addresses;
  };
  std::function<std::vector<Interface>()> list_;
  std::vector<Net> matched_;
  Problems errors_;
  std::optional<size_t> first_;  // place of the first rule
};

}  // namespace ulnet::config
