#include "control/api/protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "dataplane/base/limits.h"

namespace ulnet::api {
namespace {

constexpr std::array kVerbs = {"change", "show", "manage", "reset"};

constexpr ArgRow kVerbose{"verbose", ArgType::kInteger, "How much is shown.", false, 0, 4};
constexpr ArgRow kNids{"nids", ArgType::kNids, "The NIDs.", true};

constexpr ArgRow kNetArgs[] = {{"net", ArgType::kText, "Only this net, e.g. `tcp`."}, kVerbose};
constexpr ArgRow kRouteArgs[] = {
    {"net", ArgType::kText, "Only routes to this net."},
    {"gateway", ArgType::kText, "Only routes over the gateway with this NID."},
    {"hop", ArgType::kInteger, "Only routes with this number of hops.", false, -1, 255},
    {"priority", ArgType::kInteger, "Only routes with this priority.", false, 0, INT32_MAX},
    kVerbose};
constexpr ArgRow kPeerArgs[] = {{"nid", ArgType::kText, "Only the peer with this NID."}, kVerbose};
constexpr ArgRow kStatsArgs[] = {kVerbose};
constexpr ArgRow kUdspArgs[] = {{"idx", ArgType::kInteger, "Only the rule with this index.", false, -1, INT32_MAX}};
constexpr ArgRow kChangeArgs[] = {
    {"dry_run", ArgType::kBool, "Changes nothing: the answer lists the objects whose policies would change."}};
constexpr ArgRow kExplainArgs[] = {
    {"nid", ArgType::kText, "The destination.", true},
    {"from", ArgType::kText, "The NI of this node to send from; with `forward` the first sender."},
    {"size", ArgType::kInteger, "Bytes of the payload; 0 if absent.", false, 0, kMaxPayload, "B"},
    {"numa", ArgType::kInteger, "The NUMA node of the payload's memory.", false, 0, INT32_MAX},
    {"accelerator", ArgType::kInteger, "The number of the accelerator that holds the payload.", false, 0, INT32_MAX},
    {"count", ArgType::kInteger, "Shows how as many messages would spread.", false, 1, kExplainCountMax},
    {"response", ArgType::kBool, "The message is an ACK or REPLY."},
    {"forward", ArgType::kBool, "The message comes from another node."},
    {"worker", ArgType::kInteger, "The worker that chooses; 0 if absent.", false, 0, kWorkersMax - 1}};
constexpr ArgRow kExportArgs[] = {
    {"backup", ArgType::kBool, "Only the configuration, in the form that `import` takes back."}};
constexpr ArgRow kPortArgs[] = {{"name", ArgType::kText, "Only the port with this name."}, kVerbose};
constexpr ArgRow kRecoveryArgs[] = {{"peer", ArgType::kBool, "Peer NIs; absent or false: NIs of this node."}};
constexpr ArgRow kCptArgs[] = {kNids};
constexpr ArgRow kPingArgs[] = {
    kNids,
    {"timeout_ms", ArgType::kInteger, "Time for each answer; 1000 if absent.", false, 1, kPingTimeoutMax.count(), "ms"},
    {"source", ArgType::kText, "The NID of this node to send from."}};
constexpr ArgRow kDiscoverArgs[] = {kNids, {"force", ArgType::kBool, "Discover peers again that are up to date."}};
constexpr ArgRow kCaptureArgs[] = {
    {"if", ArgType::kText, "The port, by the name that `show port` has.", true},
    {"filter", ArgType::kText, "A filter expression as tcpdump has it."},
    {"snap", ArgType::kInteger, "Bytes of each packet that are kept.", false, kCaptureSnapMin, kCaptureSnapMax, "B"},
    {"seconds", ArgType::kInteger, "The capture ends after this time.", false, 1, kCaptureSecondsMax, "s"},
    {"size", ArgType::kInteger, "The capture ends at this size.", false, kCaptureSizeMin, kCaptureSizeMax, "B"},
    {"rate", ArgType::kInteger, "Packets per second; more are skipped.", false, 1, kCaptureRateMax, "packets/s"}};
constexpr ArgRow kFaultKind{"rule", ArgType::kText, "`drop` or `delay`.", true};
constexpr ArgRow kFaultKindArgs[] = {kFaultKind};
constexpr ArgRow kFaultAddArgs[] = {
    kFaultKind,
    {"source", ArgType::kText, "The first sender: a NID, `*@tcp` for a net, or `*`.", true},
    {"dest", ArgType::kText, "The final destination, in the same forms.", true},
    {"local_nid", ArgType::kText, "Only messages over this NI, in the same forms."},
    {"portal", ArgType::kText, "Only PUTs and GETs for these portals, e.g. `4,12`."},
    {"message", ArgType::kText, "Only these types: `put`, `ack`, `get` and `reply`, e.g. `put,get`."},
    {"rate", ArgType::kInteger, "One of this number of messages of a worker, at a random place.", false, 1, UINT32_MAX},
    {"interval", ArgType::kInteger, "One message of a worker in each such time.", false, 1, kFaultSecondsMax, "s"},
    {"random", ArgType::kBool, "Only of drop rules: `interval` is the mean of a random time."},
    {"drop_all", ArgType::kBool, "Only of drop rules: every message, instead of `rate` or `interval`."},
    {"health_error", ArgType::kText,
     "Only of drop rules: sends fail with one of these statuses, e.g. `local_timeout,remote_error`, or `random`. "
     "Without it, messages are lost on receive."},
    {"latency", ArgType::kInteger, "The time that a delay rule holds a message.", false, 1, kFaultSecondsMax, "s"}};
constexpr ArgRow kFaultDelArgs[] = {kFaultKind,
                                    {"all", ArgType::kBool, "All rules of the kind."},
                                    {"source", ArgType::kText, "The rules with this source."},
                                    {"dest", ArgType::kText, "The rules with this destination."}};
constexpr ArgRow kWatchArgs[] = {
    {"kinds", ArgType::kText, "Only these kinds, e.g. `ni,route`: `ni`, `peer_ni`, `route`, `gateway`, `routing`."},
    {"nids", ArgType::kNids, "Only NIs and gateways with these NIDs, and routes over these gateways."}};
constexpr ArgRow kPortResetArgs[] = {{"name", ArgType::kText, "The port.", true}};

constexpr std::array<CallRow, size_t(Call::kCount)> kCalls{{
    {Call::kChange, Verb::kChange, "", kChangeArgs,
     "Changes the configuration: `changes` is a list of changes (config/change.h). All of them are made, or none.",
     "None. An error names the verb and the entity of its change, and carries the change's `seq_no`.\n"
     "Notes and warnings come in parts. With `dry_run`: {dry run: [...]}, in parts.",
     true},
    {Call::kShowNet, Verb::kShow, "net", kNetArgs, "The local nets and their NIs, `lo` first.",
     "{net: [{net type, local NI(s): [...]}]}. If no net matches the filter: errno -2, \"Object not found\"."},
    {Call::kShowRoute, Verb::kShow, "route", kRouteArgs, "The routes.", "{route: [...]}"},
    {Call::kShowPeer, Verb::kShow, "peer", kPeerArgs, "The peers and their NIs.",
     "{peer: [...]}. Empty if there is no peer, or none matches.", true},
    {Call::kShowPeerList, Verb::kShow, "peer_list", {}, "The primary NIDs of all peers.", "{peer list: [{nid}]}"},
    {Call::kShowRouting,
     Verb::kShow,
     "routing",
     {},
     "The router buffers, and whether this node routes.",
     "{routing: [{cpt[0]: {tiny: {npages, nbuffers, credits, mincredits}, small, large}}, {enable}],\n"
     "buffers: {tiny, small, large}}"},
    {Call::kShowGlobal, Verb::kShow, "global", {}, "The global settings.", "{global: {...}}"},
    {Call::kShowStats, Verb::kShow, "stats", kStatsArgs, "The counters of the node.", "{statistics: {...}}"},
    {Call::kShowUdsp, Verb::kShow, "udsp", kUdspArgs, "The selection policies.", "{udsp: [...]}"},
    {Call::kShowFault, Verb::kShow, "fault", kFaultKindArgs, "The fault rules of a kind, with their counts.",
     "{fault: [{rule_type, fa_src, fa_dst, ...}]}. Empty if there is no rule."},
    {Call::kShowExplain, Verb::kShow, "explain", kExplainArgs,
     "The path that a message to a NID would take, and why: each candidate of each step.",
     "{explain: [{nid, worker, result, source, next hop, destination, steps: [...], spread: [...]}]}"},
    {Call::kShowExport, Verb::kShow, "export", kExportArgs, "Everything, as `import` takes it.",
     "net, route, peer, routing, buffers, global, udsp, ulnet, in this order.", true},
    {Call::kShowStatus,
     Verb::kShow,
     "status",
     {},
     "The state of ulnetd.",
     "{ulnetd: {version, pid, workers, ...}}; the keys may change between versions."},
    {Call::kShowPort, Verb::kShow, "port", kPortArgs,
     "The packet ports of `ulnet: devices:`, and the ports of RDMA devices.",
     "{port: [{name, device, ..., queues: [...]}]}"},
    {Call::kShowCptOfNid, Verb::kShow, "cpt_of_nid", kCptArgs, "The worker group (CPT) that serves each NID.",
     "{cpt-of-nid: [{nid, cpt}]} of the NIDs that have a worker, and an error for each other NID."},
    {Call::kShowRecovery, Verb::kShow, "recovery", kRecoveryArgs,
     "The NIs whose health is not whole: recovery pings are to raise it.",
     "{Local NI recovery: {nid-0: NID, ...}} or {Peer NI recovery: ...}; nothing if there is none."},
    {Call::kPing, Verb::kManage, "ping", kPingArgs, "Pings the NIDs.",
     "{ping: [{primary nid, Multi-Rail, peer_ni: [{nid}]}]} of the NIDs that answered.\n"
     "Each other NID has an error \"failed to ping NID: REASON\". An answer may hold both."},
    {Call::kDiscover, Verb::kManage, "discover", kDiscoverArgs, "Discovers the peers with these NIDs.",
     "As for `manage ping`, under `discover`."},
    {Call::kFaultAdd, Verb::kManage, "fault_add", kFaultAddArgs,
     "Adds a fault rule: messages fail or arrive late, for tests. Rules are no part of the configuration.",
     "None. An error has the verb `add` and the entity `fault`."},
    {Call::kFaultDel, Verb::kManage, "fault_del", kFaultDelArgs,
     "Deletes fault rules. Messages that they delay go on at once.",
     "None. An error has the verb `del` and the entity `fault`; errno -2 if no rule fits."},
    {Call::kPerf,
     Verb::kManage,
     "perf",
     {},
     "Runs a job of ulnet-perf from this node, or ends one: {stop: NAME}.\n"
     "The arguments are those of a job (perf/generator/job_json.h) and its `name`.",
     "Progress in parts, then the results.",
     true,
     true},
    {Call::kCapture, Verb::kManage, "capture", kCaptureArgs,
     "Captures the packets of a port. The capture ends when the client closes the connection, or at a limit.",
     "Parts {capture: {pcapng: BASE64}}, at last {capture: {written, skipped}}.", true},
    {Call::kWatch, Verb::kManage, "watch", kWatchArgs,
     "Reports the state of NIs, peer NIs, gateways, routes and of routing, and each change of it from then on.\n"
     "The request ends when the client closes the connection.",
     "Parts {watch: [LINE, ...]}. `event` is the type of a line:\n\n"
     "- `now`: the present state of an object. These lines come first. Of peer NIs, only those that are not up have\n"
     "  one.\n"
     "- `change`: a change of state.\n"
     "- `lost`: the client did not read, and `lost` events were not sent. `now` lines follow.\n\n"
     "| key | meaning |\n|---|---|\n"
     "| `seq` | The number of the change: 1, 2, 3 ... of all changes, also of those that the filter keeps back. In a "
     "`now` line: the number of the last change that the state includes. |\n"
     "| `time_us` | Microseconds since 1970. |\n"
     "| `kind` | `ni`, `peer_ni`, `route`, `gateway` or `routing`. |\n"
     "| `object` | A NID; of a route `NET GATEWAY`; of routing `this node`. |\n"
     "| `from`, `to` | The states. `none`: the object is not there. A `now` line has only `to`. |\n"
     "| `reason` | The cause, as in the journal. Only in `change` lines. |\n"
     "| `health` | The health value of an NI or peer NI. A change of this value alone is no event. |\n\n"
     "States of an NI:\n\n"
     "- `up`, `down`: the status of `show net`\n"
     "- `degraded`: up, but its link is slower than its device can\n"
     "- `failed`: its driver reports the link down\n"
     "- `deleting`\n\n"
     "States of a peer NI: `up`, `down` (its node reports that, or is silent), `failed` (its health is 0; or it has\n"
     "no connection, until there is a connection or message again). Of routes and gateways: `up`, `down`. Of routing:\n"
     "those of `show status`.",
     true},
    {Call::kPortReset, Verb::kManage, "port_reset", kPortResetArgs, "Resets a port.",
     "None; the answer comes when the port works again."},
    {Call::kResetStats, Verb::kReset, "stats", {}, "Sets all counters to 0.", "None."},
    {Call::kResetFault, Verb::kReset, "fault", kFaultKindArgs, "Sets the counts of all fault rules of a kind to 0.",
     "None."},
}};

constexpr bool rows_in_order() {
  for (size_t i = 0; i < kCalls.size(); ++i)
    if (kCalls[i].call != Call(i) || kCalls[i].text.empty() || kCalls[i].answer.empty()) return false;
  return true;
}
static_assert(rows_in_order(), "one row for each Call, in the order of the enum");

const char* type_text(ArgType type) {
  switch (type) {
    case ArgType::kBool: return "true or false";
    case ArgType::kInteger: return "a whole number";
    case ArgType::kText: return "a text";
    case ArgType::kNids: return "a list of NIDs";
  }
  return "";
}

bool type_fits(const ArgRow& arg, const config::Json& value) {
  switch (arg.type) {
    case ArgType::kBool: return value.is_boolean();
    case ArgType::kText: return value.is_string();
    case ArgType::kNids: return value.is_array();
    case ArgType::kInteger: return value.is_number_integer();
  }
  return false;
}

bool in_bounds(const ArgRow& arg, const config::Json& value) {
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t(INT64_MAX)) return false;
  return value.get<int64_t>() >= arg.min && value.get<int64_t>() <= arg.max;
}

std::string allowed_text(const ArgRow& arg) {
  if (arg.type != ArgType::kInteger) return type_text(arg.type);
  return fmt::format("{} to {}{}{}", arg.min, arg.max, arg.unit.empty() ? "" : " ", arg.unit);
}

std::string names(std::span<const ArgRow> args) {
  std::string out;
  for (const ArgRow& arg : args) out += fmt::format("{}{}", out.empty() ? "" : ", ", arg.name);
  return out.empty() ? "none" : out;
}

constexpr std::string_view kReferenceHead =
    R"(# The control socket

Generated from the table in `control/api/protocol.cc`; do not edit.

`ulnetctl` and every other program that manages a node use this protocol. The server is `ulnetd`.

## Frames

The transport is a Unix stream socket. A frame is a length of four bytes (little endian) and as many bytes of JSON.
The first frame in each direction is a hello. Then the client sends requests. Each request has an `id` that the client
chooses; its answer carries the same `id`. Answers may come in any order. A request has one last answer. Answers with
`"more": true` come before it and are parts of it. If a frame is no JSON, or no request with an `id`, the server
answers with `id` 0 and closes the connection.

```
hello    {"ulnet": 1, "role": "ulnetctl", "version": "0.1.0"}           the hello of the server also has "pid"
request  {"id": 7, "verb": "show", "object": "net", "args": {"verbose": 2}}
         {"id": 8, "verb": "change", "changes": [{"change": "net_add", "net": "tcp", "ni": {...}}, ...]}
answer   {"id": 7, "ok": true, "doc": {"net": [...]}}
         {"id": 8, "ok": true, "notes": ["..."], "more": true}          the reason why the change waits
         {"id": 8, "ok": true, "warnings": ["..."], "more": true}       a part of the change without effect, and why
         {"id": 8, "ok": false, "errors": [{"verb": "add", "entity": "net", "errno": -17, "descr": "...",
          "seq_no": 3}]}
```

If this version has no such request, the answer is errno -95 (EOPNOTSUPP) under the verb and object of the request. If
an argument is unknown, missing, of another type or out of bounds, the answer is errno -22 (EINVAL) and says which.

## Requests
)";

}  // namespace

