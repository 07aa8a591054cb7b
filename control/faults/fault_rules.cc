#include "control/faults/fault_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "control/publish/view_builder.h"
#include "dataplane/base/limits.h"

namespace ulnet {
namespace {

/// A view's rules, with the memory that they point at.
struct KeptTable : FaultTable {
  std::vector<std::shared_ptr<FaultLocal[]>> kept;
};

tl::unexpected<Problem> refused(int error, std::string what) {
  Problem problem;
  problem.what = std::move(what);
  problem.code = -error;
  problem.entity = "fault";
  return tl::unexpected(std::move(problem));
}

/// "drop rule from *@tcp to 10.0.0.1@tcp".
std::string filter_text(const FaultFilter& filter) {
  std::string text = fmt::format("{} rule", fault_kind_text(filter.kind));
  if (filter.has_source) text += " from " + fault_nids_text(filter.source);
  if (filter.has_dest) text += " to " + fault_nids_text(filter.dest);
  return text;
}

}  // namespace

uint64_t FaultRules::Counts::hit_sum() const {
  return std::accumulate(hit.begin(), hit.end(), uint64_t{0});
}

Checked<void> FaultRules::add(const FaultSpec& spec) {
  if (std::string wrong = fault_spec_wrong(spec); !wrong.empty()) return refused(EINVAL, std::move(wrong));
  if (entries_.size() >= kFaultRulesMax)
    return refused(ENOSPC, fmt::format("there are {} fault rules, which is the maximum: delete some with "
                                       "'fault drop del' or 'fault delay del'",
                                       kFaultRulesMax));
  Entry entry;
  entry.locals = std::make_unique<FaultLocal[]>(workers_);
  entry.rule = {++last_id_, spec, entry.locals.get()};
  entries_.push_back(std::move(entry));
  ++revision_;
  publish_(false);
  return {};
}

Checked<void> FaultRules::del(const FaultFilter& filter) {
  const size_t gone = std::erase_if(entries_, [&](const Entry& entry) { return filter.fits(entry.rule.spec); });
  if (gone == 0)
    return refused(ENOENT, fmt::format("there is no {}; 'fault {} show' lists the rules", filter_text(filter),
                                       fault_kind_text(filter.kind)));
  ++revision_;
  publish_(true);
  return {};
}

void FaultRules::clear() {
  if (entries_.empty()) return;
  entries_.clear();
  ++revision_;
  publish_(true);
}

FaultRules::Counts FaultRules::counted(const Entry& entry) const {
  Counts counts;
  for (unsigned worker = 0; worker < workers_; ++worker) {
    const FaultLocal& local = entry.locals[worker];
    counts.matched += local.matched.get();
    for (size_t type = 0; type < counts.hit.size(); ++type) counts.hit[type] += local.hit[type].get();
  }
  return counts;
}

void FaultRules::reset(FaultKind kind) {
  for (Entry& entry : entries_)
    if (entry.rule.spec.kind == kind) entry.baseline = counted(entry);
}

std::vector<FaultRules::Shown> FaultRules::list(FaultKind kind) const {
  std::vector<Shown> all;
  for (const Entry& entry : entries_) {
    if (entry.rule.spec.kind != kind) continue;
    Shown& one = all.emplace_back(Shown{entry.rule.spec, counted(entry)});
    one.counts.matched -= entry.baseline.matched;
    for (size_t type = 0; type < one.counts.hit.size(); ++type) one.counts.hit[type] -= entry.baseline.hit[type];
  }
  return all;
}

std::shared_ptr<const FaultTable> FaultRules::view() const {
  auto table = std::make_shared<KeptTable>();
  for (const Entry& entry : entries_) {
    table->rules.push_back(entry.rule);
    table->kept.push_back(entry.locals);
  }
  return table;
}

void publish_faults(Control& c, bool gone) {
  (void)publish_views(c, true);
  if (gone) c.outbox->send_all(FaultsGoneMsg{});
}

}  // namespace ulnet
