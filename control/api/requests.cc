#include "control/api/requests.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "config/export.h"
#include "control/api/show_values.h"
#include "control/health/health.h"
#include "control/node_config.h"
#include "dataplane/base/nid_text.h"

namespace ulnet {
namespace {

using api::Answer;
using api::Call;
using api::Request;
using api::RequestId;
using config::Doc;

/// Peers in one part of a list.
constexpr unsigned kPeersPerPart = 200;
constexpr int kExportNetVerbosity = 2;
constexpr int kExportPeerVerbosity = 3;

int verbosity_of(const Request& request) {
  return int(request.arg_integer("verbose", 0));
}

Answer answer_doc(Doc doc) {
  Answer answer;
  answer.doc = std::move(doc);
  return answer;
}

/// Words for an errno whose own words do not name the cause.
const char* cause_text(std::string_view object, int32_t error) {
  switch (-error) {
    case EIO:
    case ETIMEDOUT: return "no answer in time";
    case EPROTO:
      return object == "ping" ? "the answer contains no ping info" : "its answers are useless; see the journal";
    case ENODATA: return "the answer names no NID";
    default: return nullptr;
  }
}

std::string failure_text(const char* object, const DiscoverAnswer& node, const ConnectionError& connection) {
  std::string text = fmt::format("failed to {} {}: {}", object, nid_text(node.nid), std::strerror(-node.error));
  if (const char* cause = cause_text(object, node.error)) text += std::string(": ") + cause;
  const bool silent = node.error == -EIO || node.error == -ETIMEDOUT;
  const int32_t why = silent && connection ? connection(node.nid) : 0;
  return why == 0 ? text : text + "; the last connection to it failed: " + std::strerror(-why);
}

Answer nodes_answer(const char* object, const std::vector<DiscoverAnswer>& nodes, const ConnectionError& connection) {
  Answer answer;
  Doc list = Doc::list();
  for (const DiscoverAnswer& one : nodes) {
    if (one.error == 0)
      list.push(api::pinged_doc(one.nids.front(), one.multi_rail, one.nids));
    else
      answer.errors.push_back({"manage", object, one.error, failure_text(object, one, connection), {}});
  }
  if (list.size() > 0) {
    answer.doc = Doc::map();
    answer.doc.set(object, std::move(list));
  }
  return answer;
}

/// Adds all keys of `part` to `whole`.
void append(Doc& whole, const Doc& part) {
  for (const Doc::Entry& entry : part.entries()) whole.set(entry.key, entry.value);
}

}  // namespace

NodeRequests::NodeRequests(Node& node, std::string version)
    : node_(node),
      c_(node.control()),
      version_(std::move(version)),
      watchers_({*c_.events, [this](RequestId id, const Answer& answer) { reply(id, answer); },
                 [this](RequestId id) { return server_ == nullptr ? 0 : server_->backlog(id); },
                 [this] { return real_time_ns_ ? real_time_ns_() : 0; }}) {}

void NodeRequests::serve(api::Call call, Served served) {
  served_[call] = std::move(served);
}

void NodeRequests::reply(RequestId id, const Answer& answer) {
  if (!answer.more) under_way_.erase(id);
  if (server_ != nullptr) server_->reply(id, answer);
}

void NodeRequests::request(RequestId id, const Request& request) {
  try {
    handle(id, request);
  } catch (const std::bad_alloc&) {
    reply(id, api::answer_error(api::verb_text(request.verb), request.object, -ENOMEM,
                                "there is no memory for the answer; ask for a part of it (--net, --nid)"));
  }
}

void NodeRequests::handle(RequestId id, const Request& request) {
  const auto call = request.call();
  if (!call) return unknown(id, request);
  switch (*call) {
    case Call::kChange: return change(id, request);
    case Call::kShowNet: return show_net(id, request);
    case Call::kShowRoute: return show_route(id, request);
    case Call::kShowPeer: return show_peer(id, request);
    case Call::kShowPeerList: return reply(id, answer_doc(peer_list_doc()));
    case Call::kShowRouting: return reply(id, answer_doc(routing_doc()));
    case Call::kShowGlobal: return reply(id, answer_doc(global_doc()));
    case Call::kShowStats: return reply(id, answer_doc(stats_values_doc(c_, verbosity_of(request), worker_times_)));
    case Call::kShowUdsp: return show_udsp(id, request);
    case Call::kShowFault: return show_fault(id, request);
    case Call::kShowExplain: return explain(id, request);
    case Call::kShowExport: return show_export(id, request);
    case Call::kShowStatus: return reply(id, answer_doc(status_doc()));
    case Call::kShowCptOfNid: return show_cpts(id, request);
    case Call::kShowRecovery: return show_recovery(id, request);
    case Call::kPing: return ping(id, request);
    case Call::kDiscover: return discover(id, request);
    case Call::kFaultAdd: return fault_add(id, request);
    case Call::kFaultDel: return fault_del(id, request);
    case Call::kWatch: return watchers_.request(id, request);
    case Call::kResetStats: stats_reset(c_); return reply(id, {});
    case Call::kResetFault: return fault_reset(id, request);
    case Call::kShowPort:
    case Call::kPerf:
    case Call::kCapture:
    case Call::kPortReset: return by_others(id, *call, request);
    case Call::kCount: break;
  }
  unknown(id, request);
}

void NodeRequests::by_others(RequestId id, api::Call call, const Request& request) {
  const auto found = served_.find(call);
  if (found == served_.end()) return unknown(id, request);
  under_way_[id] = call;
  found->second.request(id, request);
}

void NodeRequests::unknown(RequestId id, const Request& request) {
  reply(id, api::answer_error(api::verb_text(request.verb), request.object, -EOPNOTSUPP,
                              fmt::format("this ulnetd ({}) has no '{}'", version_, request.object)));
}

void NodeRequests::gone(RequestId id) {
  watchers_.gone(id);
  streams_.erase(id);
  if (const auto found = previews_.find(id); found != previews_.end()) {
    c_.policies->preview_end(found->second);
    previews_.erase(found);
  }
  if (const auto list = changes_.find(id); list != changes_.end()) {
    const uint64_t number = list->second;
    changes_.erase(list);
    return node_.applier().withdraw(number);
  }
  const auto found = under_way_.find(id);
  if (found == under_way_.end()) return;
  const Served& served = served_.at(found->second);
  under_way_.erase(found);
  if (served.gone) served.gone(id);
}

void NodeRequests::drained(RequestId id) {
  if (watchers_.drained(id)) return;
  if (const auto stream = streams_.find(id); stream != streams_.end()) return stream_peers(id, stream->second);
  if (const auto found = previews_.find(id); found != previews_.end())
    return c_.policies->preview_resume(found->second);
  const auto found = under_way_.find(id);
  if (found == under_way_.end()) return;
  if (const Served& served = served_.at(found->second); served.drained) served.drained(id);
}

void NodeRequests::change(RequestId id, const Request& request) {
  if (request.arg_bool("dry_run")) return dry_run(id, request);
  changes_[id] = node_.apply(
      request.changes,
      [this, id, changes = request.changes](const config::Problems& errors) {
        changes_.erase(id);
        reply(id, api::answer_change_errors(changes, errors));
      },
      [this, id](const std::string& line) {
        Answer part;
        if (line.starts_with(kWarning))
          part.warnings.push_back(line.substr(kWarning.size()));
        else
          part.notes.push_back(line);
        part.more = true;
        reply(id, part);
      });
}

void NodeRequests::show_recovery(RequestId id, const Request& request) {
  const bool peer = request.arg_bool("peer");
  reply(id, answer_doc(api::recovery_doc(peer, peer ? c_.health->recovering_peers() : c_.health->recovering_local())));
}

void NodeRequests::show_net(RequestId id, const Request& request) {
  std::optional<Net> only;
  if (const std::string text = request.arg_text("net"); !text.empty()) {
    const auto parsed = net_parse(text);
    if (!parsed) return reply(id, api::answer_error("show", "net", -ENOENT, "cannot parse net"));
    only = *parsed;
  }
  if (!c_.desired.configured) return reply(id, api::answer_error("show", "net", -ENETDOWN, "Network is down"));
  const auto values = net_values(c_, only, verbosity_of(request) > 0);
  if (only && values.empty()) return reply(id, api::answer_error("show", "net", -ENOENT, "Object not found"));
  reply(id, answer_doc(api::net_doc(values, verbosity_of(request))));
}

void NodeRequests::show_route(RequestId id, const Request& request) {
  const std::string net = request.arg_text("net"), gateway = request.arg_text("gateway");
  const auto wanted_net = net_parse(net);
  const auto wanted_gateway = nid_parse(gateway);
  if (!net.empty() && !wanted_net) return reply(id, api::answer_error("show", "route", -EINVAL, "cannot parse net"));
  if (!gateway.empty() && !wanted_gateway)
    return reply(id, api::answer_error("show", "route", -EINVAL, "cannot parse gateway NID"));
  std::vector<api::RouteShow> shows;
  for (api::RouteShow& show : route_values(c_, verbosity_of(request) >= 4)) {
    const config::RouteConfig& route = show.route;
    if (!net.empty() && route.net != *wanted_net) continue;
    if (!gateway.empty() && route.gateway != *wanted_gateway) continue;
    if (request.arg_integer("hop", route.hop) != route.hop) continue;
    if (request.arg_integer("priority", route.priority) != route.priority) continue;
    shows.push_back(std::move(show));
  }
  reply(id, answer_doc(api::route_doc(shows, verbosity_of(request))));
}

void NodeRequests::show_peer(RequestId id, const Request& request) {
  if (const std::string text = request.arg_text("nid"); !text.empty()) {
    const auto parsed = nid_parse(text);
    if (!parsed) return reply(id, api::answer_error("show", "peer", -EINVAL, "cannot parse NID"));
    const PeerNi* ni = c_.peers->find(*parsed);
    if (ni == nullptr) return reply(id, {});
    return reply(id, answer_doc(api::peer_doc({peer_value(c_, *ni->peer)}, verbosity_of(request))));
  }
  PeerStream& stream = streams_[id] = PeerStream{0, verbosity_of(request), false};
  stream_peers(id, stream);
}

// Peer ids only grow, so a list continues after the last peer that was sent, even if peers came and went meanwhile.
void NodeRequests::stream_peers(RequestId id, PeerStream& stream) {
  const auto& peers = c_.peers->peers();
  for (;;) {
    std::vector<api::PeerShow> shows;
    auto next = peers.lower_bound(stream.next_peer);
    for (; next != peers.end() && shows.size() < kPeersPerPart; ++next) shows.push_back(peer_value(c_, *next->second));
    Answer part = answer_doc(api::peer_doc(shows, stream.verbosity));
    if (next == peers.end()) {
      if (stream.export_rest) append(part.doc, export_end_doc());
      streams_.erase(id);
      return reply(id, part);
    }
    stream.next_peer = next->first;
    part.more = true;
    reply(id, part);
    if (server_ == nullptr || server_->backlog(id) > api::kOutputLow) return;  // drained() comes
  }
}

config::Doc NodeRequests::global_doc() {
  Doc doc = Doc::map();
  doc.set("global", config::export_global(c_.desired.global));
  return doc;
}

config::Doc NodeRequests::peer_list_doc() {
  Doc list = Doc::list();
  for (const auto& [id, peer] : c_.peers->peers()) list.push(Doc::map()).set("nid", nid_text(peer->primary().nid));
  Doc doc = Doc::map();
  if (list.size() > 0) doc.set("peer list", std::move(list));
  return doc;
}

config::Doc NodeRequests::routing_doc() {
  const RoutingState state = c_.routing->state();
  const bool on = state == RoutingState::kEnabled || state == RoutingState::kStarting;
  const bool changing = state == RoutingState::kStarting || state == RoutingState::kStopping;
  return api::routing_doc(pool_values(c_), on, c_.routing->buffers(), changing ? routing_state_word(state) : "");
}

void NodeRequests::show_udsp(RequestId id, const Request& request) {
  std::vector<config::UdspRule> rules = c_.desired.udsp;
  const int64_t index = request.arg_integer("idx", -1);
  Doc list = config::export_udsp(rules);
  Doc doc = Doc::map();
  if (index >= 0) {
    if (size_t(index) >= list.size()) return reply(id, {});
    Doc one = Doc::list();
    one.push(list.at(size_t(index)));
    list = std::move(one);
  }
  if (list.size() > 0) doc.set("udsp", std::move(list));
  reply(id, answer_doc(std::move(doc)));
}

void NodeRequests::show_cpts(RequestId id, const Request& request) {
  const auto nids = request.arg_nids("nids");
  if (!nids) return reply(id, api::answer_error("show", "cpt-of-nid", -EINVAL, nids.error()));
  Answer answer;
  Doc list = Doc::list();
  for (const Nid& nid : *nids) {
    const PeerNi* ni = c_.peers->find(nid);
    if (ni == nullptr || ni->blocks == nullptr) {
      answer.errors.push_back(
          {"show",
           "cpt-of-nid",
           -ENOENT,
           fmt::format("{} has no worker yet: the first message to the peer selects one", nid_text(nid)),
           {}});
      continue;
    }
    Doc& item = list.push(Doc::map());
    item.set("nid", nid_text(nid));
    item.set("cpt", c_.nis->groups().group(ni->server));
  }
  if (list.size() > 0) answer.doc.set("cpt-of-nid", std::move(list));
  reply(id, answer);
}

// The order of its sections is net, route, peer, and then what export_end_doc() has; peers may be many.
void NodeRequests::show_export(RequestId id, const Request& request) {
  if (request.arg_bool("backup"))
    return reply(id, answer_doc(config::export_backup(c_.desired, c_.nis->groups().all())));
  Doc doc = c_.desired.configured ? api::net_doc(net_values(c_, {}), kExportNetVerbosity) : Doc::map();
  append(doc, api::route_doc(route_values(c_), 1));
  Answer start = answer_doc(std::move(doc));
  start.more = true;
  reply(id, start);
  PeerStream& stream = streams_[id] = PeerStream{0, kExportPeerVerbosity, true};
  stream_peers(id, stream);
}

config::Doc NodeRequests::export_end_doc() {
  Doc doc = routing_doc();
  if (doc.is_null()) {  // no pools to show
    doc = Doc::map();
    config::export_routing(doc, c_.desired);
  }
  doc.set("global", config::export_global(c_.desired.global));
  if (Doc udsp = config::export_udsp(c_.desired.udsp); udsp.size() > 0) doc.set("udsp", std::move(udsp));
  if (Doc ulnet = config::export_ulnet(c_.desired.ulnet); !ulnet.is_null()) doc.set("ulnet", std::move(ulnet));
  return doc;
}

config::Doc NodeRequests::status_doc() {
  Doc doc = Doc::map();
  Doc& all = doc.set("ulnetd", Doc::map());
  all.set("version", version_);
  all.set("pid", int64_t(getpid()));
  all.set("configured", c_.desired.configured);
  all.set("routing", routing_state_word(c_.routing->state()));
  all.set("workers", c_.config.workers);
  all.set("worker groups", c_.nis->groups().count());
  all.set("peer nis", c_.peers->allocated());
  all.set("epoch", c_.publisher->epoch().value);
  all.set("views unretired", c_.publisher->unretired());
  all.set("submitters", c_.submitters->open_count());
  if (add_status_) add_status_(all);
  return doc;
}

int32_t connection_error(const Control& control, const Nid& nid) {
  const PeerNi* ni = control.peers->find(nid);
  return ni == nullptr ? 0 : ni->life.error;
}

api::Answer ping_answer(const std::vector<PingAnswer>& answers, const ConnectionError& connection) {
  std::vector<DiscoverAnswer> nodes;
  for (const PingAnswer& one : answers) {
    DiscoverAnswer& node = nodes.emplace_back();
    node.nid = one.nid;
    node.error = one.error == 0 && one.info.nis.empty() ? -ENODATA : one.error;
    node.multi_rail = (one.info.features & wire::kFeatureMultiRail) != 0;
    for (const wire::PingNi& ni : one.info.nis) node.nids.push_back(ni.nid);
  }
  return nodes_answer("ping", nodes, connection);
}

api::Answer discover_answer(const std::vector<DiscoverAnswer>& answers, const ConnectionError& connection) {
  return nodes_answer("discover", answers, connection);
}

void NodeRequests::ping(RequestId id, const Request& request) {
  PingRequest ping;
  auto nids = request.arg_nids("nids");
  if (!nids) return reply(id, api::answer_error("manage", "ping", -EINVAL, nids.error()));
  if (!c_.desired.configured) return reply(id, api::answer_error("manage", "ping", -ENETDOWN, "Network is down"));
  ping.nids = std::move(*nids);
  ping.timeout = std::chrono::milliseconds(request.arg_integer("timeout_ms", 1000));
  if (const std::string text = request.arg_text("source"); !text.empty()) {
    const auto source = nid_parse(text);
    if (!source || c_.nis->find(*source) == nullptr) {
      return reply(id, api::answer_error("manage", "ping", -EINVAL, fmt::format("{} is no NID of this node", text)));
    }
    ping.source = *source;
  }
  node_.ping(ping, [this, id](std::vector<PingAnswer> answers) {
    reply(id, ping_answer(answers, [this](const Nid& nid) { return connection_error(c_, nid); }));
  });
}

void NodeRequests::discover(RequestId id, const Request& request) {
  auto nids = request.arg_nids("nids");
  if (!nids) return reply(id, api::answer_error("manage", "discover", -EINVAL, nids.error()));
  if (!c_.desired.configured) return reply(id, api::answer_error("manage", "discover", -ENETDOWN, "Network is down"));
  c_.discovery->discover(*nids, request.arg_bool("force"), [this, id](const std::vector<DiscoverAnswer>& answers) {
    reply(id, discover_answer(answers, [this](const Nid& nid) { return connection_error(c_, nid); }));
  });
}

}  // namespace ulnet
