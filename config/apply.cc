#include "config/apply.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "config/devices.h"
#include "config/export.h"
#include "config/schema.h"
#include "config/udsp_rules.h"
#include "dataplane/base/nid_text.h"

namespace ulnet::config {
namespace {

/// Applies one change after the other to a state. Returns the error of a change, or {0, ""} if the change is right.
class Applier {
 public:
  struct Wrong {
    int code = 0;
    std::string what;
  };

  Applier(DesiredState& state, std::vector<std::string>* notes) : s_(state), udsp_(state.udsp, notes) {
    for (size_t i = 0; i < s_.peers.size(); ++i) peer_index(i);
  }

  bool retry_count_set = false;  ///< the list itself sets a retry_count above 0
  bool from_file = false;        ///< the current change is from a file: control has removed changes in force

  Wrong operator()(const LnetConfigure&) {
    s_.configured = true;
    return {};
  }
  Wrong operator()(const LnetUnconfigure&) {
    DesiredState empty;
    empty.ulnet = s_.ulnet;
    s_ = std::move(empty);
    peer_index_.clear();
    udsp_.forget();
    return {};
  }

  Wrong operator()(const NetAdd& c) {
    if (!s_.configured) return down();
    if (c.net.type() == NetType::kLo) return {-ENODEV, "setting @lo not allowed"};
    NetConfig* net = net_find(c.net);
    if (net != nullptr) {
      for (const NiConfig& ni : net->nis) {
        // If the NI was added by its interface, control has filled in the NID later.
        bool same = c.ni.nid ? ni.nid == c.ni.nid : ni.interface == c.ni.interface && (!ni.nid || ni.nid_found);
        if (same)
          return {-EEXIST, fmt::format("cannot add LNet NI: {} already has {}{}", net_text(c.net), ni_name(c.ni),
                                       other_settings())};
      }
    }
    for (const RouteConfig& route : s_.routes) {
      if (net == nullptr && route.net == c.net) {
        return {-EEXIST, fmt::format("cannot add LNet NI: there is a route to {}; delete it first", net_text(c.net))};
      }
    }
    if (net == nullptr) net = &s_.nets.emplace_back(NetConfig{.net = c.net});
    net->nis.push_back(c.ni);
    return {};
  }

  Wrong operator()(const NetAddMatching& c) {
    if (!s_.configured) return down();
    if (c.rule.net.type() == NetType::kLo) return {-ENODEV, "setting @lo not allowed"};
    s_.ip2nets.push_back(c.rule);
    return {};
  }

  Wrong operator()(const NetDel& c) {
    if (!s_.configured) return down();
    if (c.net.type() == NetType::kLo) return {-ENODEV, "setting @lo not allowed"};
    NetConfig* net = net_find(c.net);
    if (net == nullptr) return {-EINVAL, fmt::format("cannot del network: there is no net {}", net_text(c.net))};
    if (!c.interface.empty() || c.nid) {
      size_t removed = std::erase_if(net->nis, [&](const NiConfig& ni) {
        return (c.interface.empty() || ni.interface == c.interface) && (!c.nid || ni.nid == c.nid);
      });
      std::string name = c.nid ? nid_text(*c.nid) : c.interface;
      if (removed == 0)
        return {-EINVAL, fmt::format("cannot del network: {} is not an NI of {}", name, net_text(c.net))};
      if (!net->nis.empty()) return {};
    }
    std::erase_if(s_.nets, [&](const NetConfig& one) { return one.net == c.net; });
    // Without an NI on the gateway's net a route leads nowhere. The last NI of that net therefore removes the route.
    std::erase_if(s_.routes, [&](const RouteConfig& route) { return route.gateway.net() == c.net; });
    return {};
  }

  Wrong operator()(const NetSet& c) {
    if (!s_.configured) return down();
    for (const auto& [key, number] : c.lnd_tunables) {
      const Field* field = ni_key_find(key);
      if (c.net && field != nullptr && field->transmit_timeout && net_find(*c.net) == nullptr)
        return {-EINVAL, fmt::format("cannot configure {}: there is no net {}", field->net_set, net_text(*c.net))};
    }
    for (NetConfig& net : s_.nets)
      for (NiConfig& ni : net.nis)
        if (ni.nid) (void)net_set_tune(c, *ni.nid, ni.lnd_tunables);
    for (const auto& [key, number] : c.lnd_tunables) {
      const DriverField* row = c.net ? ni_row_find(c.net->type(), key) : nullptr;
      if (row == nullptr || !row->transmit_timeout || row->setting[0] == 0) continue;
      driver_value_set(s_.ulnet.driver, row->setting, number > 0 ? number : lnd_timeout_of(s_.global).count());
    }
    return {};
  }

