// Changes: the common form of a command line, a YAML import and the C API. A list of changes is checked as a whole, and
// applied completely or not at all (apply.h). The control socket carries changes in their JSON form.
#pragma once
#include <variant>

#include "config/emit.h"
#include "config/model.h"
#include "config/problem.h"

namespace ulnet::config {

/// Start LNet. `all`: also load the networks of the configuration file; `large`: NIDs in large form.
struct LnetConfigure {
  bool all = false;
  bool large = false;
  bool operator==(const LnetConfigure&) const = default;
};
/// Stop LNet; EBUSY while in use.
struct LnetUnconfigure {
  bool operator==(const LnetUnconfigure&) const = default;
};
/// Adds one NI, and its net with the first one.
struct NetAdd {
  Net net;
  NiConfig ni;
  bool operator==(const NetAdd&) const = default;
};
/// Adds an NI for each address of this node that matches.
struct NetAddMatching {
  Ip2netsRule rule;
  bool operator==(const NetAddMatching&) const = default;
};
/// Deletes one NI (named by interface, NID or both), or the whole net. `now`: close first, push to peers afterwards.
struct NetDel {
  Net net;
  std::string interface;
  std::optional<Nid> nid;
  bool now = false;
  bool operator==(const NetDel&) const = default;
};
/// Health value of NetSet and PeerSet: a value that was set by hand follows failures and messages again.
inline constexpr int64_t kHealthAuto = -1;
/// `auto`, or a number.
[[nodiscard]] std::optional<int64_t> health_parse(std::string_view text);
/// Changes running NIs: one (`nid`) or all (`all`). With `net`, a transmit_timeout (dataplane/base/field.h) is for
/// every NI of that net's driver, and for NIs that are added later.
struct NetSet {
  std::optional<Nid> nid;
  std::optional<Net> net;
  bool all = false;
  std::optional<int64_t> health;
  std::map<std::string, int64_t> lnd_tunables;  ///< by key; in JSON, each under the name `net_set` of its row
  bool operator==(const NetSet&) const = default;
};
struct RouteAdd {
  RouteConfig route;
  bool operator==(const RouteAdd&) const = default;
};
struct RouteDel {
  Net net;
  Nid gateway;
  bool operator==(const RouteDel&) const = default;
};
/// Adds a peer, or NIDs to it. `refresh`: these are all its NIDs; those of a configured peer that are not listed go.
struct PeerAdd {
  PeerConfig peer;
  bool refresh = false;
  std::optional<int64_t> primary_at{};  ///< place of the primary in the list that was written: errors count with it
  bool operator==(const PeerAdd&) const = default;
};
/// Removes `nids` of the peer; none, or the primary among them: the whole peer. `force`: also a locked primary.
struct PeerDel {
  Nid primary;
  std::vector<Nid> nids;
  bool force = false;
  bool operator==(const PeerDel&) const = default;
};
/// Sets the health value, or for tests the state bits, of one peer NI or all.
struct PeerSet {
  std::optional<Nid> nid;
  bool all = false;
  std::optional<int64_t> health;
  std::optional<int64_t> state;
  bool operator==(const PeerSet&) const = default;
};
/// Sets one key of `global`; `value` as a number (discovery: 2 = verify).
struct SetValue {
  std::string name;
  int64_t value = 0;
  bool operator==(const SetValue&) const = default;
};
struct SetRouting {
  bool enable = false;
  bool operator==(const SetRouting&) const = default;
};
/// Sets those that are present.
struct SetBuffers {
  std::optional<int64_t> tiny, small, large;
  bool operator==(const SetBuffers&) const = default;
};
/// Inserts a rule at its `idx`. If a rule has the same descriptors, that rule gets the priority, and nothing moves.
struct UdspAdd {
  UdspRule rule;
  bool operator==(const UdspAdd&) const = default;
};
/// Deletes the rule at `idx`, the rule with the descriptors of `rule`, or with `all` (or `idx` -1) every rule. If both
/// `idx` and `rule` are present, they must stand for the same rule. The priority of `rule` does not matter.
struct UdspDel {
  std::optional<int64_t> idx;
  bool all = false;
  std::optional<UdspRule> rule{};
  bool either_end = false;  ///< `rule.src` alone: stands for the rule with it as src and for the rule with it as dst
  bool operator==(const UdspDel&) const = default;
};
/// Sets one key of the `ulnet:` section; `key` without the leading "ulnet.", e.g. socklnd.keepalive.
struct UlnetSet {
  std::string key;
  Doc value;
  bool operator==(const UlnetSet&) const = default;
};

using Change = std::variant<LnetConfigure, LnetUnconfigure, NetAdd, NetAddMatching, NetDel, NetSet, RouteAdd, RouteDel,
                            PeerAdd, PeerDel, PeerSet, SetValue, SetRouting, SetBuffers, UdspAdd, UdspDel, UlnetSet>;

/// Where a change was written, for errors about it.
struct Origin {
  std::string file;  ///< empty for a command line
  Mark mark;
  std::optional<int64_t> seq_no;
};

struct PlacedChange {
  Change change;
  Origin origin;
};
using ChangeList = std::vector<PlacedChange>;

/// Under what an error about the change is printed: configure, add, del or set.
[[nodiscard]] const char* change_verb(const Change& change);
/// And for what: lnet, net, route, peer, udsp, global, routing, buffers, ulnet.
[[nodiscard]] const char* change_entity(const Change& change);

/// The problem of the change at `problem.index` with its place, entity and seq_no.
[[nodiscard]] Problem placed(const ChangeList& changes, Problem problem);

/// Checks that the types cannot express: bounds and names. A sentence that names the error, or "" for a good change.
[[nodiscard]] std::string change_wrong(const Change& change);

/// {"change": "net_add", "net": "tcp", "ni": {...}, "file": ..., "line": ..., "column": ..., "seq_no": ...}
[[nodiscard]] Json change_to_json(const PlacedChange& change);
/// Reads one change and checks types, names, and each value against the field table. The result is as valid as a change
/// from the YAML loader. Errors: the wrong key, with the reason.
[[nodiscard]] tl::expected<PlacedChange, std::string> change_from_json(const Json& json);

/// Most changes of one request.
inline constexpr size_t kChangesMax = 262144;

}  // namespace ulnet::config
