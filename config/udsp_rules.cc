#include "config/udsp_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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
  known_ = holes_ = false;
  entries_.clear();
  order_.clear();
  by_key_.clear();
}

void UdspRules::read() {
  if (known_) return;
  known_ = true;
  for (const UdspRule& rule : rules_) {
    const auto match = udsp_rule_parse(rule);
    order_.push_back(uint32_t(entries_.size()));
    const Entry& entry = entries_.emplace_back(Entry{rule, match ? match->key() : descriptors_text(rule)});
    by_key_.emplace(entry.key, order_.back());
  }
}

void UdspRules::store() {
  if (!known_) return;
  compact();
  std::vector<UdspRule> rules;
  for (const uint32_t at : order_) rules.push_back(std::move(entries_[at].rule));
  rules_ = std::move(rules);
  forget();
}

void UdspRules::compact() {
  if (std::exchange(holes_, false)) std::erase_if(order_, [&](uint32_t at) { return entries_[at].deleted; });
}

UdspRules::Entry* UdspRules::find(const std::string& key) {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : &entries_[found->second];
}

void UdspRules::erase(Entry& entry) {
  by_key_.erase(entry.key);
  entry.deleted = true;
}

/// A rule that is there keeps its place (docs/decisions.md #80).
void UdspRules::note_place(const UdspRule& asked, const Entry& entry) {
  if (!asked.idx || notes_ == nullptr) return;
  compact();
  const auto at = std::find(order_.begin(), order_.end(), uint32_t(&entry - entries_.data())) - order_.begin();
  if (at != *asked.idx)
    notes_->push_back(fmt::format("the rule with {} is there already: it keeps idx {}, and only its priority changes",
                                  descriptors_text(asked), at));
}

Checked<void> UdspRules::add(const UdspRule& rule, bool from_file) {
  const auto match = udsp_rule_parse(rule);
  if (!match) return fail(-EINVAL, "cannot add udsp: " + match.error());
  read();
  std::string key = match->key();
  if (Entry* const entry = find(key); entry != nullptr) {
    if (entry->rule.priority != match->priority) {
      note_place(rule, *entry);
      entry->rule.priority = match->priority;
      entry->changed = true;
    } else if (!from_file || entry->changed) {
      return fail(-EALREADY, "cannot add udsp: there is an identical rule");
    }
    return {};
  }
  if (count() >= kUdspRulesMax)
    return fail(-ENOSPC, fmt::format("cannot add udsp: there are {} rules, which is the maximum", kUdspRulesMax));
  UdspRule stored = rule;
  stored.idx.reset();
  stored.priority = match->priority;
  const int64_t idx = rule.idx.value_or(-1);
  if (idx >= 0) compact();
  const size_t at = idx < 0 ? order_.size() : std::min(static_cast<size_t>(idx), order_.size());
  order_.insert(order_.begin() + static_cast<std::ptrdiff_t>(at), uint32_t(entries_.size()));
  by_key_.emplace(key, uint32_t(entries_.size()));
  entries_.push_back({std::move(stored), std::move(key), true});
  return {};
}

Checked<void> UdspRules::del(const UdspDel& del) {
  if (del.all || (del.idx == -1 && !del.rule)) {
    rules_.clear();
    forget();
    return {};
  }
  const bool idx_good = del.idx && *del.idx >= 0 && static_cast<size_t>(*del.idx) < count();
  if (del.idx ? !idx_good : !del.rule) return fail(-ENOENT, "cannot del udsp: No such file or directory");
  read();
  if (del.idx) compact();
  Entry* const at_idx = del.idx ? &entries_[order_[static_cast<size_t>(*del.idx)]] : nullptr;
  if (!del.rule) {
    erase(*at_idx);
    order_.erase(order_.begin() + static_cast<std::ptrdiff_t>(*del.idx));
    return {};
  }
  std::vector<UdspRule> wanted{*del.rule};
  if (del.either_end) wanted.push_back({.dst = del.rule->src});
  bool erased = false;
  for (const UdspRule& one : wanted) {
    const auto match = udsp_rule_parse(one);
    if (!match) return fail(-EINVAL, "cannot del udsp: " + match.error());
    Entry* const entry = find(match->key());
    if (entry == nullptr || (del.idx && entry != at_idx)) continue;
    erase(*entry);
    erased = true;
    if (del.idx) {
      order_.erase(order_.begin() + static_cast<std::ptrdiff_t>(*del.idx));
      break;
    }
    holes_ = true;
  }
  if (erased) return {};
  std::string text = descriptors_text(wanted[0]);
  if (del.either_end) text = fmt::format("src or dst {}", del.rule->src);
  if (!del.idx) return fail(-ENOENT, fmt::format("cannot del udsp: there is no rule with {}", text));
  return fail(-EINVAL, fmt::format("cannot del udsp: the rule {} is not the rule with {}, but with {}", *del.idx, text,
                                   descriptors_text(at_idx->rule)));
}

}  // namespace ulnet::config
