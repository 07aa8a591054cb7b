#include "control/api/explain.h"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <variant>

#include "dataplane/base/nid_text.h"
#include "dataplane/select/explain.h"

namespace ulnet {
namespace {

using config::Doc;

int64_t shown(uint32_t priority) {
  return priority == kNoPriority ? -1 : int64_t(priority);
}

bool is_priority(Criterion by) {
  return by == Criterion::kPeerNetPriority || by == Criterion::kLocalNetPriority || by == Criterion::kPriority ||
         by == Criterion::kPreferred || by == Criterion::kPreferredGateway;
}

bool has_values(Criterion by) {
  return by > Criterion::kReturn;
}

/// A value in the words of the shows: no priority and no rank are -1.
int64_t value_of(Criterion by, int64_t value) {
  return is_priority(by) && value == int64_t(kNoPriority) ? -1 : value;
}

std::string name_of(const Trace::Object& object) {
  if (const auto* net = std::get_if<const PeerNetView*>(&object)) return net_text((*net)->net);
  if (const auto* ni = std::get_if<const NiView*>(&object)) return nid_text((*ni)->nid);
  if (const auto* ni = std::get_if<const PeerNiView*>(&object)) return nid_text((*ni)->nid);
  return nid_text(std::get<const RouteView*>(object)->gateway);
}

void priority_set(Doc& doc, const char* key, const PolicyPriority& policy) {
  if (policy.rule < 0) return;
  Doc& rule = doc.set(key, Doc::map());
  rule.set("priority", shown(policy.priority));
  rule.set("idx", policy.rule);
}

/// The entry of `id` in a list of preferences.
void rank_set(Doc& doc, const char* key, const PolicyList& policy, uint32_t id) {
  for (size_t i = 0; policy.list != nullptr && i < policy.list->all.size(); ++i) {
    if (policy.list->all[i].id != id) continue;
    Doc& rule = doc.set(key, Doc::map());
    rule.set("rank", shown(policy.list->all[i].rank));
    rule.set("idx", (*policy.rules)[i]);
    return;
  }
}

/// Writes one choice and the steps towards it.
class Writer {
 public:
  Writer(Control& c, const ViewSet& view, const Trace& trace) : c_(c), view_(view), trace_(trace) {}

  Doc steps() {
    Doc list = Doc::list();
    for (const Trace::Step& step : trace_.steps) list.push(step_doc(step));
    return list;
  }

 private:
  Doc step_doc(const Trace::Step& step) {
    Doc doc = Doc::map();
    doc.set("step", std::string(name(step.kind)));
    if (step.route != nullptr) doc.set("gateway", nid_text(step.route->gateway));
    const Trace::Candidate* winner = step.winner();
    doc.set("chosen", winner == nullptr ? "none" : name_of(winner->object));
    Doc& list = doc.set("candidates", Doc::list());
    for (const Trace::Candidate& one : step.candidates) list.push(candidate_doc(step, one));
    return doc;
  }

  Doc candidate_doc(const Trace::Step& step, const Trace::Candidate& one) {
    Doc doc = Doc::map();
    doc.set(std::holds_alternative<const PeerNetView*>(one.object) ? "net"
            : std::holds_alternative<const RouteView*>(one.object) ? "gateway"
                                                                   : "nid",
            name_of(one.object));
    doc.set("result", one.excluded != Exclusion::kNone ? "excluded" : one.won ? "won" : "lost");
    if (one.excluded != Exclusion::kNone) {
      doc.set("why", std::string(name(one.excluded)));
    } else {
      doc.set("by", std::string(name(one.by)));
      if (one.against != Trace::kNobody && has_values(one.by)) {
        doc.set("value", value_of(one.by, one.value));
        doc.set("against", name_of(step.candidates[one.against].object));
        doc.set("its value", value_of(one.by, one.other));
      }
    }
    Doc rules = Doc::map();
    std::visit([&](const auto* object) { rules_set(rules, *object); }, one.object);
    if (rules.size() > 0) doc.set("udsp", std::move(rules));
    return doc;
  }

  void rules_set(Doc& doc, const PeerNetView& net) {
    priority_set(doc, "peer net", c_.policies->policy().of_peer_net(net.net));
    if (view_.local->net(net.net) != nullptr)
      priority_set(doc, "local net", c_.policies->policy().of_local_net(net.net));
  }
  void rules_set(Doc& doc, const NiView& ni) {
    priority_set(doc, "nid", c_.policies->policy().of_local_ni(ni.nid));
    if (const PeerNi* to = destination()) rank_set(doc, "preferred source", to->policy.sources, ni.id.value);
  }
  void rules_set(Doc& doc, const PeerNiView& ni) {
    const PeerNi* known = c_.peers->find(ni.nid);
    if (known == nullptr) return;
    priority_set(doc, "nid", known->policy.priority);
    const Trace::Step* local = trace_.step(StepKind::kLocalNi);
    const Trace::Candidate* from = local == nullptr ? nullptr : local->winner();
    if (from != nullptr)
      rank_set(doc, "preferred source", known->policy.sources, std::get<const NiView*>(from->object)->id.value);
  }
  void rules_set(Doc& doc, const RouteView& route) {
    const PeerRef gateway = view_.peers->find(route.gateway);
    if (const PeerNi* to = destination(); to != nullptr && gateway)
      rank_set(doc, "preferred gateway", to->policy.gateways, gateway.peer->id);
  }

