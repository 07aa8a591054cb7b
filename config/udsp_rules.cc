#include "config/udsp_rules.h"

#include <fmt/format.h>

#include <algorithm>

namespace ulnet::config {
namespace {

/// "src tcp1 and dst 10.0.0.1@tcp", the descriptors as they are written.
std::string descriptors_text(const UdspRule& rule) {
  std::string text;
  for (const auto& [name, one] :
       {std::pair("src", &rule.src), std::pair("dst", &rule.dst), std::pair("rte", &rule.rte)})
    if (!one->empty()) text += fmt::format("{}{} {}", text.empty() ? "" : " and ", name, *one);
  return text;
}

}  // namespace

void UdspRules::forget() {
  keys_known_ = false;
  keys_.clear();
  known_.clear();
  changed_.clear();
}

void UdspRules::keys_read() {
  if (keys_known_) return;
  keys_known_ = true;
  for (const UdspRule& rule : rules_) {
    const auto match = udsp_rule_parse(rule);
    known_.insert(keys_.emplace_back(match ? match->key() : descriptors_text(rule)));
  }
}

/// Index of the rule with this key, or the number of rules.
size_t UdspRules::find(const std::string& key) const {
  if (!known_.contains(key)) return keys_.size();
  return static_cast<size_t>(std::find(keys_.begin(), keys_.end(), key) - keys_.begin());
}

void UdspRules::erase(size_t at) {
  known_.erase(keys_[at]);
  changed_.erase(keys_[at]);
  keys_.erase(keys_.begin() + static_cast<std::ptrdiff_t>(at));
  rules_.erase(rules_.begin() + static_cast<std::ptrdiff_t>(at));
}

Checked<void> UdspRules::add(const UdspRule& rule, bool from_file) {
  const auto match = udsp_rule_parse(rule);
  if (!match) return fail(-EINVAL, "cannot add udsp: " + match.error());
  keys_read();
  std::string key = match->key();
  if (const size_t at = find(key); at < rules_.size()) {
    const bool changed = changed_.contains(key);
    if (rules_[at].priority != match->priority) {
      rules_[at].priority = match->priority;
      changed_.insert(std::move(key));
    } else if (!from_file || changed) {
      return fail(-EALREADY, "cannot add udsp: there is an identical rule");
    }
    return {};
  }
  if (rules_.size() >= kUdspRulesMax)
    return fail(-ENOSPC, fmt::format("cannot add udsp: there are {} rules, which is the maximum", kUdspRulesMax));
  UdspRule stored = rule;
  stored.idx.reset();
  stored.priority = match->priority;
  const int64_t idx = rule.idx.value_or(-1);
  const size_t at = idx < 0 ? rules_.size() : std::min(static_cast<size_t>(idx), rules_.size());
  rules_.insert(rules_.begin() + static_cast<std::ptrdiff_t>(at), std::move(stored));
  known_.insert(key);
  changed_.insert(key);
  keys_.insert(keys_.begin() + static_cast<std::ptrdiff_t>(at), std::move(key));
  return {};
}

Checked<void> UdspRules::del(const UdspDel& del) {
  if (del.all || (del.idx == -1 && !del.rule)) {
    rules_.clear();
    forget();
    return {};
  }
  const bool idx_good = del.idx && *del.idx >= 0 && static_cast<size_t>(*del.idx) < rules_.size();
  if (del.idx ? !idx_good : !del.rule) return fail(-ENOENT, "cannot del udsp: No such file or directory");
  keys_read();
  if (!del.rule) {
    erase(static_cast<size_t>(*del.idx));
    return {};
  }
  std::vector<UdspRule> wanted{*del.rule};
  if (del.either_end) wanted.push_back({.dst = del.rule->src});
  bool erased = false;
  for (const UdspRule& one : wanted) {
    const auto match = udsp_rule_parse(one);
    if (!match) return fail(-EINVAL, "cannot del udsp: " + match.error());
    const size_t at = find(match->key());
    if (at == rules_.size() || (del.idx && at != static_cast<size_t>(*del.idx))) continue;
    erase(at);
    erased = true;
    if (del.idx) break;
  }
  if (erased) return {};
  std::string text = descriptors_text(wanted[0]);
  if (del.either_end) text = fmt::format("src or dst {}", del.rule->src);
  if (!del.idx) return fail(-ENOENT, fmt::format("cannot del udsp: there is no rule with {}", text));
  return fail(-EINVAL, fmt::format("cannot del udsp: the rule {} is not the rule with {}, but with {}", *del.idx, text,
                                   descriptors_text(rules_[static_cast<size_t>(*del.idx)])));
}

}  // namespace ulnet::config
