// The JSON form of changes. Each struct names its fields once (fields()); a Writer and a Reader walk over them.
#include "config/change.h"

#include <fmt/format.h>

#include <concepts>
#include <nlohmann/json.hpp>

#include "config/ranges.h"
#include "config/schema.h"
#include "config/udsp.h"
#include "dataplane/base/nid_text.h"

namespace ulnet::config {
namespace {

constexpr const char* kHealthRange = "health value is out of range; allowed: 0..1000, or -1 for automatic";

template <class A>
void fields_of(A& a, LnetConfigure& c) {
  a("all", c.all), a("large", c.large);
}
template <class A>
void fields_of(A&, LnetUnconfigure&) {}
template <class A>
void fields_of(A& a, NetAdd& c) {
  a("net", c.net), a("ni", c.ni);
}
template <class A>
void fields_of(A& a, NetAddMatching& c) {
  a("rule", c.rule);
}
template <class A>
void fields_of(A& a, NetDel& c) {
  a("net", c.net), a("interface", c.interface), a("nid", c.nid), a("now", c.now);
}
template <class A>
void fields_of(A& a, NetSet& c) {
  a("nid", c.nid), a("net", c.net), a("all", c.all), a("health", c.health);
  for (const Field& field : fields()) {
    if (field.net_set[0] == 0) continue;
    const std::string key(field_name(field.path));
    const auto found = c.lnd_tunables.find(key);
    std::optional<int64_t> value;
    if (found != c.lnd_tunables.end()) value = found->second;
    a(field.net_set, value);
    if (value) c.lnd_tunables.insert_or_assign(key, *value);
  }
}
template <class A>
void fields_of(A& a, RouteAdd& c) {
  a("route", c.route);
}
template <class A>
void fields_of(A& a, RouteDel& c) {
  a("net", c.net), a("gateway", c.gateway);
}
template <class A>
void fields_of(A& a, PeerAdd& c) {
  a("peer", c.peer), a("refresh", c.refresh), a("primary_at", c.primary_at);
}
template <class A>
void fields_of(A& a, PeerDel& c) {
  a("primary", c.primary), a("nids", c.nids), a("force", c.force);
}
template <class A>
void fields_of(A& a, PeerSet& c) {
  a("nid", c.nid), a("all", c.all), a("health", c.health), a("state", c.state);
}
template <class A>
void fields_of(A& a, SetValue& c) {
  a("name", c.name), a("value", c.value);
}
template <class A>
void fields_of(A& a, SetRouting& c) {
  a("enable", c.enable);
}
template <class A>
void fields_of(A& a, SetBuffers& c) {
  a("tiny", c.tiny), a("small", c.small), a("large", c.large);
}
template <class A>
void fields_of(A& a, UdspAdd& c) {
  a("rule", c.rule);
}
template <class A>
void fields_of(A& a, UdspDel& c) {
  a("idx", c.idx), a("all", c.all), a("rule", c.rule), a("either_end", c.either_end);
}
template <class A>
void fields_of(A& a, UlnetSet& c) {
  a("key", c.key), a("value", c.value);
}
template <class A>
void fields_of(A& a, NiConfig& c) {
  a("nid", c.nid), a("interface", c.interface), a("cpts", c.cpts), a("tunables", c.tunables);
  a("lnd_tunables", c.lnd_tunables), a("skip_mr_route_setup", c.skip_mr_route_setup);
}
template <class A>
void fields_of(A& a, Tunables& c) {
  a("peer_timeout", c.peer_timeout), a("peer_credits", c.peer_credits);
  a("peer_buffer_credits", c.peer_buffer_credits), a("credits", c.credits);
}
template <class A>
void fields_of(A& a, InterfaceSpec& c) {
  a("name", c.name), a("cpts", c.cpts);
}
template <class A>
void fields_of(A& a, Ip2netsRule& c) {
  a("net", c.net), a("interfaces", c.interfaces), a("patterns", c.patterns), a("ni", c.ni);
}
template <class A>
void fields_of(A& a, RouteConfig& c) {
  a("net", c.net), a("gateway", c.gateway), a("hop", c.hop), a("priority", c.priority);
}
template <class A>
void fields_of(A& a, PeerConfig& c) {
  a("primary", c.primary), a("nids", c.nids), a("multi_rail", c.multi_rail), a("lock_primary", c.lock_primary);
}
template <class A>
void fields_of(A& a, UdspRule& c) {
  a("idx", c.idx), a("src", c.src), a("dst", c.dst), a("rte", c.rte), a("priority", c.priority);
}

// Names of the alternatives, in the order of the variant.
constexpr std::array<const char*, std::variant_size_v<Change>> kNames = {
    "lnet_configure", "lnet_unconfigure", "net_add",  "net_add_matching", "net_del",  "net_set",
    "route_add",      "route_del",        "peer_add", "peer_del",         "peer_set", "set_value",
    "set_routing",    "set_buffers",      "udsp_add", "udsp_del",         "ulnet_set"};

/// Takes any field. HasFields uses this type to test whether a type has fields.
struct Probe {
  template <class T>
  void operator()(const char*, T&) {}
};
template <class T>
concept HasFields = requires(Probe& probe, T& value) {
  fields_of(probe, value);
};

/// Writes fields into a JSON object. Empty values are left out.
class Writer {
 public:
  explicit Writer(Json& out) : out_(out) {}

