#include "config/export.h"

#include <algorithm>

#include "config/ranges.h"
#include "config/schema.h"
#include "dataplane/base/nid_text.h"

namespace ulnet::config {
namespace {

Doc net_doc(const NetConfig& net, const std::vector<uint16_t>& all_cpts) {
  Doc doc = Doc::map();
  doc.set("net type", net_text(net.net));
  Doc& list = doc.set("local NI(s)", Doc::list());
  for (const NiConfig& ni : net.nis) {
    Doc& item = list.push(Doc::map());
    if (ni.interface.empty() || (ni.nid && !ni.nid_found)) item.set("nid", nid_text(*ni.nid));
    if (!ni.interface.empty()) item.set("interfaces", Doc::map()).set("0", ni.interface);
    item.set("tunables", export_tunables(ni.tunables));
    Doc lnd = export_lnd_tunables(ni.lnd_tunables);
    if (lnd.size() > 0) item.set("lnd tunables", std::move(lnd));
    const std::vector<uint16_t>& cpts = ni.cpts.empty() ? all_cpts : ni.cpts;
    if (!cpts.empty()) item.set("CPT", cpt_list_text(cpts));
  }
  return doc;
}

Doc peer_doc(const PeerConfig& peer) {
  Doc doc = Doc::map();
  doc.set("primary nid", nid_text(peer.primary));
  doc.set("Multi-Rail", peer.multi_rail);
  if (peer.lock_primary) doc.set("lock_prim", true);
  Doc& list = doc.set("peer ni", Doc::list());
  list.push(Doc::map()).set("nid", nid_text(peer.primary));
  for (const Nid& nid : peer.nids) list.push(Doc::map()).set("nid", nid_text(nid));
  return doc;
}

Doc route_doc(const RouteConfig& route) {
  Doc doc = Doc::map();
  doc.set("net", net_text(route.net));
  doc.set("gateway", nid_text(route.gateway));
  doc.set("hop", route.hop);
  doc.set("priority", route.priority);
  return doc;
}

Doc buffers_doc(const Buffers& buffers) {
  Doc doc = Doc::map();
  doc.set("tiny", buffers.tiny);
  doc.set("small", buffers.small);
  doc.set("large", buffers.large);
  return doc;
}

/// Sets a value whose path is given by dots, making the maps on the way.
void set_deep(Doc& map, std::string_view path, Doc value) {
  size_t dot = path.find('.');
  if (dot == std::string_view::npos) {
    map.set(path, std::move(value));
    return;
  }
  std::string_view head = path.substr(0, dot);
  if (map.find(head) == nullptr) map.set(head, Doc::map());
  for (Doc::Entry& entry : map.entries()) {
    if (entry.key == head) set_deep(entry.value, path.substr(dot + 1), std::move(value));
  }
}

}  // namespace

Seconds lnd_timeout_of(const Global& global) {
  return std::max(Seconds(1), (global.transaction_timeout - Seconds(1)) / (global.retry_count + 1));
}

Doc export_global(const Global& global) {
  Slots slots;
  slots.global = global;
  Doc doc = Doc::map();
  for (const std::string& name : field_children("global")) {
    const Field* field = field_find("global." + name);
    if (name == "lnd_timeout") doc.set(name, lnd_timeout_of(global).count());
    if (field->at != nullptr) doc.set(name, field_value(*field, slots));
  }
  return doc;
}

Doc export_tunables(const Tunables& tunables) {
  Doc doc = Doc::map();
  doc.set("peer_timeout", tunables.peer_timeout.count());
  doc.set("peer_credits", tunables.peer_credits);
  doc.set("peer_buffer_credits", tunables.peer_buffer_credits);
  doc.set("credits", tunables.credits);
  return doc;
}

Doc export_lnd_tunables(const std::map<std::string, int64_t>& tunables) {
  constexpr std::string_view kSection = "net.local NI(s).lnd tunables.";
  Doc doc = Doc::map();
  for (const Field& field : fields()) {
    if (!std::string_view(field.path).starts_with(kSection)) continue;
    const auto found = tunables.find(std::string(field_name(field.path)));
    if (found == tunables.end()) continue;
    doc.set(found->first, field.type == FieldType::kBool ? Doc(found->second != 0) : Doc(found->second));
  }
  return doc;
}

Doc export_udsp(const std::vector<UdspRule>& rules) {
  Doc list;
  for (size_t i = 0; i < rules.size(); ++i) {
    const UdspRule& rule = rules[i];
    Doc item = Doc::map();
    item.set("idx", i);
    if (!rule.src.empty()) item.set("src", rule.src);
    if (!rule.dst.empty()) item.set("dst", rule.dst);
    if (!rule.rte.empty()) item.set("rte", rule.rte);
    if (rule.priority) item.set("action", Doc::map()).set("priority", *rule.priority);
    list.push(std::move(item));
  }
  return list;
}

Doc export_ulnet(const UlnetSection& ulnet) {
  Slots slots, defaults;
  slots.ulnet = ulnet;
  Doc doc;
  constexpr std::string_view kPrefix = "ulnet.";
  for (const Field& field : fields()) {
    std::string_view path = field.path;
    if (!path.starts_with(kPrefix) || !field_has_value(field)) continue;
    Doc value = field_value(field, slots);
    if (value == field_value(field, defaults)) continue;
    if (path == "ulnet.socket.mode") {  // octal, as it is written
      std::string octal;
      for (int64_t mode = slots.ulnet.socket.mode; mode > 0; mode /= 8) {
        octal.insert(octal.begin(), static_cast<char>('0' + mode % 8));
      }
      value = Doc("0" + octal);
    }
    set_deep(doc, path.substr(kPrefix.size()), std::move(value));
  }
  return doc;
}

void export_routing(Doc& doc, const DesiredState& state) {
  // With `forwarding: enabled`, a node routes by default. If routing is off, the export must state that.
  const bool said = state.routing.enable || state.ulnet.forwarding == Forwarding::kEnabled;
  if (said) doc.set("routing", Doc::map()).set("enable", state.routing.enable ? 1 : 0);
  if (state.routing.enable || !(state.buffers == Buffers{})) doc.set("buffers", buffers_doc(state.buffers));
}

Doc export_backup(const DesiredState& state, const std::vector<uint16_t>& all_cpts) {
  Doc doc = Doc::map();
  Doc nets, routes, peers;
  for (const NetConfig& net : state.nets) nets.push(net_doc(net, all_cpts));
  for (const RouteConfig& route : state.routes) routes.push(route_doc(route));
  for (const PeerConfig& peer : state.peers) peers.push(peer_doc(peer));
  if (nets.size() > 0) doc.set("net", std::move(nets));
  if (routes.size() > 0) doc.set("route", std::move(routes));
  if (peers.size() > 0) doc.set("peer", std::move(peers));
  export_routing(doc, state);
  doc.set("global", export_global(state.global));
  Doc udsp = export_udsp(state.udsp);
  if (udsp.size() > 0) doc.set("udsp", std::move(udsp));
  Doc ulnet = export_ulnet(state.ulnet);
  if (ulnet.size() > 0) doc.set("ulnet", std::move(ulnet));
  return doc;
}

}  // namespace ulnet::config
