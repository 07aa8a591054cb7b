#include "config/import_udsp.h"

#include <fmt/format.h>

#include <utility>

#include "config/udsp.h"

namespace ulnet::config {
namespace {

/// Reads a descriptor of a rule. The error names the character.
void udsp_text_read(Context& c, const Cursor& at, std::string& text) {
  if (!at.doc->is_scalar() && !at.doc->is_null())
    return c.wrong(at, fmt::format("is {}", at.doc->kind_text()), kUdspAllowed);
  text = at.doc->text();
  if (const auto pattern = udsp_parse(text); !pattern)
    c.wrong(at, fmt::format("at character {}: {}", pattern.error().position, pattern.error().what), kUdspAllowed);
}

/// A rule of `selection` as it is written: at most one text for each key.
struct Selection {
  std::string type;
  std::string net, nid, local, remote;
  std::optional<int64_t> priority, id;
};

/// A net for `net`, addresses for `nid`. The other kind has an effect of its own, so it is refused.
void kind_check(Context& c, const Cursor& item, const Selection& rule) {
  const auto net = udsp_parse(rule.net), nid = udsp_parse(rule.nid);
  if (rule.type == "net" && net && !net->is_net())
    c.wrong(item, fmt::format("'net' is '{}', which is not a network", rule.net), "a network, or type: nid");
  if (rule.type == "nid" && nid && nid->is_net())
    c.wrong(item, fmt::format("'nid' is '{}', which is a network", rule.nid),
            "addresses such as *.*.*.*@tcp, or type: net");
}

/// Reports the keys that the type needs and does not have, and the keys that belong to other types. `by_id`: none is
/// needed.
void keys_check(Context& c, const Cursor& item, const Selection& rule, bool by_id) {
  for (const auto& [key, text, type] :
       {std::tuple("net", &rule.net, "net"), std::tuple("nid", &rule.nid, "nid"),
        std::tuple("local", &rule.local, "peer"), std::tuple("remote", &rule.remote, "peer")}) {
    if (!text->empty() && rule.type != type)
      c.wrong(item, fmt::format("'{}' does not belong to a rule of type {}", key, rule.type));
    if (text->empty() && rule.type == type && !by_id) c.wrong(item, fmt::format("'{}' is missing", key), kUdspAllowed);
  }
}

/// The rules of the list that the rule stands for.
std::vector<UdspRule> rules_of(const Selection& rule) {
  if (rule.type == "net") return {{.src = rule.net, .priority = rule.priority}};
  if (rule.type == "peer") return {{.src = rule.local, .dst = rule.remote, .priority = rule.priority}};
  return {{.src = rule.nid, .priority = rule.priority}, {.dst = rule.nid, .priority = rule.priority}};
}

}  // namespace

void udsp_item(Context& c, const Cursor& item) {
  UdspRule rule;
  size_t errors = c.out.errors.size();
  c.each_key(item, [&](const std::string& key, const Cursor& child, const Field& field) {
    if (key == "action") {
      c.each_item(child, [&](const Cursor& action) {
        c.each_key(action,
                   [&](const std::string&, const Cursor& at, const Field& f) { rule.priority = c.number(at, f); });
      });
    } else if (key == "idx") {
      rule.idx = c.number(child, field);
    } else {
      udsp_text_read(c, child, key == "src" ? rule.src : key == "dst" ? rule.dst : rule.rte);
    }
  });
  if (c.out.errors.size() != errors) return;
  const bool del = c.mode == ImportMode::kDel;
  const bool by_number = del && rule.idx && rule.src.empty() && rule.dst.empty() && rule.rte.empty();
  if (by_number) return c.change(item, UdspDel{.idx = rule.idx});
  if (const auto match = udsp_rule_parse(rule); !match) {
    return c.wrong(item, del && !rule.idx ? match.error() + ", or idx" : match.error());
  }
  if (del && rule.idx.value_or(0) < 0) return c.wrong(item, "'idx' -1 means all rules", "-1 alone, or 0 or more");
  if (del) {
    const std::optional<int64_t> idx = std::exchange(rule.idx, std::nullopt);
    return c.change(item, UdspDel{.idx = idx, .rule = std::move(rule)});
  }
  c.change(item, UdspAdd{std::move(rule)});
}

void selection_item(Context& c, const Cursor& item) {
  Selection rule;
  const size_t errors = c.out.errors.size();
  c.each_key(item, [&](const std::string& key, const Cursor& child, const Field& field) {
    if (key == "type") {
      rule.type = child.doc->text();
      if (rule.type != "net" && rule.type != "nid" && rule.type != "peer")
        c.wrong(child, child.doc->is_scalar() ? "is not a type of rule" : fmt::format("is {}", child.doc->kind_text()),
                "net, nid or peer");
    } else if (key == "priority" || key == "id") {
      (key == "id" ? rule.id : rule.priority) = c.number(child, field);
    } else {
      udsp_text_read(c, child,
                     key == "net"     ? rule.net
                     : key == "nid"   ? rule.nid
                     : key == "local" ? rule.local
                                      : rule.remote);
    }
  });
  const bool del = c.mode == ImportMode::kDel;
  if (item.doc->find("type") == nullptr) c.wrong(item, "'type' is missing", "net, nid or peer");
  if (!del && item.doc->find("priority") == nullptr) c.wrong(item, "'priority' is missing", "0..255, 0 is the highest");
  if (c.out.errors.size() != errors) return;
  const bool by_id =
      del && rule.id && rule.net.empty() && rule.nid.empty() && rule.local.empty() && rule.remote.empty();
  keys_check(c, item, rule, by_id);
  kind_check(c, item, rule);
  if (c.out.errors.size() != errors) return;
  if (by_id) return c.change(item, UdspDel{.idx = rule.id});
  const std::vector<UdspRule> rules = rules_of(rule);
  if (del) return c.change(item, UdspDel{.idx = rule.id, .rule = rules[0], .either_end = rules.size() > 1});
  for (const UdspRule& one : rules) c.change(item, UdspAdd{one});
}

}  // namespace ulnet::config
