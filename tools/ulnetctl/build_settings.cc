// set, global and stats.
#include <fmt/format.h>

#include "config/schema.h"
#include "tools/ulnetctl/builders.h"

namespace ulnet::ctl {
namespace {

/// set tiny_buffers and its sisters.
Built set_buffers(const std::string& name, const std::string& value) {
  std::string pool = name.substr(0, name.find('_'));
  std::optional<int64_t> number = config::field_number(*config::field_find("buffers." + pool), config::Doc(value));
  if (!number || *number == 0) {
    const std::optional<int64_t> any = config::integer_parse(value);
    const config::Field& field = *config::field_find("buffers." + pool);
    if (any && *any > field.max)
      return refuse(
          "set", "buffers", -ERANGE,
          fmt::format("cannot configure {}: '{}' is too many; allowed: 1..{} {}", name, value, field.max, field.unit));
    return refuse("set", "buffers", -EINVAL,
                  fmt::format("cannot configure {}: '{}': "
                              "tiny, small and large must be > 0 (-1 keeps the number that is set)",
                              name, value));
  }
  config::SetBuffers set;
  if (*number > 0) (pool == "tiny" ? set.tiny : pool == "small" ? set.small : set.large) = *number;
  return change({set});
}

std::string settings_known() {
  std::string out;
  for (const std::string& name : config::field_children("global")) {
    if (config::field_find("global." + name)->at != nullptr) out += name + ", ";
  }
  return out + "routing, tiny_buffers, small_buffers, large_buffers";
}

/// The allowed values, in lnetctl's words where lnetctl prints them.
std::string range_text(const std::string& name, const config::Field& field) {
  if (name == "response_tracking") return "Valid values are: 0, 1, 2, or 3";
  if (name == "recovery_limit") return "Must be greater than or equal to 0";
  if (name == "max_recovery_ping_interval") return "must be strictly positive";
  return "allowed: " + field_allowed(field);
}

}  // namespace

Built set_value(const Words& words, const Env&) {
  if (words.plain.size() != 2)
    return tl::unexpected(Exit{{}, "ulnetctl: set needs a name and a value\n" + help_text("set", ""), 1});
  std::string name = words.plain[0];
  const std::string& value = words.plain[1];
  if (name == "tiny_buffers" || name == "small_buffers" || name == "large_buffers") return set_buffers(name, value);
  if (name == "routing") {
    auto enable = config::Doc(value).boolean();
    if (enable) return change({config::SetRouting{*enable}});
    return refuse("parser", "set", -1,
                  fmt::format("cannot parse routing value '{}'.\nmust be 0 for disable or 1 for enable", value));
  }
  if (name == "max_intf") name = "max_interfaces";
  if (name == "use_tcp_bonding") {
    Command command;
    command.warnings = "warning: use_tcp_bonding has no effect; configure several NIs on the net instead of bonding\n";
    return command;
  }
  const config::Field* field = config::field_find("global." + name);
  if (field != nullptr && field->at == nullptr) {
    return refuse("set", "global", -EINVAL, fmt::format("cannot configure {}: {}", name, field->text));
  }
  if (field == nullptr) {
    std::string nearest = config::field_nearest("global", name);
    std::string hint = nearest.empty() ? "known: " + settings_known() : fmt::format("did you mean '{}'?", nearest);
    return refuse("set", "global", -EINVAL,
                  fmt::format("cannot configure {}: there is no such setting; {}", name, hint));
  }
  std::optional<int64_t> number = config::field_number(*field, config::Doc(value));
  if (!number) {
    return refuse("set", "global", -ERANGE,
                  fmt::format("cannot configure {}: '{}': {}", name, value, range_text(name, *field)));
  }
  Built built = change({config::SetValue{name, *number}});
  if (name == "max_interfaces" && *number < 16) built->warnings = "warning: max_interfaces below 16 becomes 4096\n";
  return built;
}

Built global_show(const Words&, const Env&) {
  return command_of(api::Call::kShowGlobal);
}
Built stats_show(const Words& words, const Env&) {
  auto level = verbosity(words, "stats");
  if (!level) return tl::unexpected(level.error());
  return command_of(api::Call::kShowStats, *level == 0 ? config::Json::object() : config::Json{{"verbose", *level}});
}

Built stats_reset(const Words&, const Env&) {
  return command_of(api::Call::kResetStats);
}

}  // namespace ulnet::ctl
