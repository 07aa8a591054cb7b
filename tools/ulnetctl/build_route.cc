// route and routing.
#include <fmt/format.h>

#include "dataplane/base/nid_text.h"
#include "tools/ulnetctl/builders.h"

namespace ulnet::ctl {
namespace {

struct RouteOptions {
  std::vector<Net> nets;
  std::vector<Nid> gateways;
};

tl::expected<RouteOptions, Exit> route_options(const Words& words, const char* verb) {
  if (!words.has("net")) return refuse(verb, "route", -ENODEV, "missing mandatory parameter: network: give --net");
  if (!words.has("gateway"))
    return refuse(verb, "route", -ENODEV, "missing mandatory parameter: gateway: give --gateway");
  auto nets = config::nets_parse(words.list("net"));
  if (!nets) return refuse(verb, "route", -ENODEV, "cannot parse remote net: " + nets.error());
  auto gateways = config::nids_parse(words.list("gateway"));
  if (!gateways) return refuse(verb, "route", -EINVAL, "cannot parse gateway: " + gateways.error());
  for (Net net : *nets) {
    if (net.type() == NetType::kLo) return refuse(verb, "route", -EACCES, "setting @lo not allowed");
  }
  if (nets->size() * gateways->size() > config::kRangeMax) {
    return refuse(verb, "route", -EINVAL, fmt::format("more than {} routes; give smaller ranges", config::kRangeMax));
  }
  return RouteOptions{std::move(*nets), std::move(*gateways)};
}

tl::expected<std::optional<int64_t>, Exit> hop_option(const Words& words, const char* verb) {
  const char* name = words.has("hop") ? "hop" : "hop-count";
  auto hop = number(words, name, "route.hop", verb, "route");
  std::string text = words.value(name).value_or("");
  if (!hop || (*hop && **hop == 0)) {
    if (config::integer_parse(text))
      return refuse(verb, "route", -EINVAL,
                    fmt::format("invalid hop count must be between 1 and 255: --{} {}", name, text));
    return refuse(verb, "route", -EINVAL,
                  fmt::format("invalid hop count: --{} '{}' is not a number; allowed: 1..255", name, text));
  }
  return hop;
}

tl::expected<std::optional<int64_t>, Exit> priority_option(const Words& words, const char* verb) {
  auto priority = number(words, "priority", "route.priority", verb, "route");
  if (!priority) {
    std::string text = words.value("priority").value_or("");
    const auto value = config::integer_parse(text);
    if (value && *value < 0)
      return refuse(verb, "route", -EINVAL, fmt::format("invalid priority, must not be negative: --priority {}", text));
    return refuse(verb, "route", -EINVAL,
                  fmt::format("invalid priority: --priority '{}' {}; allowed: 0 or more", text,
                              value ? "is out of range" : "is not a number"));
  }
  return priority;
}

}  // namespace

Built route_add(const Words& words, const Env&) {
  auto options = route_options(words, "add");
  if (!options) return tl::unexpected(options.error());
  auto hop = hop_option(words, "add");
  if (!hop) return tl::unexpected(hop.error());
  auto priority = priority_option(words, "add");
  if (!priority) return tl::unexpected(priority.error());
  std::vector<config::Change> changes;
  for (Net net : options->nets) {
    for (const Nid& gateway : options->gateways) {
      changes.emplace_back(config::RouteAdd{{net, gateway, hop->value_or(-1), priority->value_or(0)}});
    }
  }
  Built built = change(std::move(changes));
  if (built && words.has("health-sensitivity"))
    built->warnings = "warning: --health-sensitivity has no effect: `set router_sensitivity` is for all gateways\n";
  return built;
}

Built route_del(const Words& words, const Env&) {
  auto options = route_options(words, "del");
  if (!options) return tl::unexpected(options.error());
  std::vector<config::Change> changes;
  for (Net net : options->nets) {
    for (const Nid& gateway : options->gateways) changes.emplace_back(config::RouteDel{net, gateway});
  }
  return change(std::move(changes));
}

Built route_show(const Words& words, const Env&) {
  auto level = verbosity(words, "route");
  if (!level) return tl::unexpected(level.error());
  config::Json args = {{"verbose", *level}};
  if (auto text = words.value("net")) {
    auto net = net_parse(*text);
    if (!net) return refuse("show", "route", -EINVAL, fmt::format("cannot parse remote net: '{}'", *text));
    args["net"] = net_text(*net);
  }
  if (auto text = words.value("gateway")) {
    auto nid = nid_parse(*text);
    if (!nid) return refuse("show", "route", -EINVAL, fmt::format("cannot parse gateway: '{}'", *text));
    args["gateway"] = nid_text(*nid);
  }
  auto hop = hop_option(words, "show");
  if (!hop) return tl::unexpected(hop.error());
  if (*hop) args["hop"] = **hop;
  auto priority = priority_option(words, "show");
  if (!priority) return tl::unexpected(priority.error());
  if (*priority) args["priority"] = **priority;
  return command_of(api::Call::kShowRoute, std::move(args));
}

Built routing_show(const Words&, const Env&) {
  return command_of(api::Call::kShowRouting);
}

}  // namespace ulnet::ctl