  template <class T>
  void operator()(const char* key, T& value) {
    out_[key] = one(value);
  }
  template <class T>
  void operator()(const char* key, std::optional<T>& value) {
    if (value) out_[key] = one(*value);
  }
  template <class T>
  void operator()(const char* key, std::vector<T>& values) {
    if (values.empty()) return;
    Json list = Json::array();
    for (T& value : values) list.push_back(one(value));
    out_[key] = std::move(list);
  }
  void operator()(const char* key, std::string& value) {
    if (!value.empty()) out_[key] = value;
  }

 private:
  template <HasFields T>
  static Json one(T& value) {
    Json object = Json::object();
    Writer writer(object);
    fields_of(writer, value);
    return object;
  }
  static Json one(bool value) { return value; }
  static Json one(int64_t value) { return value; }
  static Json one(uint16_t value) { return value; }
  static Json one(const std::string& value) { return value; }
  static Json one(Seconds value) { return value.count(); }
  static Json one(const Net& value) { return net_text(value); }
  static Json one(const Nid& value) { return nid_text(value); }
  static Json one(const Doc& value) { return to_json(value); }
  static Json one(const std::map<std::string, int64_t>& values) {
    Json object = Json::object();
    for (const auto& [key, value] : values) object[key] = value;
    return object;
  }

  Json& out_;
};

/// Reads fields out of a JSON object; a missing key keeps the default. The first mistake stays in `error`.
class Reader {
 public:
  Reader(const Json& in, std::string& error) : in_(in), error_(error) {}

  template <class T>
  void operator()(const char* key, T& value) {
    if (const Json* json = find(key)) check(key, one(*json, value));
  }
  template <class T>
  void operator()(const char* key, std::optional<T>& value) {
    const Json* json = find(key);
    if (json == nullptr || json->is_null()) return;
    check(key, one(*json, value.emplace()));
  }
  template <class T>
  void operator()(const char* key, std::vector<T>& values) {
    const Json* json = find(key);
    if (json == nullptr) return;
    if (!json->is_array() || json->size() > kRangeMax) return check(key, false);
    for (const Json& item : *json) check(key, one(item, values.emplace_back()));
  }

 private:
  const Json* find(const char* key) const {
    auto found = in_.find(key);
    return found == in_.end() ? nullptr : &*found;
  }
  void check(const char* key, bool good) {
    if (!good && error_.empty()) error_ = fmt::format("'{}' has a value that is not allowed there", key);
  }

  template <HasFields T>
  bool one(const Json& json, T& value) {
    if (!json.is_object()) return false;
    Reader reader(json, error_);
    fields_of(reader, value);
    return true;
  }
  static bool one(const Json& json, bool& value) {
    if (!json.is_boolean()) return false;
    value = json.get<bool>();
    return true;
  }
  static bool one(const Json& json, int64_t& value) {
    if (!json.is_number_integer() || (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX)) return false;
    value = json.get<int64_t>();
    return true;
  }
  static bool one(const Json& json, uint16_t& value) {
    int64_t number = 0;
    if (!one(json, number) || !std::in_range<uint16_t>(number)) return false;
    value = static_cast<uint16_t>(number);
    return true;
  }
  static bool one(const Json& json, std::string& value) {
    if (!json.is_string()) return false;
    value = json.get<std::string>();
    return value.size() <= 4096;
  }
  static bool one(const Json& json, Seconds& value) {
    int64_t number = 0;
    if (!one(json, number) || number < 0 || number > INT32_MAX) return false;
    value = Seconds(number);
    return true;
  }
  static bool one(const Json& json, Net& value) {
    auto net = json.is_string() ? net_parse(json.get_ref<const std::string&>()) : ulnet::fail(EINVAL, "");
    if (!net || *net == kAnyNet) return false;
    value = *net;
    return true;
  }
  static bool one(const Json& json, Nid& value) {
    auto nid = json.is_string() ? nid_parse(json.get_ref<const std::string&>()) : ulnet::fail(EINVAL, "");
    if (!nid || nid->is_any()) return false;
    value = *nid;
    return true;
  }
  static bool one(const Json& json, Doc& value) {
    value = from_json(json);
    return true;
  }
  static bool one(const Json& json, std::map<std::string, int64_t>& values) {
    if (!json.is_object()) return false;
    for (const auto& [key, item] : json.items()) {
      if (!one(item, values[key])) return false;
    }
    return true;
  }