  Wrong operator()(const RouteAdd& c) {
    if (!s_.configured) return down();
    const RouteConfig& route = c.route;
    if (route.net.type() == NetType::kLo) return {-EACCES, "setting @lo not allowed"};
    if (net_find(route.net) != nullptr) {
      if (from_file) return {};  // docs/decisions.md #73: the route is for other nodes
      return {-EEXIST, fmt::format("Route already exists or the specified network is local: this node is on {}",
                                   net_text(route.net))};
    }
    if (net_find(route.gateway.net()) == nullptr) {
      return {
          -EHOSTUNREACH,
          fmt::format("No interface configured on the same net as gateway: add an NI on {} before the route through {}",
                      net_text(route.gateway.net()), nid_text(route.gateway))};
    }
    if (route_find(route.net, route.gateway) != s_.routes.end()) {
      return {-EEXIST, fmt::format("Route already exists or the specified network is local: {} through {}{}",
                                   net_text(route.net), nid_text(route.gateway), other_settings())};
    }
    s_.routes.push_back(route);
    return {};
  }

  Wrong operator()(const RouteDel& c) {
    if (!s_.configured) return down();
    auto found = route_find(c.net, c.gateway);
    if (found == s_.routes.end()) {
      if (from_file && net_find(c.net) != nullptr) return {};
      return {-ENOENT, fmt::format("failed to delete route: there is none to {} through {}", net_text(c.net),
                                   nid_text(c.gateway))};
    }
    s_.routes.erase(found);
    return {};
  }

  Wrong operator()(const PeerAdd& c) {
    if (!s_.configured) return down();
    PeerConfig* peer = peer_find(c.peer.primary);
    if (auto wrong = nids_taken(c, peer); wrong.code != 0) return wrong;
    const PeerConfig* owner = peer_of_nid(c.peer.primary);
    if (peer == nullptr && owner != nullptr) {
      return {-EEXIST, fmt::format("failed to add primary peer: {} belongs to peer {}", nid_text(c.peer.primary),
                                   nid_text(owner->primary))};
    }
    if (peer != nullptr && peer->multi_rail != c.peer.multi_rail) {
      return {-EPERM,
              "failed to add primary peer: Multi-Rail of a configured peer cannot be changed; delete the peer first"};
    }
    PeerConfig merged =
        peer != nullptr ? *peer : PeerConfig{.primary = c.peer.primary, .multi_rail = c.peer.multi_rail};
    merged.lock_primary = merged.lock_primary || c.peer.lock_primary;
    std::unordered_set<Nid, NidHash> known(merged.nids.begin(), merged.nids.end());
    if (c.refresh) {
      merged.nids.clear();
      known.clear();
    }
    for (const Nid& nid : c.peer.nids)
      if (nid != merged.primary && known.insert(nid).second) merged.nids.push_back(nid);
    if (auto wrong = one_nid_per_net(merged); wrong.code != 0) return wrong;
    if (peer != nullptr)
      for (const Nid& nid : peer->nids) peer_index_.erase(nid);
    if (peer == nullptr) peer = &s_.peers.emplace_back();
    *peer = std::move(merged);
    peer_index(static_cast<size_t>(peer - s_.peers.data()));
    return {};
  }

  Wrong operator()(const PeerDel& c) {
    if (!s_.configured) return down();
    PeerConfig* peer = peer_of_nid(c.primary);
    if (peer == nullptr) return {};  // the peer may have been discovered: the running node decides
    if (peer->primary != c.primary)
      return {-ENOENT, fmt::format("failed to del primary peer: {} is a NID of peer {}, not its primary NID",
                                   nid_text(c.primary), nid_text(peer->primary))};
    bool whole = c.nids.empty() || std::find(c.nids.begin(), c.nids.end(), c.primary) != c.nids.end();
    if (whole) {
      if (peer->lock_primary && !c.force) {
        return {-EPERM, fmt::format("failed to del primary peer: {} is locked; use --force", nid_text(c.primary))};
      }
      peer_index_.erase(peer->primary);
      for (const Nid& nid : peer->nids) peer_index_.erase(nid);
      *peer = PeerConfig{};  // taken out of the list in finish()
      return {};
    }
    for (size_t i = 0; i < c.nids.size(); ++i) {
      const Nid& nid = c.nids[i];
      if (std::erase(peer->nids, nid) == 0) {
        return {-ENOENT, fmt::format("failed to del peer: {} is not a NID of {} (index {} of the NIDs)", nid_text(nid),
                                     nid_text(c.primary), i)};
      }
      peer_index_.erase(nid);
    }
    return {};
  }