const char* verb_text(Verb verb) {
  return kVerbs.at(size_t(verb));
}

std::optional<Verb> verb_find(std::string_view text) {
  const auto found = std::find(kVerbs.begin(), kVerbs.end(), text);
  if (found == kVerbs.end()) return std::nullopt;
  return Verb(found - kVerbs.begin());
}

std::span<const CallRow> protocol() {
  return kCalls;
}

const CallRow& row_of(Call call) {
  return kCalls.at(size_t(call));
}

std::optional<Call> call_find(Verb verb, std::string_view object) {
  for (const CallRow& row : kCalls)
    if (row.verb == verb && (verb == Verb::kChange || row.object == object)) return row.call;
  return std::nullopt;
}

std::string args_wrong(const CallRow& row, const config::Json& args) {
  if (row.own_args) return {};
  for (const auto& [name, value] : args.items()) {
    const auto arg =
        std::find_if(row.args.begin(), row.args.end(), [&](const ArgRow& one) { return one.name == name; });
    if (arg == row.args.end()) return fmt::format("unknown argument '{}'; known: {}", name, names(row.args));
    if (!type_fits(*arg, value))
      return fmt::format("'{}' is {}; it must be {}", name, config::json_dump(value), type_text(arg->type));
    if (arg->type == ArgType::kInteger && !in_bounds(*arg, value))
      return fmt::format("'{}' is {}; allowed: {}", name, config::json_dump(value), allowed_text(*arg));
  }
  for (const ArgRow& arg : row.args)
    if (arg.required && !args.contains(std::string(arg.name)))
      return fmt::format("'{}' is missing: {}", arg.name, type_text(arg.type));
  return {};
}

std::string protocol_reference() {
  std::string out(kReferenceHead);
  for (const CallRow& row : kCalls) {
    out += fmt::format("\n### {}", verb_text(row.verb));
    if (!row.object.empty()) out += fmt::format(" {}", row.object);
    out += fmt::format("\n\n{}\n", row.text);
    if (!row.args.empty()) out += "\n| argument | value | meaning |\n|---|---|---|\n";
    for (const ArgRow& arg : row.args)
      out += fmt::format("| `{}` | {}{} | {} |\n", arg.name, allowed_text(arg), arg.required ? ", required" : "",
                         arg.text);
    out += fmt::format("\nAnswer: {}{}\n", row.answer, row.parts ? "\nThe answer may come in parts." : "");
  }
  return out;
}

}  // namespace ulnet::api
