// ip2nets: "add this net if an address of mine matches". Thread: control. Source: docs/wire/lnetctl.md §2.
#pragma once
#include <vector>

#include "config/apply.h"
#include "lnd/net/kernel/devices.h"

namespace ulnet {

/// The rules of one list of changes, matched with this machine. The first rule of each net that matches wins.
class Ip2nets {
 public:
  /// `devices` may be null: then no rule matches.
  explicit Ip2nets(Devices* devices) : devices_(devices) {}
  /// The NIs of the rule at `index` of the list: one on each interface with an address that matches. If the rule names
  /// interfaces, only these count.
  [[nodiscard]] std::vector<config::NetAdd> match(const config::Ip2netsRule& rule, size_t index);
  /// The errors, to call after the last rule. EINVAL: a rule names interfaces, and only other interfaces have an
  /// address that matches. ENOMSG: no rule matches. Otherwise a rule that does not match is for other nodes, which is
  /// no error.
  [[nodiscard]] config::Problems errors() const;

 private:
  Devices* devices_;
  std::vector<Net> matched_;
  config::Problems errors_;
  std::optional<size_t> first_;  // place of the first rule
};

}  // namespace ulnet