  Wrong operator()(const PeerSet&) { return s_.configured ? Wrong{} : down(); }

  Wrong operator()(const SetValue& c) {
    const Field* field = field_find("global." + c.name);
    if (field == nullptr) return {-EINVAL, fmt::format("cannot configure {}: there is no such setting", c.name)};
    Slots slots;
    slots.global = s_.global;
    Doc value = c.name == "discovery" && c.value == 2 ? Doc("verify") : Doc(c.value);
    std::string wrong = field_assign(*field, value, slots);
    if (!wrong.empty())
      return {-ERANGE,
              fmt::format("cannot configure {}: {} {}; allowed: {}", c.name, c.value, wrong, field_allowed(*field))};
    if (slots.global.max_interfaces < 16) slots.global.max_interfaces = 4096;
    if (c.name == "retry_count") retry_count_set = c.value > 0;
    s_.global = slots.global;
    return {};
  }

  Wrong operator()(const SetRouting& c) {
    if (!s_.configured) return down();
    s_.routing.enable = c.enable;
    return {};
  }
  Wrong operator()(const SetBuffers& c) {
    if (!s_.configured) return down();
    s_.buffers.tiny = c.tiny.value_or(s_.buffers.tiny);
    s_.buffers.small = c.small.value_or(s_.buffers.small);
    s_.buffers.large = c.large.value_or(s_.buffers.large);
    return {};
  }

  Wrong operator()(const UdspAdd& c) { return wrong_of(udsp_.add(c.rule, from_file)); }
  Wrong operator()(const UdspDel& c) { return wrong_of(udsp_.del(c)); }

  Wrong operator()(const UlnetSet& c) {
    const Field* field = field_find("ulnet." + c.key);
    if (field == nullptr || !field_has_value(*field))
      return {-EINVAL, fmt::format("cannot configure {}: there is no such key", c.key)};
    if (c.key == "devices") {
      if (const auto devices = devices_of(c.value); !devices)
        return {-EINVAL, fmt::format("cannot configure {}", devices.error())};
    }
    Slots slots;
    slots.ulnet = s_.ulnet;
    std::string wrong = field_assign(*field, c.value, slots);
    if (!wrong.empty()) {
      return {-EINVAL, fmt::format("cannot configure {}: '{}' {}; allowed: {}", c.key, c.value.text(), wrong,
                                   field_allowed(*field))};
    }
    s_.ulnet = std::move(slots.ulnet);
    return {};
  }

  /// Rules between settings, checked when the whole list has been applied.
  Wrong finish() {
    udsp_.store();
    std::erase_if(s_.peers, [](const PeerConfig& peer) { return peer.primary.is_any(); });
    Global& g = s_.global;
    if (g.health_sensitivity == 0 && g.retry_count > 0) {
      if (retry_count_set) return {-EINVAL, "cannot configure retry_count: it must be 0 while health_sensitivity is 0"};
      g.retry_count = 0;
    }
    if (g.transaction_timeout.count() <= g.retry_count) {
      return {-EINVAL, fmt::format("cannot configure transaction_timeout: {} must be more than retry_count {}",
                                   g.transaction_timeout.count(), g.retry_count)};
    }
    return {};
  }

 private:
  static Wrong down() { return {-ENETDOWN, "Network is down: LNet is not configured; run 'lnet configure' first"}; }
  static Wrong wrong_of(const Checked<void>& done) {
    return done ? Wrong{} : Wrong{done.error().code, done.error().what};
  }
  [[nodiscard]] const char* other_settings() const {
    return from_file ? ", with other settings; delete it first, or change it with a command" : "";
  }
  static std::string ni_name(const NiConfig& ni) { return ni.nid ? nid_text(*ni.nid) : ni.interface; }