  const Json& in_;
  std::string& error_;
};

/// The error in `value` for the field `path`, or "".
std::string field_wrong(std::string_view path, const Doc& value) {
  const Field* field = field_find(path);
  if (field == nullptr) return fmt::format("unknown key '{}'", path);
  Slots slots;
  std::string wrong = field_assign(*field, value, slots);
  if (wrong.empty()) return {};
  return fmt::format("{}: '{}' {}; allowed: {}", path, value.text(), wrong, field_allowed(*field));
}

std::string first_wrong(std::initializer_list<std::string> findings) {
  for (const std::string& finding : findings) {
    if (!finding.empty()) return finding;
  }
  return {};
}

std::string ni_wrong(const NiConfig& ni) {
  const std::string base = "net.local NI(s).";
  const Tunables& t = ni.tunables;
  std::string wrong = first_wrong({field_wrong(base + "tunables.peer_timeout", t.peer_timeout.count()),
                                   field_wrong(base + "tunables.peer_credits", t.peer_credits),
                                   field_wrong(base + "tunables.peer_buffer_credits", t.peer_buffer_credits),
                                   field_wrong(base + "tunables.credits", t.credits)});
  for (const auto& [key, value] : ni.lnd_tunables) {
    if (wrong.empty()) wrong = field_wrong(base + "lnd tunables." + key, value);
  }
  return wrong;
}

std::string net_set_wrong(const std::map<std::string, int64_t>& lnd_tunables) {
  std::string wrong;
  for (const auto& [key, value] : lnd_tunables) {
    const Field* field = ni_key_find(key);
    if (field == nullptr || field->net_set[0] == 0) return fmt::format("unknown key '{}'", key);
    std::string found = field_wrong(field->path, value);
    if (!found.empty() && field->net_set_wrong[0] != 0) return field->net_set_wrong;
    if (wrong.empty()) wrong = std::move(found);
  }
  return wrong;
}

/// Checks that the types cannot express: bounds and names of each kind of change.
struct Checker {
  std::string operator()(const NetAdd& c) const {
    if (c.net == kAnyNet) return "'net' is missing";
    if (!c.ni.nid && c.ni.interface.empty()) return "interface / NID is missing";
    if (c.ni.nid && c.ni.nid->net() != c.net) return "'nid' is not on 'net'";
    return ni_wrong(c.ni);
  }
  std::string operator()(const NetAddMatching& c) const {
    if (c.rule.net == kAnyNet) return "'net' is missing";
    for (const std::string& pattern : c.rule.patterns) {
      if (!ip_pattern_valid(pattern)) return fmt::format("'{}' is not an address pattern such as 192.168.0.*", pattern);
    }
    return ni_wrong(c.rule.ni);
  }
  std::string operator()(const NetDel& c) const { return c.net == kAnyNet ? "'net' is missing" : ""; }
  std::string operator()(const NetSet& c) const {
    if (c.health && (*c.health < kHealthAuto || *c.health > 1000)) return kHealthRange;
    return net_set_wrong(c.lnd_tunables);
  }
  std::string operator()(const RouteAdd& c) const {
    if (c.route.net == kAnyNet) return "missing mandatory parameter: network";
    if (c.route.gateway.is_any()) return "missing mandatory parameter: gateway";
    if (c.route.hop == 0) return "invalid hop count must be between 1 and 255";
    return first_wrong({field_wrong("route.hop", c.route.hop), field_wrong("route.priority", c.route.priority)});
  }
  std::string operator()(const RouteDel& c) const {
    if (c.net == kAnyNet) return "missing mandatory parameter: network";
    return c.gateway.is_any() ? "missing mandatory parameter: gateway" : "";
  }
  std::string operator()(const PeerAdd& c) const { return c.peer.primary.is_any() ? "missing primary NID" : ""; }
  std::string operator()(const PeerDel& c) const { return c.primary.is_any() ? "missing primary NID" : ""; }
  std::string operator()(const PeerSet& c) const {
    if (c.health && (*c.health < kHealthAuto || *c.health > 1000)) return kHealthRange;
    return "";
  }
  std::string operator()(const SetValue& c) const {
    const Field* field = field_find("global." + c.name);
    if (field == nullptr || field->type == FieldType::kIgnored) return fmt::format("unknown setting '{}'", c.name);
    if (c.name == "discovery" && c.value == 2) return "";
    return field_wrong("global." + c.name, c.value);
  }
  std::string operator()(const SetBuffers& c) const {
    return first_wrong({field_wrong("buffers.tiny", c.tiny.value_or(0)),
                        field_wrong("buffers.small", c.small.value_or(0)),
                        field_wrong("buffers.large", c.large.value_or(0))});
  }
  std::string operator()(const UdspAdd& c) const {
    const auto match = udsp_rule_parse(c.rule);
    if (!match) return match.error();
    return first_wrong({c.rule.idx ? field_wrong("udsp.idx", *c.rule.idx) : "",
                        c.rule.priority ? field_wrong("udsp.action.priority", *c.rule.priority) : ""});
  }
  std::string operator()(const UdspDel& c) const {
    if (!c.all && !c.idx && !c.rule) return "one of 'idx', 'all' and the descriptors of a rule is needed";
    if (c.all && (c.idx || c.rule)) return "'all' does not go with 'idx' or with descriptors";
    if (c.idx && *c.idx < (c.rule ? 0 : -1)) return "'idx' is out of range";
    if (c.either_end && (!c.rule || c.rule->src.empty() || !c.rule->dst.empty() || !c.rule->rte.empty()))
      return "'either_end' needs a rule with src only";
    if (!c.rule) return {};
    const auto match = udsp_rule_parse(*c.rule);
    return match ? "" : match.error();
  }
  std::string operator()(const UlnetSet& c) const { return field_wrong("ulnet." + c.key, c.value); }
  std::string operator()(const LnetConfigure&) const { return {}; }
  std::string operator()(const LnetUnconfigure&) const { return {}; }
  std::string operator()(const SetRouting&) const { return {}; }
};

template <size_t I = 0>
bool emplace_by_name(std::string_view name, Change& change) {
  if constexpr (I < std::variant_size_v<Change>) {
    if (name != kNames[I]) return emplace_by_name<I + 1>(name, change);
    change.emplace<I>();
    return true;
  } else {
    return false;
  }
}

struct Name {
  const char* verb;
  const char* entity;
};
constexpr std::array<Name, std::variant_size_v<Change>> kVerbs = {{{"configure", "lnet"},
                                                                   {"unconfigure", "lnet"},
                                                                   {"add", "net"},
                                                                   {"add", "net"},
                                                                   {"del", "net"},
                                                                   {"set", "net"},
                                                                   {"add", "route"},
                                                                   {"del", "route"},
                                                                   {"add", "peer"},
                                                                   {"del", "peer"},
                                                                   {"set", "peer"},
                                                                   {"set", "global"},
                                                                   {"set", "routing"},
                                                                   {"set", "buffers"},
                                                                   {"add", "udsp"},
                                                                   {"del", "udsp"},
                                                                   {"set", "ulnet"}}};

}  // namespace

std::optional<int64_t> health_parse(std::string_view text) {
  return text == "auto" ? std::optional(kHealthAuto) : integer_parse(text);
}

Problem placed(const ChangeList& changes, Problem problem) {
  if (problem.index >= changes.size()) return problem;
  const PlacedChange& change = changes[problem.index];
  problem.file = change.origin.file;
  problem.mark = change.origin.mark;
  problem.seq_no = change.origin.seq_no;
  problem.entity = change_entity(change.change);
  return problem;
}

std::string change_wrong(const Change& change) {
  return std::visit(Checker{}, change);
}

const char* change_verb(const Change& change) {
  return kVerbs.at(change.index()).verb;
}
const char* change_entity(const Change& change) {
  return kVerbs.at(change.index()).entity;
}

Json change_to_json(const PlacedChange& placed) {
  Json json = Json::object();
  json["change"] = kNames.at(placed.change.index());
  Change copy = placed.change;
  Writer writer(json);
  std::visit([&](auto& change) { fields_of(writer, change); }, copy);
  if (!placed.origin.file.empty()) json["file"] = placed.origin.file;
  if (placed.origin.mark.line != 0) {
    json["line"] = placed.origin.mark.line;
    json["column"] = placed.origin.mark.column;
  }
  if (placed.origin.seq_no) json["seq_no"] = *placed.origin.seq_no;
  return json;
}

tl::expected<PlacedChange, std::string> change_from_json(const Json& json) {
  if (!json.is_object()) return tl::unexpected(std::string("a change must be an object"));
  PlacedChange placed;
  std::string error;
  std::string name;
  Reader reader(json, error);
  reader("change", name);
  if (!emplace_by_name(name, placed.change)) return tl::unexpected(fmt::format("unknown change '{}'", name));
  std::visit([&](auto& change) { fields_of(reader, change); }, placed.change);
  int64_t line = 0, column = 0;
  reader("file", placed.origin.file);
  reader("line", line);
  reader("column", column);
  reader("seq_no", placed.origin.seq_no);
  placed.origin.mark = {static_cast<uint32_t>(line), static_cast<uint32_t>(column)};
  if (error.empty()) error = change_wrong(placed.change);
  if (!error.empty()) return tl::unexpected(name + ": " + error);
  return placed;
}

}  // namespace ulnet::config
