// The sections of lnetctl's schema, one function each. Source: docs/wire/lnetctl.md §5.
#include "config/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "config/cursor.h"
#include "config/import_udsp.h"
#include "config/ranges.h"
#include "dataplane/base/nid_text.h"

namespace ulnet::config {
namespace {

constexpr std::string_view kNiSchema = "net.local NI(s)";

/// The text of one NI, or of all NIs of a net.
struct NiText {
  std::vector<InterfaceSpec> interfaces;
  Cursor interfaces_at;
  std::optional<Nid> nid;
  Cursor nid_at;
  NiConfig ni;
  bool said = false;  ///< something other than the net's name was written
};

void interfaces_read(Context& c, const Cursor& at, std::vector<InterfaceSpec>& out) {
  for (const Cursor& one : c.texts(at)) {
    auto parsed = interfaces_parse(one.doc->text());
    if (!parsed) {
      c.wrong(one, parsed.error(), "the name of an interface, such as eth0 or eth0[0,2]");
      continue;
    }
    out.insert(out.end(), parsed->begin(), parsed->end());
  }
}

/// Tunables, LND tunables and CPT, which an NI, a net and an ip2nets rule have alike. False when `key` is none of them.
bool ni_key_read(Context& c, const std::string& key, Cursor child, NiConfig& ni) {
  child.schema = std::string(kNiSchema) + '.' + key;
  if (key == "tunables") {
    Slots slots;
    slots.tunables = ni.tunables;
    c.each_key(child, [&](const std::string&, const Cursor& at, const Field& field) { c.assign(at, field, slots); });
    ni.tunables = slots.tunables;
  } else if (key == "lnd tunables") {
    c.each_key(child, [&](const std::string& name, const Cursor& at, const Field& field) {
      if (auto number = c.number(at, field)) ni.lnd_tunables[name] = *number;
    });
  } else if (key == "CPT") {
    std::string text = child.doc->text();
    if (child.doc->is_list()) {  // [0,1] without quotes
      for (const Cursor& one : c.texts(child)) text += (text.empty() ? "" : ",") + one.doc->text();
    }
    auto cpts = cpt_list_parse(text);
    if (!cpts) {
      c.wrong(child, "invalid CPT set", "a list in brackets such as \"[0,1]\"", -ERANGE);
    } else {
      ni.cpts = std::move(*cpts);
    }
  } else {
    return false;
  }
  return true;
}

void ni_read(Context& c, const std::string& key, const Cursor& child, NiText& ni) {
  ni.said = true;
  if (ni_key_read(c, key, child, ni.ni)) return;
  if (key == "interfaces") {
    ni.interfaces_at = child;
    interfaces_read(c, child, ni.interfaces);
  } else if (key == "nid") {
    ni.nid_at = child;
    auto nid = nid_parse(child.doc->text());
    if (!nid || nid->is_any()) {
      c.wrong(child, "is not a NID", "a NID such as 10.0.0.1@tcp");
    } else {
      ni.nid = *nid;
    }
  }
}

/// Checks a NID beside interfaces: the NID selects the address of the one interface of the NI.
bool ni_nid_good(Context& c, Net net, const NiText& text) {
  if (!text.nid) return true;
  if (text.nid->net() != net) {
    c.wrong(text.nid_at, fmt::format("is not on net {}", net_text(net)),
            fmt::format("a NID such as 10.0.0.1@{}", net_text(net)));
    return false;
  }
  if (text.interfaces.size() <= 1) return true;
  c.wrong(text.nid_at, "cannot select an address: there is more than one interface", "one interface for each NID");
  return false;
}

/// Adds or deletes the NIs that `text` stands for.
void ni_apply(Context& c, const Cursor& at, Net net, const NiText& text) {
  auto place = [&](const InterfaceSpec* interface) {
    if (c.mode == ImportMode::kDel) {
      NetDel del{.net = net};
      if (interface != nullptr && !text.nid) del.interface = interface->name;
      del.nid = text.nid;
      c.change(at, del);
      return;
    }
    NiConfig ni = text.ni;
    if (interface != nullptr) ni.interface = interface->name;
    if (interface != nullptr && !interface->cpts.empty()) ni.cpts = interface->cpts;
    ni.nid = text.nid;
    c.change(at, NetAdd{net, std::move(ni)});
  };
  if (!ni_nid_good(c, net, text)) return;
  for (const InterfaceSpec& interface : text.interfaces) place(&interface);
  if (!text.interfaces.empty()) return;
  if (text.nid || c.mode == ImportMode::kDel) return place(nullptr);
  c.wrong(at, "interface / NID is missing", "interfaces: with 0: eth0 below it, or nid: 10.0.0.1@" + net_text(net));
}

/// The name of a net. Nothing when it is missing, wrong (both reported) or lo (skipped).
std::optional<Net> net_name_read(Context& c, const Cursor& item, const char* key) {
  const Doc* name = item.doc->find(key);
  if (name == nullptr) {
    c.wrong(item, fmt::format("'{}' is missing", key), "a network such as tcp, tcp1 or o2ib3", -ENOENT);
    return std::nullopt;
  }
  Cursor at = item;
  at.doc = name;
  if (name->mark.line != 0) at.mark = name->mark;
  at.shown += std::string(".") + key;
  auto net = net_parse(name->text());
  if (!net || *net == kAnyNet) {
    c.wrong(at, "cannot parse net", "a network such as tcp, tcp1 or o2ib3", -ENOENT);
    return std::nullopt;
  }
  if (net->type() == NetType::kLo) return std::nullopt;
  return *net;
}

void net_item(Context& c, const Cursor& item) {
  std::optional<Net> net = net_name_read(c, item, "net type");
  if (!net) return;
  NiText common;
  const Doc* list = nullptr;
  Cursor list_at;
  auto alias = [](const std::string& key) {  // keys of an NI may stand under the net itself
    return field_find("net." + key) == nullptr && field_find(std::string(kNiSchema) + '.' + key) != nullptr
               ? "local NI(s)." + key
               : key;
  };
  c.each_key(
      item,
      [&](const std::string& key, const Cursor& child, const Field&) {
        if (key == "local NI(s)") {
          list = child.doc;
          list_at = child;
        } else if (key != "net type") {
          ni_read(c, key.substr(key.find('.') + 1), child, common);
        }
      },
      alias);
  if (list == nullptr || list->is_null()) return ni_apply(c, item, *net, common);
  if (!common.interfaces.empty() || common.nid) ni_apply(c, item, *net, common);
  c.each_item(list_at, [&](const Cursor& ni_at) {
    NiText ni;
    ni.ni = common.ni;
    c.each_key(ni_at, [&](const std::string& key, const Cursor& child, const Field&) { ni_read(c, key, child, ni); });
    ni_apply(c, ni_at, *net, ni);
  });
}

void ip2nets_item(Context& c, const Cursor& item) {
  std::optional<Net> net = net_name_read(c, item, "net-spec");
  if (!net) return;
  Ip2netsRule rule{.net = *net};
  c.each_key(item, [&](const std::string& key, const Cursor& child, const Field&) {
    if (ni_key_read(c, key, child, rule.ni) || key == "net-spec") return;
    if (key == "interfaces") return interfaces_read(c, child, rule.interfaces);
    for (const Cursor& one : c.texts(child)) {
      if (ip_pattern_valid(one.doc->text())) {
        rule.patterns.push_back(one.doc->text());
      } else {
        c.wrong(one, "is not an address pattern",
                "four parts with dots between them, each a number, * or [a-b/stride], such as 192.168.0.*");
      }
    }
  });
  if (c.mode == ImportMode::kDel) return c.wrong(item, "ip2nets cannot be deleted; delete the networks by name");
  if (rule.patterns.empty() && rule.interfaces.empty()) {
    return c.wrong(item, "'ip-range' is missing", "ip-range: with 0: 192.168.0.* below it");
  }
  c.change(item, NetAddMatching{std::move(rule)});
}

void route_item(Context& c, const Cursor& item) {
  std::vector<Net> nets;
  std::vector<Nid> gateways;
  Slots slots;
  bool good = true;
  c.each_key(item, [&](const std::string& key, const Cursor& child, const Field& field) {
    if (key == "net") {
      auto parsed = nets_parse(child.doc->text());
      if (!parsed)
        return c.wrong(child, "cannot parse remote net: " + parsed.error(), "tcp1, or a range such as tcp[1-3]",
                       -ENODEV);
      nets = std::move(*parsed);
    } else if (key == "gateway") {
      auto parsed = nids_parse(child.doc->text());
      if (!parsed)
        return c.wrong(child, "cannot parse gateway: " + parsed.error(),
                       "10.0.0.1@tcp, or a range such as 10.0.0.[1-5]@tcp");
      gateways = std::move(*parsed);
    } else if (key == "hop" && child.doc->integer() == 0) {
      good = false;
      c.wrong(child, "invalid hop count must be between 1 and 255", "1..255, or -1 if unknown");
    } else {
      good = c.assign(child, field, slots) && good;
    }
  });
  if (item.doc->find("net") == nullptr) c.wrong(item, "missing mandatory parameter: network", "net: tcp1", -ENODEV);
  if (item.doc->find("gateway") == nullptr) {
    c.wrong(item, "missing mandatory parameter: gateway", "gateway: 10.0.0.1@tcp", -ENODEV);
  }
  if (!good) return;
  if (nets.size() * gateways.size() > kRangeMax) {
    return c.wrong(item, fmt::format("stands for more than {} routes", kRangeMax), "smaller ranges");
  }
  for (Net net : nets) {
    for (const Nid& gateway : gateways) {
      if (c.mode == ImportMode::kDel) {
        c.change(item, RouteDel{net, gateway});
      } else {
        c.change(item, RouteAdd{{net, gateway, slots.route.hop, slots.route.priority}});
      }
    }
  }
}

template <class Store>
void nids_read(Context& c, const Cursor& at, Store&& store) {
  auto nids = nids_parse(at.doc->text());
  if (!nids) return c.wrong(at, nids.error(), "10.0.0.1@tcp, or a range such as 10.0.0.[1-5]@tcp");
  for (const Nid& nid : *nids) store(nid);
}

/// The NIDs of a peer in their order, each once. A repeated NID is reported at its place.
struct NidList {
  Context& c;
  PeerConfig& peer;
  std::unordered_map<Nid, size_t, NidHash> index;

