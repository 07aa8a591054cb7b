// lnet and net.
#include <fmt/format.h>

#include <sstream>

#include "dataplane/base/nid_text.h"
#include "tools/ulnetctl/builders.h"

namespace ulnet::ctl {
namespace {

constexpr const char* kNetExample = "a network such as tcp, tcp1 or o2ib3";

tl::expected<Net, Exit> net_option(const Words& words, const char* verb) {
  std::string text = words.value("net").value_or("");
  auto net = net_parse(text);
  if (!net || *net == kAnyNet)
    return refuse(verb, "net", -ENOENT, fmt::format("cannot parse net: '{}'; allowed: {}", text, kNetExample));
  if (net->type() == NetType::kLo) return refuse(verb, "net", -ENODEV, "setting @lo not allowed: lo always exists");
  return *net;
}

tl::expected<std::vector<Nid>, Exit> nids_option(const Words& words, const char* verb) {
  auto nids = config::nids_parse(words.list("nid"));
  if (!nids) return refuse(verb, "net", -EINVAL, "cannot parse NID: " + nids.error());
  return std::move(*nids);
}

/// The tunables that `net add` may carry. Errors go to `error`.
config::NiConfig ni_options(const Words& words, std::optional<Exit>& error) {
  config::NiConfig ni;
  auto read = [&](const char* option, const char* key, auto&& store) {
    auto value = number(words, option, std::string("net.local NI(s).") + key, "add", "net");
    if (!value && !error) error = value.error();
    if (value && *value) store(**value);
  };
  read("peer-timeout", "tunables.peer_timeout", [&](int64_t v) { ni.tunables.peer_timeout = config::Seconds(v); });
  read("peer-credits", "tunables.peer_credits", [&](int64_t v) { ni.tunables.peer_credits = v; });
  read("peer-buffer-credits", "tunables.peer_buffer_credits", [&](int64_t v) { ni.tunables.peer_buffer_credits = v; });
  read("credits", "tunables.credits", [&](int64_t v) { ni.tunables.credits = v; });
  read("conns-per-peer", "lnd tunables.conns_per_peer", [&](int64_t v) { ni.lnd_tunables["conns_per_peer"] = v; });
  read("tos", "lnd tunables.tos", [&](int64_t v) { ni.lnd_tunables["tos"] = v; });
  ni.skip_mr_route_setup = words.has("skip-mr-route-setup");
  if (auto text = words.value("cpt")) {
    auto cpts = config::cpt_list_parse(*text);
    if (cpts) ni.cpts = std::move(*cpts);
    if (!cpts && !error) error = refuse("add", "net", -ERANGE, "invalid CPT set: " + cpts.error()).value();
  }
  return ni;
}

/// "tcp(eth0) 192.168.0.* 10.0.0.*; o2ib 10.1.*.*": the text form of ip2nets.
tl::expected<std::vector<config::Change>, Exit> ip2net_option(const std::string& text, const config::NiConfig& ni) {
  std::vector<config::Change> changes;
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ';');) {
    std::istringstream words(entry);
    std::string head;
    if (!(words >> head)) continue;
    config::Ip2netsRule rule;
    rule.ni = ni;
    if (size_t open = head.find('('); open != std::string::npos) {
      if (!head.ends_with(')'))
        return refuse("add", "net", -EINVAL, fmt::format("--ip2net: '{}' has a bracket that is not closed", head));
      auto interfaces = config::interfaces_parse(head.substr(open + 1, head.size() - open - 2));
      if (!interfaces) return refuse("add", "net", -EINVAL, "--ip2net: " + interfaces.error());
      rule.interfaces = std::move(*interfaces);
      head.resize(open);
    }
    auto net = net_parse(head);
    if (!net || *net == kAnyNet)
      return refuse("add", "net", -ENOENT, fmt::format("cannot parse net: '{}'; allowed: {}", head, kNetExample));
    rule.net = *net;
    for (std::string pattern; words >> pattern;) rule.patterns.push_back(pattern);
    if (rule.patterns.empty())
      return refuse("add", "net", -EINVAL,
                    fmt::format("--ip2net: '{}' has no address pattern such as 192.168.0.*", entry));
    changes.emplace_back(config::NetAddMatching{std::move(rule)});
  }
  if (changes.empty())
    return refuse("add", "net", -EINVAL, "--ip2net: the text is empty; example: \"tcp 192.168.0.*\"");
  return changes;
}

}  // namespace

Built lnet_configure(const Words& words, const Env&) {
  return change({config::LnetConfigure{words.has("all"), words.has("large")}});
}

Built lnet_unconfigure(const Words&, const Env&) {
  return change({config::LnetUnconfigure{}});
}