  /// The peer NI that the message ends at, if it is chosen before the local NI or the route.
  PeerNi* destination() {
    const Trace::Step* step = trace_.step(StepKind::kFinalNi);
    const Trace::Candidate* winner = step == nullptr ? nullptr : step->winner();
    if (winner != nullptr) return c_.peers->find(std::get<const PeerNiView*>(winner->object)->nid);
    step = trace_.step(StepKind::kPeerNi);
    winner = step == nullptr ? nullptr : step->winner();
    return winner == nullptr ? nullptr : c_.peers->find(std::get<const PeerNiView*>(winner->object)->nid);
  }

  Control& c_;
  const ViewSet& view_;
  const Trace& trace_;
};

PathRequest path_request(const ExplainRequest& request) {
  PathRequest path;
  path.dst = request.to;
  path.response = request.response;
  path.forward = request.forward;
  path.numa = request.numa;
  path.accelerator = request.accelerator;
  path.bytes = wire::kHeaderNid4Bytes + uint64_t(request.bytes);
  (request.forward ? path.origin : path.src) = request.from;
  return path;
}

std::string hop_text(const PathChoice& choice) {
  if (choice.kind == PathKind::kLoopback) return "loopback";
  std::string text = nid_text(choice.ni->nid) + " -> " + nid_text(choice.hop->nid);
  if (choice.routed) text += " -> " + nid_text(choice.dest);
  return text;
}

/// The cause of an error that no step shows.
std::string failure_text(const ViewSet& view, const PathRequest& path, int32_t error) {
  const Net net = path.dst.net();
  if (error == -EADDRNOTAVAIL) return fmt::format("this node has no NI {}", nid_text(path.src));
  if (error == -EHOSTUNREACH && view.local->net(net) == nullptr && view.routes->find(net) == nullptr)
    return fmt::format("this node has no NI on {} and no route to it", net_text(net));
  return std::strerror(-error);
}

void choice_set(Doc& doc, const ViewSet& view, const PathRequest& path, const PathChoice& choice) {
  switch (choice.kind) {
    case PathKind::kPath:
      doc.set("result", choice.routed ? "routed" : "direct");
      doc.set("source", nid_text(choice.src));
      doc.set("next hop", nid_text(choice.hop->nid));
      doc.set("destination", nid_text(choice.dest));
      doc.set("served by worker", choice.hop->server.value);
      return;
    case PathKind::kLoopback:
      doc.set("result", "loopback");
      doc.set("source", nid_text(choice.src));
      doc.set("destination", nid_text(choice.dest));
      return;
    case PathKind::kPark:
      doc.set("result", "waits");
      doc.set("for", fmt::format("{} {}: the first message starts it",
                                 choice.discover ? "discovery of" : "a look-up of", nid_text(choice.ask)));
      return;
    case PathKind::kError:
      doc.set("result", "fails");
      doc.set("errno", choice.error);
      doc.set("descr", failure_text(view, path, choice.error));
      return;
  }
}

/// Plays messages and counts them by path.
Doc spread_doc(const ViewSet& view, const PathRequest& path, const PathContext& context,
               const ExplainRequest& request) {
  SendOverlay overlay(context, path);
  std::map<std::string, int64_t> counts;
  for (int64_t i = 0; i < request.count; ++i) {
    const PathChoice choice = choose_path(view, path, overlay);
    if (choice.kind == PathKind::kPath) note_sent(overlay, choice, path.bytes);
    const bool sent = choice.kind == PathKind::kPath || choice.kind == PathKind::kLoopback;
    ++counts[sent ? hop_text(choice) : "none"];
  }
  Doc list = Doc::list();
  for (const auto& [text, count] : counts) {
    Doc& one = list.push(Doc::map());
    one.set("path", text);
    one.set("messages", count);
    one.set("percent", (count * 100 + request.count / 2) / request.count);
  }
  return list;
}

}  // namespace

int64_t explain_count_max(const Control& c, const Nid& to) {
  constexpr int64_t kComparisonsMax = 1'000'000;
  const ViewSet& view = c.publisher->current();
  const PeerRef peer = view.peers->find(to);
  const RouteNetView* net = view.routes->find(to.net());
  const size_t candidates =
      view.local->nis.size() + (peer ? peer.peer->nis.size() : 0) + (net != nullptr ? net->routes.size() : 0);
  return kComparisonsMax / int64_t(candidates + 1);
}

Doc explain_doc(Control& c, const ExplainRequest& request) {
  const ViewSet& view = c.publisher->current();
  const PathContext context{request.worker, *c.mesh->tallies[request.worker.value]};
  PathRequest path = path_request(request);
  Doc doc = Doc::map();
  Doc& one = doc.set("explain", Doc::list()).push(Doc::map());
  one.set("nid", nid_text(request.to));
  one.set("worker", request.worker.value);
  Trace trace;
  PathChoice choice = explain_path(view, path, context, trace);
  choice_set(one, view, path, choice);
  if (choice.kind == PathKind::kPark && choice.discover) {  // the path if discovery brought nothing new
    path.as_given = true;
    trace = {};
    choice = explain_path(view, path, context, trace);
    choice_set(one.set("without discovery", Doc::map()), view, path, choice);
  }
  one.set("steps", Writer(c, view, trace).steps());
  if (request.count > 0) one.set("spread", spread_doc(view, path, context, request));
  return doc;
}

}  // namespace ulnet
