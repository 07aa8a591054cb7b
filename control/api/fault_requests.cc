// Part of NodeRequests: `fault`.
#include "control/api/requests.h"
#include "control/faults/fault_rules.h"

namespace ulnet {
namespace {

using api::Answer;
using api::Request;
using api::RequestId;
using config::Doc;
using wire::MsgType;

int64_t seconds(Duration time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time).count();
}

/// The keys and their order are lnetctl's (docs/wire/lnetctl.md §1.7). Keys that lnetctl does not have come last, and
/// only if the rule uses them.
Doc rule_doc(const FaultRules::Shown& shown) {
  const FaultSpec& spec = shown.spec;
  const bool drop = spec.kind == FaultKind::kDrop;
  const auto hit = [&](MsgType type) { return shown.counts.hit[size_t(type)]; };
  Doc doc = Doc::map();
  doc.set("rule_type", fault_kind_text(spec.kind));
  doc.set("fa_src", fault_nids_text(spec.source));
  doc.set("fa_dst", fault_nids_text(spec.dest));
  doc.set("fa_ptl_mask", spec.portals);
  doc.set("fa_msg_mask", spec.types);
  doc.set(drop ? "da_rate" : "la_rate", spec.rate);
  doc.set(drop ? "da_interval" : "la_interval", seconds(spec.interval));
  if (!drop) doc.set("la_latency", seconds(spec.latency));
  doc.set(drop ? "ds_dropped" : "ls_delayed", shown.counts.hit_sum());
  doc.set("fs_count", shown.counts.matched);
  doc.set("fs_put", hit(MsgType::kPut));
  doc.set("fs_ack", hit(MsgType::kAck));
  doc.set("fs_get", hit(MsgType::kGet));
  doc.set("fs_reply", hit(MsgType::kReply));
  if (!spec.local.has_all()) doc.set("local_nid", fault_nids_text(spec.local));
  if (spec.failures != 0) doc.set("health_error", fault_failures_text(spec.failures));
  if (spec.random) doc.set("random", true);
  if (spec.all) doc.set("drop_all", true);
  return doc;
}

Answer answer_of(const char* verb, const Checked<void>& done) {
  return done ? Answer{} : api::answer_error(verb, "fault", done.error().code, done.error().what);
}

}  // namespace

void NodeRequests::fault_add(RequestId id, const Request& request) {
  const auto spec = fault_spec_read(request.args);
  if (!spec) return reply(id, api::answer_error("add", "fault", -EINVAL, spec.error()));
  reply(id, answer_of("add", c_.faults.add(*spec)));
}

void NodeRequests::fault_del(RequestId id, const Request& request) {
  const auto filter = fault_filter_read(request.args);
  if (!filter) return reply(id, api::answer_error("del", "fault", -EINVAL, filter.error()));
  reply(id, answer_of("del", c_.faults.del(*filter)));
}

void NodeRequests::fault_reset(RequestId id, const Request& request) {
  const auto kind = fault_kind_parse(request.arg_text("rule"));
  if (!kind) return reply(id, api::answer_error("reset", "fault", -EINVAL, kind.error()));
  c_.faults.reset(*kind);
  reply(id, {});
}

void NodeRequests::show_fault(RequestId id, const Request& request) {
  const auto kind = fault_kind_parse(request.arg_text("rule"));
  if (!kind) return reply(id, api::answer_error("show", "fault", -EINVAL, kind.error()));
  Doc list = Doc::list();
  for (const FaultRules::Shown& shown : c_.faults.list(*kind)) list.push(rule_doc(shown));
  Answer answer;
  if (list.size() > 0) (answer.doc = Doc::map()).set("fault", std::move(list));
  reply(id, answer);
}

}  // namespace ulnet
