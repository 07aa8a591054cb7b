#include "config/warn.h"

#include <fmt/format.h>

#include <set>

#include "config/schema.h"
#include "dataplane/base/nid_text.h"

namespace ulnet::config {
namespace {

/// The default of a key as a number; it may stand in the table as text only.
std::optional<int64_t> default_number(const Field& field) {
  if (field.home != FieldHome::kModel) return field.number;
  if (field.at == nullptr) return field_number(field, Doc(field.default_text != nullptr ? field.default_text : ""));
  Slots defaults;
  return field_number(field, field_value(field, defaults));
}

class Warner {
 public:
  Warner(const UlnetSection* running, Problems& out) : running_(running), out_(out) {}
  size_t index = 0;

  void operator()(const LnetConfigure& c) {
    if (c.large) add("--large has no effect: each NID is as large as its address; give an IPv6 address with --nid");
  }
  void operator()(const NetAdd& c) { ni(c.net.type(), c.ni); }
  void operator()(const NetAddMatching& c) { ni(c.rule.net.type(), c.rule.ni); }
  void operator()(const SetValue& c) { key("global." + c.name, c.value); }
  void operator()(const UlnetSet& c) {
    const Field* field = field_find("ulnet." + c.key);
    if (field == nullptr || !field_has_value(*field)) return;
    Slots slots, now;
    if (running_ != nullptr) now.ulnet = *running_;
    if (!field_assign(*field, c.value, slots).empty() || field_value(*field, slots) == field_value(*field, now)) return;
    if (field->no_effect[0] != 0) return add(fmt::format("{} has no effect: {}", field->path, field->no_effect));
    if (field->needs_restart && running_ != nullptr)
      add(fmt::format("{} takes effect at the next start of ulnetd", field->path));
  }
  template <class Other>
  void operator()(const Other&) {}

 private:
  void ni(NetType type, const NiConfig& ni) {
    key("net.local NI(s).tunables.peer_timeout", ni.tunables.peer_timeout.count());
    for (const auto& [name, value] : ni.lnd_tunables) driver_key(type, name, value);
    if (ni.skip_mr_route_setup) add("--skip-mr-route-setup has no effect: ulnet never changes the kernel's routes");
  }
  void key(const std::string& path, int64_t value) {
    const Field* field = field_find(path);
    if (field == nullptr || field->no_effect[0] == 0 || default_number(*field) == value) return;
    add(fmt::format("{} has no effect: {}", path.substr(path.rfind('.') + 1), field->no_effect));
  }
  /// A key of "lnd tunables": its rows may differ by driver.
  void driver_key(NetType type, const std::string& name, int64_t value) {
    const Field* field = ni_key_find(name);
    const DriverField* row = ni_row_find(type, name);
    if (field == nullptr || (row != nullptr ? row->number : field->number) == value) return;
    if (row == nullptr)
      return add(fmt::format("{} has no effect: {} networks have no such key", name, net_text(Net::of(type, 0))));
    if (row->no_effect[0] != 0) add(fmt::format("{} has no effect: {}", name, row->no_effect));
  }
  void add(std::string what) {
    if (out_.size() < kWarningsMax && seen_.insert(what).second) out_.push_back(problem_of(0, std::move(what), index));
  }

  const UlnetSection* running_;
  Problems& out_;
  std::set<std::string> seen_;
};

}  // namespace

Problems changes_warnings(const ChangeList& changes, const UlnetSection* running) {
  Problems out;
  Warner warner(running, out);
  for (; warner.index < changes.size(); ++warner.index) std::visit(warner, changes[warner.index].change);
  for (Problem& one : out) one = placed(changes, std::move(one));
  return out;
}

}  // namespace ulnet::config
