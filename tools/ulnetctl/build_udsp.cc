// udsp, policy and selection: three ways to write the rules of one list. Source: docs/wire/lnetctl.md §4,
// docs/decisions.md #1, #78.
#include <fmt/format.h>

#include "config/udsp.h"
#include "tools/ulnetctl/builders.h"

namespace ulnet::ctl {
namespace {

using config::UdspMatch;
using config::UdspPattern;
using config::UdspRule;

/// --priority. Nothing when it is not given. -1 is for files only.
tl::expected<std::optional<int64_t>, Exit> rule_priority(const Words& words, const char* entity) {
  const std::optional<std::string> text = words.value("priority");
  if (!text) return std::nullopt;
  const std::optional<int64_t> value = config::integer_parse(*text);
  if (!value)
    return refuse("add", entity, -EINVAL, fmt::format("--priority: '{}' is not a number; allowed: 0..255", *text));
  if (*value < 0 || *value > 255)
    return refuse("add", entity, -ERANGE, fmt::format("--priority: '{}' is out of range; allowed: 0..255", *text));
  return value;
}

/// --idx or --id of a rule that must exist.
tl::expected<std::optional<int64_t>, Exit> id_option(const Words& words, const char* name, const char* entity) {
  auto id = number(words, name, "udsp.idx", "del", entity);
  if (!id || !*id || **id >= 0) return id;
  return refuse("del", entity, -ERANGE,
                fmt::format("--{}: '{}' is out of range; allowed: 0 or more", name, *words.value(name)));
}

/// A change of the rules, or with --dry-run a request for its effect.
Built rules_change(const Words& words, config::Change one) {
  Built built = change({std::move(one)});
  if (built && words.has("dry-run")) built->requests[0].args["dry_run"] = true;
  return built;
}

/// The descriptor in the option `name`, checked. Empty when it is not given.
tl::expected<std::string, Exit> descriptor(const Words& words, const char* name, const char* verb, const char* entity) {
  const std::optional<std::string> text = words.value(name);
  if (!text) return std::string();
  const auto pattern = config::udsp_parse(*text);
  if (pattern) return *text;
  return refuse(verb, entity, -EINVAL,
                fmt::format("{} '{}', at character {}: {}; allowed: {}", name, *text, pattern.error().position,
                            pattern.error().what, config::kUdspAllowed));
}

/// --src, --dst and --rte.
tl::expected<UdspRule, Exit> rule_options(const Words& words, const char* verb) {
  UdspRule rule;
  for (const auto& [name, text] :
       {std::pair("src", &rule.src), std::pair("dst", &rule.dst), std::pair("rte", &rule.rte)}) {
    auto read = descriptor(words, name, verb, "udsp");
    if (!read) return tl::unexpected(std::move(read.error()));
    *text = std::move(*read);
  }
  return rule;
}

/// The rules of an answer {udsp: [...]} that `wanted` accepts; null if there is none.
config::Doc rules_filter(const config::Doc& answer, const std::function<bool(const UdspMatch&)>& wanted) {
  const config::Doc* all = answer.find("udsp");
  if (all == nullptr) return answer;
  config::Doc list = config::Doc::list();
  for (const config::Doc::Entry& entry : all->entries()) {
    const auto text = [&](const char* key) {
      const config::Doc* one = entry.value.find(key);
      return one != nullptr ? one->text() : std::string();
    };
    const auto match = config::udsp_rule_parse({.src = text("src"), .dst = text("dst"), .rte = text("rte")});
    if (match && wanted(*match)) list.push(entry.value);
  }
  if (list.size() == 0) return {};
  config::Doc doc = config::Doc::map();
  doc.set("udsp", std::move(list));
  return doc;
}

/// A show request, of which the rules that `wanted` accepts are printed.
Command rules_show(std::function<bool(const UdspMatch&)> wanted, config::Json args = config::Json::object()) {
  Command command = command_of(api::Call::kShowUdsp, std::move(args));
  command.filter = [wanted = std::move(wanted)](const config::Doc& answer) { return rules_filter(answer, wanted); };
  return command;
}

/// Whether the descriptor of a rule is the one that was given; true if none was given.
bool same(const std::string& given, const std::optional<UdspPattern>& of_rule) {
  return given.empty() || (of_rule && *config::udsp_parse(given) == *of_rule);
}

// ---- selection ----

enum class Kind : uint8_t { kNet, kNid };

/// --net or --nid. A network for --net, addresses for --nid.
tl::expected<std::string, Exit> pattern_option(const Words& words, Kind kind, const char* verb) {
  const char* name = kind == Kind::kNet ? "net" : "nid";
  auto text = descriptor(words, name, verb, "selection");
  if (!text || text->empty() || config::udsp_parse(*text)->is_net() == (kind == Kind::kNet)) return text;
  return refuse(
      verb, "selection", -EINVAL,
      kind == Kind::kNet
          ? fmt::format("--net: '{}' is not a network; use 'selection nid' for NIDs", *text)
          : fmt::format("--nid: '{}' is a network; use 'selection net', or *.*.*.*@tcp for all its NIDs", *text));
}

tl::unexpected<Exit> missing(const char* verb, const char* what) {
  return refuse(verb, "selection", -EINVAL, fmt::format("missing mandatory parameter: {}", what));
}

tl::expected<int64_t, Exit> priority_needed(const Words& words) {
  auto priority = rule_priority(words, "selection");
  if (!priority) return tl::unexpected(std::move(priority.error()));
  if (!*priority) return missing("add", "--priority, 0..255");
  return **priority;
}

Built selection_add(const Words& words, Kind kind) {
  auto text = pattern_option(words, kind, "add");
  if (!text) return tl::unexpected(std::move(text.error()));
  if (text->empty()) return missing("add", kind == Kind::kNet ? "--net" : "--nid");
  auto priority = priority_needed(words);
  if (!priority) return tl::unexpected(std::move(priority.error()));
  std::vector<config::Change> changes{config::UdspAdd{{.src = *text, .priority = *priority}}};
  if (kind == Kind::kNid) changes.emplace_back(config::UdspAdd{{.dst = *text, .priority = *priority}});
  return change(std::move(changes));
}

Built selection_del(const Words& words, Kind kind) {
  auto text = pattern_option(words, kind, "del");
  if (!text) return tl::unexpected(std::move(text.error()));
  auto id = id_option(words, "id", "selection");
  if (!id) return tl::unexpected(std::move(id.error()));
  if (text->empty() && !*id) return missing("del", kind == Kind::kNet ? "--net or --id" : "--nid or --id");
  if (text->empty()) return change({config::UdspDel{.idx = *id}});
  return change({config::UdspDel{.idx = *id, .rule = UdspRule{.src = *text}, .either_end = kind == Kind::kNid}});
}

Built selection_show(const Words& words, Kind kind) {
  auto text = pattern_option(words, kind, "show");
  if (!text) return tl::unexpected(std::move(text.error()));
  return rules_show([kind, text = *text](const UdspMatch& rule) {
    if (rule.rte || rule.src.has_value() == rule.dst.has_value()) return false;
    const std::optional<UdspPattern>& one = rule.src ? rule.src : rule.dst;
    if (kind == Kind::kNet && !rule.src) return false;
    return one->is_net() == (kind == Kind::kNet) && same(text, one);
  });
}

/// --local and --remote as src and dst.
tl::expected<UdspRule, Exit> pair_options(const Words& words, const char* verb) {
  auto local = descriptor(words, "local", verb, "selection");
  if (!local) return tl::unexpected(std::move(local.error()));
  auto remote = descriptor(words, "remote", verb, "selection");
  if (!remote) return tl::unexpected(std::move(remote.error()));
  return UdspRule{.src = std::move(*local), .dst = std::move(*remote)};
}

}  // namespace

Built udsp_add(const Words& words, const Env&) {
  auto rule = rule_options(words, "add");
  if (!rule) return tl::unexpected(std::move(rule.error()));
  if (const auto match = config::udsp_rule_parse(*rule); !match) return refuse("add", "udsp", -EINVAL, match.error());
  auto priority = rule_priority(words, "udsp");
  if (!priority) return tl::unexpected(std::move(priority.error()));
  rule->priority = *priority;
  auto idx = number(words, "idx", "udsp.idx", "add", "udsp");
  if (!idx) return tl::unexpected(std::move(idx.error()));
  rule->idx = *idx;
  if (!rule->priority) rule->priority = config::udsp_rule_parse(*rule)->priority;
  return rules_change(words, config::UdspAdd{std::move(*rule)});
}

Built udsp_del(const Words& words, const Env&) {
  auto idx = number(words, "idx", "udsp.idx", "del", "udsp");
  if (!idx) return tl::unexpected(std::move(idx.error()));
  if (!*idx && !words.has("all")) return refuse("del", "udsp", -EINVAL, "either 'idx' or 'all' is needed");
  return rules_change(words, config::UdspDel{.idx = *idx, .all = words.has("all")});
}

Built udsp_show(const Words& words, const Env&) {
  auto idx = number(words, "idx", "udsp.idx", "show", "udsp");
  if (!idx) return tl::unexpected(std::move(idx.error()));
  config::Json args = config::Json::object();
  if (*idx) args["idx"] = **idx;
  return command_of(api::Call::kShowUdsp, std::move(args));
}

Built policy_del(const Words& words, const Env& env) {
  auto rule = rule_options(words, "del");
  if (!rule) return tl::unexpected(std::move(rule.error()));
  if (*rule == UdspRule{} && (words.has("idx") || words.has("all"))) return udsp_del(words, env);
  if (*rule == UdspRule{})
    return refuse("del", "udsp", -EINVAL, "one of 'idx', 'all' and the descriptors of a rule is needed");
  auto idx = id_option(words, "idx", "udsp");
  if (!idx) return tl::unexpected(std::move(idx.error()));
  return rules_change(words, config::UdspDel{.idx = *idx, .all = words.has("all"), .rule = std::move(*rule)});
}

Built policy_show(const Words& words, const Env& env) {
  auto rule = rule_options(words, "show");
  if (!rule) return tl::unexpected(std::move(rule.error()));
  Built show = udsp_show(words, env);
  if (!show || *rule == UdspRule{}) return show;
  return rules_show(
      [rule = *rule](const UdspMatch& one) {
        return same(rule.src, one.src) && same(rule.dst, one.dst) && same(rule.rte, one.rte);
      },
      show->requests[0].args);
}

Built selection_net_add(const Words& words, const Env&) {
  return selection_add(words, Kind::kNet);
}
Built selection_net_del(const Words& words, const Env&) {
  return selection_del(words, Kind::kNet);
}
Built selection_net_show(const Words& words, const Env&) {
  return selection_show(words, Kind::kNet);
}

Built selection_nid_add(const Words& words, const Env&) {
  return selection_add(words, Kind::kNid);
}
Built selection_nid_del(const Words& words, const Env&) {
  return selection_del(words, Kind::kNid);
}
Built selection_nid_show(const Words& words, const Env&) {
  return selection_show(words, Kind::kNid);
}

Built selection_peer_add(const Words& words, const Env&) {
  auto rule = pair_options(words, "add");
  if (!rule) return tl::unexpected(std::move(rule.error()));
  if (rule->src.empty() || rule->dst.empty()) return missing("add", rule->src.empty() ? "--local" : "--remote");
  auto priority = priority_needed(words);
  if (!priority) return tl::unexpected(std::move(priority.error()));
  rule->priority = *priority;
  return change({config::UdspAdd{std::move(*rule)}});
}

Built selection_peer_del(const Words& words, const Env&) {
  auto rule = pair_options(words, "del");
  if (!rule) return tl::unexpected(std::move(rule.error()));
  auto id = id_option(words, "id", "selection");
  if (!id) return tl::unexpected(std::move(id.error()));
  if (*id && rule->src.empty() && rule->dst.empty()) return change({config::UdspDel{.idx = *id}});
  if (rule->src.empty() || rule->dst.empty()) return missing("del", "--local with --remote, or --id");
  return change({config::UdspDel{.idx = *id, .rule = std::move(*rule)}});
}

Built selection_peer_show(const Words& words, const Env&) {
  auto rule = pair_options(words, "show");
  if (!rule) return tl::unexpected(std::move(rule.error()));
  return rules_show([rule = *rule](const UdspMatch& one) {
    return one.src && one.dst && same(rule.src, one.src) && same(rule.dst, one.dst);
  });
}

}  // namespace ulnet::ctl