  NetConfig* net_find(Net net) {
    auto found = std::find_if(s_.nets.begin(), s_.nets.end(), [&](const NetConfig& one) { return one.net == net; });
    return found == s_.nets.end() ? nullptr : &*found;
  }
  std::vector<RouteConfig>::iterator route_find(Net net, const Nid& gateway) {
    return std::find_if(s_.routes.begin(), s_.routes.end(),
                        [&](const RouteConfig& one) { return one.net == net && one.gateway == gateway; });
  }
  /// The peer with this primary NID, or nullptr.
  PeerConfig* peer_find(const Nid& primary) {
    PeerConfig* peer = peer_of_nid(primary);
    return peer != nullptr && peer->primary == primary ? peer : nullptr;
  }
  /// The peer that has this NID, or nullptr.
  PeerConfig* peer_of_nid(const Nid& nid) {
    auto found = peer_index_.find(nid);
    return found == peer_index_.end() ? nullptr : &s_.peers[found->second];
  }
  void peer_index(size_t position) {
    peer_index_[s_.peers[position].primary] = position;
    for (const Nid& nid : s_.peers[position].nids) peer_index_[nid] = position;
  }
  /// A NID belongs to one peer, and is listed once.
  [[nodiscard]] Wrong nids_taken(const PeerAdd& c, const PeerConfig* peer) {
    const std::vector<Nid>& nids = c.peer.nids;
    const auto written = [&](size_t i) {  // index in the list as the user wrote it
      return c.primary_at && static_cast<int64_t>(i) >= *c.primary_at ? i + 1 : i;
    };
    std::unordered_map<Nid, size_t, NidHash> seen;
    for (size_t i = 0; i < nids.size(); ++i) {
      const PeerConfig* owner = peer_of_nid(nids[i]);
      if (owner != nullptr && owner != peer) {
        return {-EEXIST, fmt::format("failed to add peer: {} belongs to peer {} (index {} of the NIDs)",
                                     nid_text(nids[i]), nid_text(owner->primary), written(i))};
      }
      if (const auto [first, fresh] = seen.emplace(nids[i], i); !fresh) {
        return {-EEXIST, fmt::format("failed to add peer: {} is listed twice (index {} and {} of the NIDs)",
                                     nid_text(nids[i]), written(first->second), written(i))};
      }
    }
    return {};
  }
  static Wrong one_nid_per_net(const PeerConfig& peer) {
    if (peer.multi_rail) return {};
    std::vector<Net> nets{peer.primary.net()};
    for (const Nid& nid : peer.nids) {
      if (std::find(nets.begin(), nets.end(), nid.net()) != nets.end()) {
        return {-ENOTUNIQ,
                fmt::format("failed to add peer: {} is a second NID on its net, and the peer is not Multi-Rail",
                            nid_text(nid))};
      }
      nets.push_back(nid.net());
    }
    return {};
  }

  DesiredState& s_;
  UdspRules udsp_;
  std::unordered_map<Nid, size_t, NidHash>
      peer_index_;  // every NID of every peer to the peer's place; deleted peers are ANY
};

}  // namespace

Problems changes_apply(DesiredState& state, const ChangeList& changes, std::vector<std::string>* notes) {
  DesiredState next = state;
  Applier applier(next, notes);
  Problems errors;
  bool down = false;  // reported once, however many changes need LNet
  for (size_t i = 0; i < changes.size(); ++i) {
    applier.from_file = !changes[i].origin.file.empty();
    Applier::Wrong wrong = std::visit(applier, changes[i].change);
    const bool down_again = wrong.code == -ENETDOWN && std::exchange(down, true);
    if (wrong.code != 0 && !down_again) errors.push_back(problem_of(wrong.code, std::move(wrong.what), i));
  }
  if (errors.empty() && !changes.empty()) {
    Applier::Wrong wrong = applier.finish();
    if (wrong.code != 0) errors.push_back(problem_of(wrong.code, std::move(wrong.what), changes.size() - 1));
  }
  if (errors.empty()) state = std::move(next);
  return errors;
}

bool net_set_means(const NetSet& change, const Nid& ni) {
  return change.all || change.nid == ni;
}

bool net_set_tune(const NetSet& change, const Nid& ni, std::map<std::string, int64_t>& lnd_tunables) {
  bool tuned = false;
  for (const auto& [key, number] : change.lnd_tunables) {
    const DriverField* row = ni_row_find(ni.net().type(), key);
    if (row == nullptr) continue;
    const bool all_of_driver = row->transmit_timeout && change.net;
    if (all_of_driver ? change.net->type() != ni.net().type() : !net_set_means(change, ni)) continue;
    lnd_tunables[key] = number;
    tuned = true;
  }
  return tuned;
}

DesiredState state_of(const ChangeList& changes, Problems& errors) {
  DesiredState state;
  state.configured = true;
  for (Problem& error : changes_apply(state, changes)) errors.push_back(placed(changes, std::move(error)));
  return state;
}

}  // namespace ulnet::config