  void add(const Cursor& at) {
    nids_read(c, at, [&](const Nid& nid) {
      const auto [first, fresh] = index.emplace(nid, peer.nids.size());
      peer.nids.push_back(nid);
      if (fresh) return;
      c.wrong(at,
              fmt::format("failed to add peer: {} is listed twice (index {} and {} of the NIDs)", nid_text(nid),
                          first->second, peer.nids.size() - 1),
              {}, -EEXIST);
    });
  }
};

/// Adds the change for a peer that has been read. `whole`: kDel deletes the whole peer.
void peer_change(Context& c, const Cursor& item, PeerConfig peer, bool whole) {
  const auto listed = std::find(peer.nids.begin(), peer.nids.end(), peer.primary);
  std::optional<int64_t> primary_at;
  if (listed != peer.nids.end()) {
    primary_at = listed - peer.nids.begin();
    peer.nids.erase(listed);
  }
  if (c.mode != ImportMode::kDel) return c.change(item, PeerAdd{std::move(peer), true, primary_at});
  c.change(item, PeerDel{peer.primary, whole ? std::vector<Nid>{} : peer.nids});
}

/// A full export also has discovered peers. They are left out, because discovery finds them again. Warned once.
bool was_discovered(Context& c, const Cursor& item) {
  constexpr int64_t kConfigured = 1 << 3;  // docs/wire/lnet.md §5.1
  const Doc* state = item.doc->find("peer state");
  const std::optional<int64_t> bits = state != nullptr ? state->integer() : std::nullopt;
  if (!bits || (*bits & kConfigured) != 0) return false;
  if (!std::exchange(c.discovered_said, true))
    c.warn(item,
           "was discovered on the exporting node: import leaves such peers out, and discovery finds them again; "
           "remove 'peer state' to configure them");
  return true;
}

void peer_item(Context& c, const Cursor& item) {
  PeerConfig peer;
  NidList list{c, peer, {}};
  size_t errors = c.out.errors.size();
  c.each_key(item, [&](const std::string& key, const Cursor& child, const Field& field) {
    if (key == "primary nid") {
      nids_read(c, child, [&](const Nid& nid) { peer.primary = nid; });
    } else if (key == "Multi-Rail") {
      if (auto flag = c.number(child, field)) peer.multi_rail = *flag != 0;
    } else if (key == "lock_prim") {
      if (auto flag = c.number(child, field)) peer.lock_primary = *flag != 0;
    } else {
      c.each_item(child, [&](const Cursor& ni) {
        c.each_key(ni, [&](const std::string&, const Cursor& at, const Field&) { list.add(at); });
      });
    }
  });
  if (item.doc->find("primary nid") == nullptr) {
    c.wrong(item, "missing primary NID", "primary nid: 10.0.0.1@tcp", -EFAULT);
  }
  if (c.out.errors.size() != errors) return;
  if (c.mode == ImportMode::kAdd && was_discovered(c, item)) return;
  const bool whole = std::find(peer.nids.begin(), peer.nids.end(), peer.primary) != peer.nids.end();
  peer_change(c, item, std::move(peer), whole);
}

/// peers: as the first design had it, a list of NIDs by index of which the first is the primary. Deleting: all of them.
void peers_item(Context& c, const Cursor& item) {
  PeerConfig peer;
  NidList list{c, peer, {}};
  const size_t errors = c.out.errors.size();
  c.each_key(item, [&](const std::string&, const Cursor& child, const Field&) {
    for (const Cursor& one : c.texts(child)) list.add(one);
  });
  if (c.out.errors.size() != errors) return;
  if (peer.nids.empty()) return c.wrong(item, "has no NIDs", "nids: with 0: 10.0.0.1@tcp below it", -EFAULT);
  peer.primary = peer.nids.front();
  peer_change(c, item, std::move(peer), true);
}

/// routing: as a map, or as the list that is shown (- cpt[0]: ..., - enable: 1).
void routing_section(Context& c, const Cursor& at) {
  auto skip_pools = [](const std::string& key) { return key.starts_with("cpt[") ? std::string{} : key; };
  c.each_item(at, [&](const Cursor& item) {
    c.each_key(
        item,
        [&](const std::string&, const Cursor& child, const Field& field) {
          Slots slots;
          if (!c.assign(child, field, slots)) return;
          c.change(child, SetRouting{slots.routing.enable && c.mode != ImportMode::kDel});
        },
        skip_pools);
  });
}

void buffers_section(Context& c, const Cursor& at) {
  SetBuffers change;
  c.each_key(at, [&](const std::string& key, const Cursor& child, const Field& field) {
    std::optional<int64_t> number = c.number(child, field);
    if (!number || *number == -1) return;
    if (*number == 0)
      return c.wrong(child, "tiny, small and large must be > 0", "1 or more, or -1 to keep the number that is set");
    Buffers defaults;
    std::optional<int64_t>& target = key == "tiny" ? change.tiny : key == "small" ? change.small : change.large;
    int64_t usual = key == "tiny" ? defaults.tiny : key == "small" ? defaults.small : defaults.large;
    target = c.mode == ImportMode::kDel ? usual : *number;
  });
  if (change.tiny || change.small || change.large) c.change(at, change);
}

void global_key(Context& c, const std::string& name, const Cursor& child, const Field& field) {
  std::optional<int64_t> number = c.number(child, field);
  if (!number) return;
  if (c.mode == ImportMode::kDel) {  // lnetctl resets these three and leaves the rest
    if (name != "numa_range" && name != "max_interfaces" && name != "discovery") return;
    Slots defaults;
    number = field_number(field, field_value(field, defaults));
  }
  if (name == "max_interfaces" && *number < 16) {
    c.warn(child, "is below 16 and becomes 4096");
    number = 4096;
  }
  c.change(child, SetValue{name, *number});
}

void global_section(Context& c, const Cursor& at) {
  auto alias = [](const std::string& key) { return key == "max_intf" ? std::string("max_interfaces") : key; };
  c.each_key(
      at, [&](const std::string& key, const Cursor& child, const Field& field) { global_key(c, key, child, field); },
      alias);
}

void numa_section(Context& c, const Cursor& at) {
  c.each_key(at, [&](const std::string&, const Cursor& child, const Field& field) {
    global_key(c, "numa_range", child, field);
  });
}

/// ping and discover, for --exec.
void exec_section(Context& c, const Cursor& at) {
  ExecRequest request;
  request.object = at.schema;
  auto alias = [](const std::string& key) { return key == "source" ? std::string("source_nid") : key; };
  auto one = [&](const Cursor& item) {
    c.each_key(
        item,
        [&](const std::string& key, const Cursor& child, const Field& field) {
          if (key == "nids") {
            for (const Cursor& text : c.texts(child)) {
              auto nids = nids_parse(text.doc->text());
              if (!nids) c.wrong(text, nids.error(), "10.0.0.1@tcp, or a range such as 10.0.0.[1-5]@tcp");
              if (nids) request.nids.insert(request.nids.end(), nids->begin(), nids->end());
            }
          } else if (key == "timeout") {
            if (auto number = c.number(child, field)) request.timeout = Milliseconds(*number);
          } else if (key == "force") {
            request.force = c.number(child, field).value_or(0) != 0;
          } else if (auto nid = nid_parse(child.doc->text()); nid && !nid->is_any()) {
            request.source = *nid;
          } else {
            c.wrong(child, "is not a NID", field_allowed(field));
          }
        },
        alias);
  };
  c.each_item(at, one);
  if (request.nids.empty()) return c.wrong(at, "'nids' is missing", "nids: with 0: 10.0.0.1@tcp below it");
  c.out.exec.push_back(std::move(request));
}

/// ulnet: devices: checked here, kept as it is written.
void device_item(Context& c, const Cursor& item) {
  bool named = false, what = false;
  Slots none;
  c.each_key(item, [&](const std::string& key, const Cursor& child, const Field& field) {
    named = named || key == "name";
    what = what || key == "device";
    if (field.type == FieldType::kTextList) {
      (void)c.texts(child);
    } else if (field.type == FieldType::kList) {
      c.each_item(child, [&](const Cursor& one) {
        c.each_key(one, [&](const std::string&, const Cursor& at, const Field& f) { c.assign(at, f, none); });
      });
    } else {
      c.assign(child, field, none);
    }
  });
  if (!named) c.wrong(item, "'name' is missing", "name: with the name of the port");
  if (!what) c.wrong(item, "'device' is missing", "device: with a PCI address or the kind of a virtual device");
}

/// ulnet: every key below it, however deep, is one change.
void ulnet_section(Context& c, const Cursor& at) {
  c.each_key(at, [&](const std::string&, const Cursor& child, const Field& field) {
    if (field.type == FieldType::kMap) return ulnet_section(c, child);
    Slots slots;
    if (field.type == FieldType::kList) {
      if (child.doc->is_map()) return c.wrong(child, "is a map", "a list");
      c.each_item(child, [&](const Cursor& item) { device_item(c, item); });
    } else if (!c.assign(child, field, slots)) {
      return;
    }
    std::string key = child.schema.substr(std::string_view("ulnet.").size());
    Slots defaults;
    c.change(child, UlnetSet{std::move(key), c.mode == ImportMode::kDel ? field_value(field, defaults) : *child.doc});
  });
}

void section_import(Context& c, const std::string& key, const Cursor& at) {
  auto items = [&](void (*fn)(Context&, const Cursor&)) { c.each_item(at, [&](const Cursor& item) { fn(c, item); }); };
  if (key == "net") return items(net_item);
  if (key == "ip2nets") return items(ip2nets_item);
  if (key == "route") return items(route_item);
  if (key == "peer") return items(peer_item);
  if (key == "peers") return items(peers_item);
  if (key == "udsp") return items(udsp_item);
  if (key == "selection") return items(selection_item);
  if (key == "policy") {
    Cursor same = at;
    same.schema = "udsp";
    return c.each_item(same, [&](const Cursor& item) { udsp_item(c, item); });
  }
  if (key == "routing") return routing_section(c, at);
  if (key == "buffers") return buffers_section(c, at);
  if (key == "global") return global_section(c, at);
  if (key == "numa") return numa_section(c, at);
  if (key == "ulnet") return ulnet_section(c, at);
}

}  // namespace

void import_document(const Doc& document, const std::string& file, ImportMode mode, Imported& out) {
  Context c(file, mode, out);
  Cursor top;
  top.doc = &document;
  top.mark = document.mark;
  c.each_key(top, [&](const std::string& key, const Cursor& at, const Field&) {
    bool exec = key == "ping" || key == "discover";
    if (mode == ImportMode::kExec) {
      if (exec) exec_section(c, at);
    } else if (mode == ImportMode::kShow) {
      if (!exec) out.sections.push_back(key);
    } else if (!exec) {
      section_import(c, key, at);
    }
  });
}

}  // namespace ulnet::config