Built net_add(const Words& words, const Env&) {
  std::optional<Exit> error;
  config::NiConfig ni = ni_options(words, error);
  if (error) return tl::unexpected(std::move(*error));
  int ways = (words.has("net") ? 1 : 0) + (words.has("nid") ? 1 : 0) + (words.has("ip2net") ? 1 : 0);
  if (ways != 1) {
    return refuse("add", "net", -EINVAL,
                  "missing mandatory parameter: network: give one of --net with --if, --nid, or --ip2net");
  }
  if (words.has("ip2net")) {
    auto changes = ip2net_option(*words.value("ip2net"), ni);
    if (!changes) return tl::unexpected(changes.error());
    return change(std::move(*changes));
  }
  std::vector<config::Change> changes;
  if (words.has("nid")) {
    auto nids = nids_option(words, "add");
    if (!nids) return tl::unexpected(nids.error());
    for (const Nid& nid : *nids) {
      if (nid.is_lo()) return refuse("add", "net", -ENODEV, "setting @lo not allowed: lo always exists");
      ni.nid = nid;
      changes.emplace_back(config::NetAdd{nid.net(), ni});
    }
    return change(std::move(changes));
  }
  auto net = net_option(words, "add");
  if (!net) return tl::unexpected(net.error());
  if (!words.has("if")) {
    return refuse("add", "net", -EINVAL,
                  "interface / NID is missing: creating a local NI needs at least one interface; give --if eth0");
  }
  auto interfaces = config::interfaces_parse(words.list("if"));
  if (!interfaces) return refuse("add", "net", -EINVAL, "--if: " + interfaces.error());
  for (const config::InterfaceSpec& interface : *interfaces) {
    config::NiConfig one = ni;
    one.interface = interface.name;
    if (!interface.cpts.empty()) one.cpts = interface.cpts;
    changes.emplace_back(config::NetAdd{*net, std::move(one)});
  }
  return change(std::move(changes));
}

Built net_del(const Words& words, const Env&) {
  std::vector<config::Change> changes;
  config::NetDel del;
  del.now = words.has("now");
  if (words.has("nid") == words.has("net")) {
    return refuse("del", "net", -EINVAL,
                  "missing mandatory parameter: network: give --net, with --if for some of its interfaces, or --nid");
  }
  if (words.has("nid")) {
    auto nids = nids_option(words, "del");
    if (!nids) return tl::unexpected(nids.error());
    for (const Nid& nid : *nids) {
      del.net = nid.net();
      del.nid = nid;
      changes.emplace_back(del);
    }
    return change(std::move(changes));
  }
  auto net = net_option(words, "del");
  if (!net) return tl::unexpected(net.error());
  del.net = *net;
  if (!words.has("if")) return change({del});
  auto interfaces = config::interfaces_parse(words.list("if"));
  if (!interfaces) return refuse("del", "net", -EINVAL, "--if: " + interfaces.error());
  for (const config::InterfaceSpec& interface : *interfaces) {
    del.interface = interface.name;
    changes.emplace_back(del);
  }
  return change(std::move(changes));
}

Built net_show(const Words& words, const Env&) {
  auto level = verbosity(words, "net");
  if (!level) return tl::unexpected(level.error());
  config::Json args = {{"verbose", *level}};
  if (auto text = words.value("net")) {
    auto net = net_parse(*text);
    if (!net)
      return refuse("show", "net", -ENOENT, fmt::format("cannot parse net: '{}'; allowed: {}", *text, kNetExample));
    args["net"] = net_text(*net);
  }
  return command_of(api::Call::kShowNet, std::move(args));
}

Built net_set(const Words& words, const Env&) {
  config::NetSet set;
  set.all = words.has("all");
  auto health = words.value("health");
  if (health) set.health = config::health_parse(*health);
  if (health && !set.health)
    return refuse("set", "net", -EINVAL,
                  fmt::format("--health: '{}' is not a health value; allowed: 0..1000, or auto", *health));
  auto conns = number(words, "conns-per-peer", "net.local NI(s).lnd tunables.conns_per_peer", "set", "net");
  if (!conns) return tl::unexpected(conns.error());
  if (*conns) set.lnd_tunables["conns_per_peer"] = **conns;
  auto timeout = number(words, "lnd-timeout", "net.local NI(s).lnd tunables.timeout", "set", "net");
  if (!timeout) return tl::unexpected(timeout.error());
  if (*timeout) set.lnd_tunables["timeout"] = **timeout;
  if (words.has("net")) {
    auto net = net_option(words, "set");
    if (!net) return tl::unexpected(net.error());
    set.net = *net;
  }
  if (words.has("nid")) {
    auto nids = nids_option(words, "set");
    if (!nids) return tl::unexpected(nids.error());
    if (nids->size() != 1) return refuse("set", "net", -EINVAL, "--nid: one NID at a time; use --all for every NI");
    set.nid = nids->front();
  }
  if (!set.health && set.lnd_tunables.empty()) {
    return refuse("set", "net", -EINVAL, "nothing to set: give --health, --conns-per-peer or --lnd-timeout");
  }
  if (*timeout && !set.net)
    return refuse("set", "net", -EINVAL,
                  "--lnd-timeout needs --net: the timeout is set for the driver of that network");
  if ((set.health || *conns) && !set.nid && !set.all)
    return refuse("set", "net", -EINVAL, "no NI is given: use --nid or --all");
  return change({set});
}

}  // namespace ulnet::ctl
