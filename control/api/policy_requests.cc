// Part of NodeRequests: `explain`, and dry runs of selection policies.
#include <fmt/format.h>

#include <array>
#include <tuple>

#include "config/apply.h"
#include "control/api/explain.h"
#include "control/api/requests.h"
#include "dataplane/base/nid_text.h"

namespace ulnet {
namespace {

using api::Answer;
using api::Request;
using api::RequestId;
using config::Doc;

constexpr std::array kKinds = {"local net", "local ni", "peer net", "peer ni"};
static_assert(kKinds.size() == size_t(PolicyChange::Kind::kCount));

std::string priority_text(const PolicyPriority& policy) {
  if (policy.rule < 0) return "-1";
  return fmt::format("{} (idx {})", policy.priority == kNoPriority ? -1 : int64_t(policy.priority), policy.rule);
}

/// The entries with their ranks and rules: "10.0.0.2@tcp 0 (idx 3), 10.0.0.1@tcp -1 (idx 4)".
std::string list_text(const std::vector<PreferredNid>& list) {
  std::string text;
  for (const PreferredNid& one : list)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", nid_text(one.nid), priority_text(one.rank));
  return text.empty() ? "none" : text;
}

std::string source_text(const Nid& source) {
  return source.is_any() ? "none" : nid_text(source);
}

void set_pair(Doc& doc, const char* key, std::string before, std::string after) {
  Doc& pair = doc.set(key, Doc::map());
  pair.set("before", std::move(before));
  pair.set("after", std::move(after));
}

Doc change_doc(const PolicyChange& change) {
  Doc doc = Doc::map();
  const bool net = change.kind == PolicyChange::Kind::kLocalNet || change.kind == PolicyChange::Kind::kPeerNet;
  doc.set(kKinds[size_t(change.kind)], net ? net_text(change.net) : nid_text(change.nid));
  if (!change.peer.is_any()) doc.set("peer", nid_text(change.peer));
  const auto& [before, after] = std::tie(change.before, change.after);
  if (before.priority.priority != after.priority.priority)
    set_pair(doc, net ? "net priority" : "nid priority", priority_text(before.priority), priority_text(after.priority));
  if (before.sources != after.sources)
    set_pair(doc, "Preferred source NIDs", list_text(before.sources), list_text(after.sources));
  if (before.gateways != after.gateways)
    set_pair(doc, "Preferred gateway NIDs", list_text(before.gateways), list_text(after.gateways));
  if (before.source != after.source) set_pair(doc, "source NID", source_text(before.source), source_text(after.source));
  return doc;
}

Answer refused(const char* verb, const char* entity, int32_t code, std::string what) {
  return api::answer_error(verb, entity, code, std::move(what));
}

}  // namespace

void NodeRequests::explain(RequestId id, const Request& request) {
  const std::string to = request.arg_text("nid"), from = request.arg_text("from");
  ExplainRequest asked;
  const auto parsed = nid_parse(to);
  if (!parsed || parsed->is_any())
    return reply(id, refused("show", "explain", -EINVAL,
                             fmt::format("cannot parse NID: '{}'; the destination is a NID such as 10.0.0.1@tcp", to)));
  asked.to = *parsed;
  if (!from.empty()) {
    const auto source = nid_parse(from);
    if (!source) return reply(id, refused("show", "explain", -EINVAL, fmt::format("--from: '{}' is not a NID", from)));
    asked.from = *source;
  }
  asked.bytes = uint32_t(request.arg_integer("size", 0));
  asked.numa = uint32_t(request.arg_integer("numa", UINT32_MAX));
  asked.accelerator = uint32_t(request.arg_integer("accelerator", UINT32_MAX));
  asked.count = request.arg_integer("count", 0);
  if (const int64_t most = explain_count_max(c_, asked.to); asked.count > most)
    return reply(id, refused("show", "explain", -EINVAL,
                             fmt::format("--count: at most {} for {}, which has many candidates", most, to)));
  asked.response = request.arg_bool("response");
  asked.forward = request.arg_bool("forward");
  const int64_t worker = request.arg_integer("worker", 0);
  if (asked.response && asked.forward)
    return reply(id, refused("show", "explain", -EINVAL,
                             "--response and --forward exclude each other: a forwarded message keeps its destination"));
  if (worker >= c_.config.workers)
    return reply(
        id, refused("show", "explain", -ERANGE,
                    fmt::format("--worker: there is no worker {}; allowed: 0..{}", worker, c_.config.workers - 1)));
  asked.worker = WorkerId{uint16_t(worker)};
  Answer answer;
  answer.doc = explain_doc(c_, asked);
  reply(id, answer);
}

void NodeRequests::dry_run(RequestId id, const Request& request) {
  for (const config::PlacedChange& placed : request.changes)
    if (!std::holds_alternative<config::UdspAdd>(placed.change) &&
        !std::holds_alternative<config::UdspDel>(placed.change))
      return reply(id, refused(config::change_verb(placed.change), config::change_entity(placed.change), -EOPNOTSUPP,
                               "a dry run shows changes of selection policies (udsp) only"));
  config::DesiredState after = c_.desired;
  std::vector<std::string> notes;
  if (const auto errors = config::changes_apply(after, request.changes, &notes); !errors.empty())
    return reply(id, api::answer_change_errors(request.changes, errors));
  using Previews = PolicyPreviews;
  const char* const verb = config::change_verb(request.changes[0].change);
  const uint64_t number = c_.policies->preview(after.udsp, [this, id, verb, changes = request.changes, notes,
                                                            any = false](const Previews::Part& found) mutable {
    Answer part;
    Doc list = Doc::list();
    for (const PolicyChange& change : found.changes) list.push(change_doc(change));
    if (list.size() > 0) (part.doc = Doc::map()).set("dry run", std::move(list));
    any |= !found.changes.empty();
    if (found.then != nullptr) {
      part.notes = notes;
      for (std::string& line : idle_rules(changes, *found.then)) part.notes.push_back(std::move(line));
      if (!any) part.notes.emplace_back("no net, NI or peer NI of today would change");
    }
    if (found.error == -ENOMEM) part = refused(verb, "udsp", -ENOMEM, "there is no memory for the dry run");
    if (found.error == -EAGAIN)
      part = refused(verb, "udsp", -EAGAIN,
                     fmt::format("the dry run ended, because its answer was not read and {} others were under way; "
                                 "ask again",
                                 kPreviewsMax));
    part.more = !found.last();
    if (found.last()) previews_.erase(id);
    reply(id, part);
    if (server_ == nullptr) return Previews::Next::kGoOn;
    if (!server_->is_open(id)) return Previews::Next::kEnd;
    return server_->backlog(id) <= api::kOutputLow ? Previews::Next::kGoOn : Previews::Next::kPause;  // drained() comes
  });
  if (number == 0)
    return reply(id,
                 refused(verb, "udsp", -EAGAIN,
                         fmt::format("{} dry runs are under way, which is the maximum; try again when one has ended",
                                     kPreviewsMax)));
  previews_[id] = number;
}

}  // namespace ulnet
