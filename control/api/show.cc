#include "control/api/show.h"

#include <fmt/format.h>

#include <cmath>

#include "config/export.h"
#include "config/ranges.h"
#include "dataplane/base/nid_text.h"
#include "dataplane/wire/header.h"

namespace ulnet::api {
namespace {

/// The sections of `net show -v 2` with messages by type.
constexpr std::array<const char*, size_t(NiTraffic::kCount)> kByType{"sent_stats", "received_stats", "dropped_stats"};
static_assert(kByType.back() != nullptr);

/// The order of lnetctl.
constexpr std::array<std::pair<const char*, wire::MsgType>, wire::kMsgTypes> kTypes{{
    {"put", wire::MsgType::kPut},
    {"get", wire::MsgType::kGet},
    {"reply", wire::MsgType::kReply},
    {"ack", wire::MsgType::kAck},
    {"hello", wire::MsgType::kHello},
}};

/// One line per counter of this kind.
template <class Kind>
void counts_set(Doc& doc, const std::array<uint64_t, size_t(Kind::kCount)>& counts) {
  for (size_t i = 0; i < counts.size(); ++i) doc.set(texts_of<Kind>()[i].name, counts[i]);
}

void traffic_set(Doc& doc, const InterfaceTotals& counted, NiTraffic which) {
  uint64_t sum = 0;
  for (uint64_t count : counted[which]) sum += count;
  doc.set(texts_of<NiTraffic>()[size_t(which)].name, sum);
}

void types_set(Doc& doc, const InterfaceTotals& counted, NiTraffic which) {
  Doc& types = doc.set(kByType[size_t(which)], Doc::map());
  for (const auto& [name, type] : kTypes) types.set(name, counted[which][size_t(type)]);
}

Doc statistics_doc(const InterfaceTotals& counted) {
  Doc doc = Doc::map();
  for (size_t i = 0; i < counted.traffic.size(); ++i) traffic_set(doc, counted, NiTraffic(i));
  for (size_t i = 0; i < counted.latencies.size(); ++i) {
    const LatencyTotals& latency = counted.latencies[i];
    const std::string name = texts_of<NiLatency>()[i].name;
    doc.set(name + "_samples", latency.samples);
    doc.set(name + "_min_nsec", latency.min_ns);
    doc.set(name + "_max_nsec", latency.max_ns);
    doc.set(name + "_avg_nsec", latency.average_ns());
  }
  return doc;
}

Doc nid_map(const std::vector<Nid>& nids) {
  Doc doc = Doc::map();
  for (size_t i = 0; i < nids.size(); ++i) doc.set("NID-" + std::to_string(i), nid_text(nids[i]));
  return doc;
}

Doc udsp_doc(const UdspInfo& info) {
  Doc doc = Doc::map();
  doc.set("net priority", info.net_priority);
  doc.set("nid priority", info.nid_priority);
  if (!info.preferred_sources.empty()) doc.set("Preferred source NIDs", nid_map(info.preferred_sources));
  if (!info.preferred_gateways.empty()) doc.set("Preferred gateway NIDs", nid_map(info.preferred_gateways));
  return doc;
}

/// The last keys of `health stats`; the last two are ulnet's own.
void recovery_set(Doc& doc, const HealthShow& health) {
  doc.set("ping_count", health.ping_count);
  doc.set("next_ping", health.next_ping);
  if (health.held) doc.set("set by hand", true);
  if (health.failure_rate >= 0.01) doc.set("failure rate", std::round(health.failure_rate * 100) / 100);
}

Doc local_health_doc(const LocalNiShow& ni) {
  Doc doc = Doc::map();
  doc.set("fatal_error", ni.health.fatal_error);
  doc.set("health value", ni.health.health_value);
  counts_set<NiFailure>(doc, ni.counted.failures);
  recovery_set(doc, ni.health);
  return doc;
}

void settings_set(Doc& doc, const LocalNiShow& ni) {
  doc.set("tunables", config::export_tunables(ni.tunables));
  if (!ni.lnd_tunables.empty()) doc.set("lnd tunables", config::export_lnd_tunables(ni.lnd_tunables));
  if (ni.waits_for.empty()) doc.set("dev cpt", ni.dev_cpt);
  if (!ni.cpts.empty()) doc.set("CPT", config::cpt_list_text(ni.cpts));
}

Doc local_ni_doc(const LocalNiShow& ni, int verbosity) {
  Doc doc = Doc::map();
  if (!ni.nid.is_any()) doc.set("nid", nid_text(ni.nid));
  doc.set("status", !ni.waits_for.empty() ? "waiting" : ni.up ? "up" : "down");
  if (!ni.interface.empty()) doc.set("interfaces", Doc::map()).set("0", ni.interface);
  if (!ni.waits_for.empty()) doc.set("waits for", ni.waits_for);
  if (verbosity < 1) return doc;
  if (!ni.waits_for.empty()) {
    settings_set(doc, ni);
    return doc;
  }
  doc.set("statistics", statistics_doc(ni.counted));
  if (verbosity >= 4) doc.set("udsp info", udsp_doc(ni.udsp));
  if (verbosity >= 2) {
    for (size_t i = 0; i < kByType.size(); ++i) types_set(doc, ni.counted, NiTraffic(i));
    doc.set("health stats", local_health_doc(ni));
  }
  settings_set(doc, ni);
  if (verbosity >= 4 && !ni.connections.empty()) {
    Doc& connections = doc.set("connections", Doc::map());
    for (const auto& [name, number] : ni.connections) connections.set(name, number);
  }
  if (verbosity >= 4 && !ni.peer_faults.empty()) {
    Doc& faults = doc.set("peer faults", Doc::map());
    for (const auto& [name, count] : ni.peer_faults) faults.set(name, count);
  }
  if (!ni.state.empty()) doc.set("ni state", ni.state);
  if (!ni.speed.empty()) doc.set("link speed", ni.speed);
  if (!ni.in_use.empty()) doc.set("deletion", ni.in_use);
  if (ni.warnings.empty()) return doc;
  Doc& warnings = doc.set("warnings", Doc::list());
  for (const std::string& line : ni.warnings) warnings.push(line);
  return doc;
}

Doc peer_health_doc(const PeerNiShow& ni) {
  Doc doc = Doc::map();
  doc.set("health value", ni.health.health_value);
  counts_set<PeerFailure>(doc, ni.counted.peer_failures);
  recovery_set(doc, ni.health);
  return doc;
}

Doc peer_ni_doc(const PeerNiShow& ni, int verbosity) {
  Doc doc = Doc::map();
  doc.set("nid", nid_text(ni.nid));
  if (verbosity >= 4) doc.set("udsp info", udsp_doc(ni.udsp));
  doc.set("state", ni.state);
  if (verbosity < 1) return doc;
  if (!ni.ni_state.empty()) doc.set("ni state", ni.ni_state);
  doc.set("max_ni_tx_credits", ni.max_ni_tx_credits);
  doc.set("available_tx_credits", ni.available_tx_credits);
  doc.set("min_tx_credits", ni.min_tx_credits);
  doc.set("tx_q_num_of_buf", ni.tx_q_num_of_buf);
  doc.set("available_rtr_credits", ni.available_rtr_credits);
  doc.set("min_rtr_credits", ni.min_rtr_credits);
  doc.set("refcount", ni.refcount);
  doc.set("statistics", statistics_doc(ni.counted));
  if (verbosity < 2) return doc;
  for (size_t i = 0; i < kByType.size(); ++i) types_set(doc, ni.counted, NiTraffic(i));
  doc.set("health stats", peer_health_doc(ni));
  if (verbosity < 4 || ni.connections.empty()) return doc;
  Doc& connections = doc.set("connections", Doc::list());
  for (const auto& [nid, show] : ni.connections) {
    Doc& one = connections.push(Doc::map());
    one.set("nid", nid_text(nid));
    one.set("state", show.state);
    for (const auto& [name, limit] : show.limits) one.set(name, limit);
    for (const auto& [name, number] : show.numbers) one.set(name, number);
  }
  return doc;
}

Doc discovery_doc(const DiscoveryShow& show) {
  Doc doc = Doc::map();
  doc.set("state", show.state);
  doc.set("letters", show.letters);
  doc.set("peer sequence", show.peer_sequence);
  doc.set("our sequence", show.our_sequence);
  doc.set("error", show.error);
  return doc;
}

Doc ni_drops_doc(const LocalNiShow& ni) {
  Doc doc = Doc::map();
  doc.set("nid", nid_text(ni.nid));
  traffic_set(doc, ni.counted, NiTraffic::kDropped);
  types_set(doc, ni.counted, NiTraffic::kDropped);
  counts_set<NiFailure>(doc.set("failed sends", Doc::map()), ni.counted.failures);
  return doc;
}

Doc worker_doc(const WorkerShow& worker) {
  Doc doc = Doc::map();
  doc.set("worker", worker.worker);
  doc.set("group", worker.group);
  doc.set("peers", worker.peers);
  if (worker.time) {
    doc.set("busy_ms", worker.time->busy.count());
    doc.set("busy_cycles", worker.time->busy_cycles);
    doc.set("spinning_ms", worker.time->spinning.count());
    doc.set("asleep_ms", worker.time->asleep.count());
  }
  const uint64_t tenths = worker.turns_busy == 0 ? 0 : worker.events * 10 / worker.turns_busy;
  doc.set("events_per_busy_turn", double(tenths) / 10);
  for (const auto& [name, value] : worker.turn) doc.set(name, value);
  Doc& rings = doc.set("rings", Doc::map());
  rings.set("size", worker.ring_size);
  rings.set("from_workers", worker.from_workers);
  rings.set("to_workers", worker.to_workers);
  rings.set("from_control", worker.from_control);
  rings.set("to_control", worker.to_control);
  return doc;
}

/// A map with one key, or nothing when the list is empty.
Doc section(const char* key, Doc list) {
  if (list.size() == 0) return {};
  Doc doc = Doc::map();
  doc.set(key, std::move(list));
  return doc;
}

}  // namespace

Doc net_doc(const std::vector<NetShow>& nets, int verbosity) {
  Doc list = Doc::list();
  for (const NetShow& net : nets) {
    Doc& item = list.push(Doc::map());
    item.set("net type", net_text(net.net));
    Doc& nis = item.set("local NI(s)", Doc::list());
    for (const LocalNiShow& ni : net.nis) nis.push(local_ni_doc(ni, verbosity));
    if (verbosity >= 1 && !net.state.empty()) item.set("net state", net.state);
  }
  return section("net", std::move(list));
}

NetShow lo_show(const std::vector<uint16_t>& all_cpts) {
  LocalNiShow ni;
  ni.nid = kLoNid;
  ni.health.health_value = 0;
  ni.tunables = {config::Seconds(0), 0, 0, 0};
  ni.cpts = all_cpts;
  return {kLoNid.net(), {ni}};
}

Doc recovery_doc(bool peer, const std::vector<Nid>& nids) {
  Doc doc = Doc::map();
  if (nids.empty()) return doc;
  Doc& queue = doc.set(peer ? "Peer NI recovery" : "Local NI recovery", Doc::map());
  for (size_t i = 0; i < nids.size(); ++i) queue.set(fmt::format("nid-{}", i), nid_text(nids[i]));
  return doc;
}

Doc peer_doc(const std::vector<PeerShow>& peers, int verbosity) {
  Doc list = Doc::list();
  for (const PeerShow& peer : peers) {
    Doc& item = list.push(Doc::map());
    item.set("primary nid", nid_text(peer.primary));
    item.set("Multi-Rail", peer.multi_rail);
    if (verbosity >= 3 && peer.lock_primary) item.set("lock_prim", true);
    if (verbosity >= 3) item.set("peer state", peer.state);
    if (verbosity >= 4 && peer.discovery) item.set("discovery", discovery_doc(*peer.discovery));
    Doc& nis = item.set("peer ni", Doc::list());
    for (const PeerNiShow& ni : peer.nis) nis.push(peer_ni_doc(ni, verbosity));
  }
  return section("peer", std::move(list));
}

Doc route_doc(const std::vector<RouteShow>& routes, int verbosity) {
  Doc list = Doc::list();
  for (const RouteShow& show : routes) {
    Doc& item = list.push(Doc::map());
    item.set("net", net_text(show.route.net));
    item.set("gateway", nid_text(show.route.gateway));
    if (verbosity < 1) continue;
    item.set("hop", show.route.hop);
    item.set("priority", show.route.priority);
    item.set("state", show.up ? "up" : "down");
    item.set("type", show.multi_hop ? "multi-hop" : "single-hop");
    if (verbosity < 4 || show.rules.empty()) continue;
    Doc& rules = item.set("udsp info", Doc::map()).set("preferred by rules", Doc::list());
    for (const int64_t rule : show.rules) rules.push(rule);
  }
  return section("route", std::move(list));
}

Doc routing_doc(const std::vector<CptPools>& pools, bool enabled, const config::Buffers& buffers,
                const std::string& changing) {
  if (pools.empty()) return {};
  constexpr std::array kNames = {"tiny", "small", "large"};
  Doc list = Doc::list();
  for (size_t cpt = 0; cpt < pools.size(); ++cpt) {
    Doc one = Doc::map();
    for (size_t i = 0; i < kNames.size(); ++i) {
      Doc& pool = one.set(kNames[i], Doc::map());
      pool.set("npages", pools[cpt][i].npages);
      pool.set("nbuffers", pools[cpt][i].nbuffers);
      pool.set("credits", pools[cpt][i].credits);
      pool.set("mincredits", pools[cpt][i].mincredits);
    }
    list.push(Doc::map()).set("cpt[" + std::to_string(cpt) + "]", std::move(one));
  }
  Doc& enable = list.push(Doc::map());
  enable.set("enable", enabled ? 1 : 0);
  if (!changing.empty()) enable.set("state", changing);
  Doc doc = Doc::map();
  doc.set("routing", std::move(list));
  Doc& totals = doc.set("buffers", Doc::map());
  totals.set("tiny", buffers.tiny);
  totals.set("small", buffers.small);
  totals.set("large", buffers.large);
  return doc;
}

Doc stats_doc(const NodeTotals& totals) {
  Doc list = Doc::map();
  counts_set<Stat>(list, totals.stats);
  return section("statistics", std::move(list));
}

void stats_details_set(Doc& doc, const std::vector<DropShow>& drops, const std::vector<NetShow>& nets,
                       const std::vector<WorkerShow>& workers, int verbosity) {
  Doc reasons = Doc::list();
  for (const DropShow& drop : drops) {
    if (drop.count == 0 && verbosity < 2) continue;
    Doc& item = reasons.push(Doc::map());
    item.set("reason", drop.reason);
    item.set("count", drop.count);
    item.set("meaning", drop.meaning);
  }
  if (reasons.size() > 0) doc.set("drops", std::move(reasons));
  Doc nis = Doc::list();
  for (const NetShow& net : nets)
    for (const LocalNiShow& ni : net.nis)
      if (ni.waits_for.empty()) nis.push(ni_drops_doc(ni));
  if (nis.size() > 0) doc.set("drops by ni", std::move(nis));
  Doc list = Doc::list();
  for (const WorkerShow& worker : workers) list.push(worker_doc(worker));
  if (list.size() > 0) doc.set("workers", std::move(list));
}

Doc pinged_doc(const Nid& primary, bool multi_rail, const std::vector<Nid>& nids) {
  Doc doc = Doc::map();
  doc.set("primary nid", nid_text(primary));
  doc.set("Multi-Rail", multi_rail);
  Doc& list = doc.set("peer_ni", Doc::list());
  for (const Nid& nid : nids) list.push(Doc::map()).set("nid", nid_text(nid));
  return doc;
}

}  // namespace ulnet::api
