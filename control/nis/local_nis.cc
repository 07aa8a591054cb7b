#include "control/nis/local_nis.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/schema.h"
#include "dataplane/base/check.h"
#include "dataplane/base/nid_text.h"

namespace ulnet {

config::Checked<Devices::Interface> LocalNis::find_address(const config::NiConfig& config, Net net, Nid& nid) const {
  Devices::Interface none;
  if (config.nid && config.nid->net() != net) {
    return config::fail(EINVAL, fmt::format("{} is not on {}", nid_text(*config.nid), net_text(net)));
  }
  if (deps_.devices == nullptr) {
    if (!config.nid) return config::fail(ENODEV, "this node has no list of interfaces; name the NI by its NID");
    nid = *config.nid;
    return none;
  }
  if (config.interface.empty()) {
    if (!config.nid) return config::fail(EINVAL, "creating a local NI needs at least one interface");
    nid = *config.nid;
    auto found = deps_.devices->find_address(nid);
    // Without its own record in the table the address may still be there: the driver says so when it binds.
    return found ? config::Checked<Devices::Interface>(*found) : config::Checked<Devices::Interface>(none);
  }
  auto found = deps_.devices->find(config.interface, net.type());
  if (!found && found.error().code != -ENODEV) return config::fail(-found.error().code, found.error().what);
  if (!found) return config::fail(ENETDOWN, fmt::format("there is no interface {}", config.interface));
  if (config.nid) {
    nid = *config.nid;
    const bool has = std::any_of(found->addresses.begin(), found->addresses.end(),
                                 [&](const Nid& one) { return one.size == nid.size && one.addr == nid.addr; });
    if (!has) return config::fail(EADDRNOTAVAIL, fmt::format("{} has no address {}", config.interface, nid_text(nid)));
    return *found;
  }
  if (found->addresses.empty() || !found->addresses.front().fits_u64()) {
    return config::fail(EADDRNOTAVAIL,
                        fmt::format("{} has no IPv4 address; name another address of it with --nid", config.interface));
  }
  nid = Nid::v4(net, found->addresses.front().address_v4());
  return *found;
}

config::Checked<std::vector<WorkerId>> LocalNis::find_workers(const config::NiConfig& config, uint32_t numa) const {
  const WorkerGroups& groups = deps_.groups;
  for (uint16_t cpt : config.cpts) {
    if (cpt >= groups.count()) {
      return config::fail(
          ERANGE, fmt::format("invalid CPT value {}: this node has worker groups 0..{}", cpt, groups.count() - 1));
    }
  }
  std::vector<WorkerId> all, chosen;
  for (uint16_t w = 0; w < worker_count(); ++w) {
    const WorkerId worker{w};
    all.push_back(worker);
    if (!config.cpts.empty()) {
      if (std::find(config.cpts.begin(), config.cpts.end(), groups.group(worker)) != config.cpts.end())
        chosen.push_back(worker);
    } else if (numa != UINT32_MAX && w < groups.numa_of.size() && groups.numa_of[w] == numa) {
      chosen.push_back(worker);
    }
  }
  if (!config.cpts.empty() && chosen.empty())
    return config::fail(ERANGE, "invalid CPT set: no worker is in these groups");
  return chosen.empty() ? all : chosen;
}

// Each worker gets a share, also those that serve no peer of this NI: any of them may answer a loop back to itself.
void LocalNis::give_slices(LocalNi& ni) const {
  const int32_t sharers = int32_t(ni.workers.size());
  const int32_t share = std::min(ni.params.credits, std::max(ni.params.credits / sharers, 8 * ni.params.peer_credits));
  for (unsigned worker = 0; worker < worker_count(); ++worker) {
    WorkerMemory* near = worker < deps_.near.size() ? deps_.near[worker] : nullptr;
    Near<NiSlice> slice(near_new<NiSlice>(near, ni.id, ni.slot, std::max(share, 1), uint8_t(ni.lnd)), {near});
    ni.slices.push_back(std::move(slice));
    ni.params.slices.push_back(ni.slices.back().get());
  }
}

void LocalNis::take_tunables(LocalNi& ni, std::vector<int64_t> tunables) const {
  ni.params.tunables = std::move(tunables);
  const auto rows = deps_.types[ni.lnd]->ni_tunables;
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i].transmit_timeout) ni.transmit_timeout = std::chrono::seconds(ni.params.tunables[i]);
}

std::map<std::string, int64_t> LocalNis::tunables_in_force(const LocalNi& ni) const {
  auto shown = ni.config.lnd_tunables;
  const auto rows = deps_.types[ni.lnd]->ni_tunables;
  const auto chosen = deps_.lnds[ni.lnd]->ni_tunables(ni.id);
  const auto& values = chosen.empty() ? ni.params.tunables : chosen;
  for (size_t i = 0; i < std::min(rows.size(), values.size()); ++i)
    shown[std::string(config::field_name(rows[i].path))] = values[i];
  return shown;
}

config::Checked<LocalNi*> LocalNis::add(Net net, const config::NiConfig& config, int64_t interfaces_max,
                                        const NiDefaults& defaults, Instant now) {
  const auto type = std::find_if(deps_.types.begin(), deps_.types.end(),
                                 [&](const DriverType* one) { return one->net_type == net.type(); });
  if (type == deps_.types.end() || net.type() == NetType::kLo) {
    return config::fail(EINVAL, fmt::format("this node has no driver for {}", net_text(net)));
  }
  LocalNi ni;
  auto device = find_address(config, net, ni.nid);
  if (!device) return tl::unexpected(device.error());
  if (LocalNi* other = find(ni.nid)) {
    if (other->going()) {
      return config::fail(
          EBUSY, fmt::format("{} is still being deleted ({}); try again", nid_text(ni.nid), in_use(*other, {}, now)));
    }
    return config::fail(EEXIST, fmt::format("{} already exists", nid_text(ni.nid)));
  }
  if (nis_.size() >= kNisMax || int64_t(nis_.size()) >= interfaces_max) {
    return config::fail(ENOSPC, "too many NIs, check lnet_interfaces_max");
  }
  auto workers = find_workers(config, device->numa_node);
  if (!workers) return tl::unexpected(workers.error());

  ni.id = NiId{next_id_};
  do ni.slot = uint16_t(next_slot_++ % kNisMax);
  while (std::any_of(nis_.begin(), nis_.end(), [&](const LocalNi* one) { return one->slot == ni.slot; }));
  ni.net = net;
  ni.lnd = unsigned(type - deps_.types.begin());
  ni.config = config;
  ni.workers = std::move(*workers);
  ni.device_numa = device->numa_node;
  ni.speed = device->speed;
  ni.by_interface = !config.interface.empty() && !device->addresses.empty() && device->addresses.front().fits_u64() &&
                    Nid::v4(net, device->addresses.front().address_v4()) == ni.nid;
  ni.fatal = !device->link_up;
  NiParams& params = ni.params;
  params.id = ni.id;
  params.nid = ni.nid;
  params.interface = config.interface.empty() ? device->name : config.interface;
  params.peer_timeout = int32_t(config.tunables.peer_timeout.count());
  params.peer_credits = int32_t(config.tunables.peer_credits);
  params.peer_buffer_credits = int32_t(config.tunables.peer_buffer_credits);
  params.credits = int32_t(config.tunables.credits);
  params.device_mbps = ni.speed.mbps;
  take_tunables(
      ni, config::ni_values((*type)->ni_tunables, config.lnd_tunables, defaults.driver, defaults.transmit_timeout));
  give_slices(ni);
  if (auto started = deps_.lnds[ni.lnd]->ni_start(params, now); !started) {
    return config::fail(started.error().code, fmt::format("{}: {}", nid_text(ni.nid), started.error().what));
  }
  const bool any_memory = deps_.lnds[ni.lnd]->sends_any_memory(params.id);
  for (const auto& slice : ni.slices) slice->any_memory = any_memory;
  ++next_id_;
  nids_sequence_ = ++sequence_;
  auto place = std::find_if(nets_.begin(), nets_.end(), [&](const LocalNet& one) { return one.net == net; });
  if (place == nets_.end()) place = nets_.insert(nets_.end(), LocalNet{net, {}});
  place->nis.push_back(std::move(ni));
  LocalNi& added = place->nis.back();
  list_all();
  return &added;
}

config::Checked<void> LocalNis::tune(LocalNi& ni, const std::map<std::string, int64_t>& lnd_tunables,
                                     const NiDefaults& defaults, Instant now) {
  auto wanted =
      config::ni_values(deps_.types[ni.lnd]->ni_tunables, lnd_tunables, defaults.driver, defaults.transmit_timeout);
  if (wanted != ni.params.tunables) {
    if (auto tuned = deps_.lnds[ni.lnd]->ni_tune(ni.id, wanted, now); !tuned) {
      return config::fail(tuned.error().code, fmt::format("{}: {}", nid_text(ni.nid), tuned.error().what));
    }
  }
  take_tunables(ni, std::move(wanted));
  ni.config.lnd_tunables = lnd_tunables;
  return {};
}

uint64_t LocalNi::sending() const {
  int64_t count = 0;
  for (const auto& slice : slices) count += slice->tx_count.get();
  return uint64_t(std::max<int64_t>(count, 0));
}

uint64_t LocalNi::receiving() const {
  int64_t count = 0;
  for (const auto& slice : slices) count += slice->rx_count.get();
  return uint64_t(std::max<int64_t>(count, 0));
}

uint64_t LocalNi::counted(NiTraffic which) const {
  uint64_t count = 0;
  for (const auto& slice : slices)
    for (const Counter& one : slice->counters[which]) count += one.get();
  return count;
}

uint64_t LocalNi::messages() const {
  return counted(NiTraffic::kSent) + counted(NiTraffic::kReceived);
}

void LocalNis::leave(LocalNi& ni, Instant now) {
  if (ni.going()) return;
  ni.leaving = true;
  ni.leave_deadline = now + kNiLeaveMax;
  ni.messages_seen = ni.messages();
  ni.idle_since = ni.messages_seen == 0 ? kNever : now;
  look_.set(now);
  nids_sequence_ = ++sequence_;
}

void LocalNis::stay(LocalNi& ni) {
  ULNET_CHECK(!ni.closing);
  if (!ni.leaving) return;
  ni.leaving = false;
  ni.leave_deadline = kForever;
  nids_sequence_ = ++sequence_;
}

std::vector<std::pair<Net, Nid>> LocalNis::order() const {
  std::vector<std::pair<Net, Nid>> order;
  for (const LocalNet& net : nets_)
    for (const LocalNi& ni : net.nis) order.emplace_back(net.net, ni.nid);
  return order;
}

void LocalNis::reorder(const std::vector<std::pair<Net, Nid>>& before) {
  if (order() == before) return;
  const auto place_of_net = [&](const LocalNet& net) {
    return std::find_if(before.begin(), before.end(), [&](const auto& one) { return one.first == net.net; });
  };
  const auto place_of_ni = [&](const LocalNi& ni) {
    return std::find_if(before.begin(), before.end(), [&](const auto& one) { return one.second == ni.nid; });
  };
  nets_.sort([&](const LocalNet& a, const LocalNet& b) { return place_of_net(a) < place_of_net(b); });
  for (LocalNet& net : nets_)
    net.nis.sort([&](const LocalNi& a, const LocalNi& b) { return place_of_ni(a) < place_of_ni(b); });
  list_all();
  nids_sequence_ = ++sequence_;
}

void LocalNis::list_all() {
  nis_.clear();
  for (LocalNet& net : nets_)
    for (LocalNi& ni : net.nis) nis_.push_back(&ni);
}

void LocalNis::remove(LocalNi& ni, Instant now) {
  if (ni.closing) return;
  if (!ni.leaving) nids_sequence_ = ++sequence_;
  ni.closing = true;
  ni.undrained = worker_count();
  ni.drain_deadline = now + kNiDrainMax;
}

std::string LocalNis::in_use(const LocalNi& ni, const Untold& untold, Instant now) const {
  if (!ni.going()) return {};
  const auto ms = [](Duration time) { return std::chrono::duration_cast<std::chrono::milliseconds>(time).count(); };
  const auto counted = [](uint64_t count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  std::vector<std::string> uses;
  if (!ni.closing && untold.count > 0) {
    uses.push_back(fmt::format("{} {} not acknowledged its deletion ({}{})", untold.count,
                               untold.count == 1 ? "peer has" : "peers have", nid_text(untold.first),
                               untold.count == 1 ? "" : " first"));
  }
  if (!ni.closing && now < ni.idle_since + kNiLeaveIdle)
    uses.push_back(fmt::format("last used {} ms ago, to be idle for {} ms", ms(now - ni.idle_since), ms(kNiLeaveIdle)));
  if (const uint64_t count = ni.sending(); count > 0) uses.push_back(counted(count, "message") + " being sent");
  if (const uint64_t count = ni.receiving(); count > 0)
    uses.push_back(counted(count, "message") + " coming in or held");
  const unsigned connections = ni.closing ? deps_.lnds[ni.lnd]->ni_connections(ni.id) : 0;
  if (connections > 0) uses.push_back(counted(connections, "connection"));
  std::string line = uses.empty() ? "no longer in use" : "in use: " + fmt::format("{}", fmt::join(uses, ", "));
  if (!ni.closing) return line + fmt::format("; the NI keeps serving for at most {} ms", ms(ni.leave_deadline - now));
  if (!ni.stop_sent) return line + fmt::format("; the NI closes in at most {} ms", ms(ni.drain_deadline - now));
  return line + "; its connections are being closed";
}

bool LocalNis::closing_now() const {
  return std::any_of(nis_.begin(), nis_.end(), [](const LocalNi* ni) { return ni->closing && !ni->close_sent; });
}

void LocalNis::published() {
  for (LocalNi* ni : nis_) {
    if (!ni->closing || ni->close_sent) continue;
    ni->close_sent = true;
    drain_.set_by(ni->drain_deadline);
    for (uint16_t worker = 0; worker < worker_count(); ++worker)
      deps_.outbox.send(WorkerId{worker}, NiCloseMsg{ni->slices[worker].get()});
  }
}

bool LocalNis::is_idle(LocalNi& ni, Instant now) {
  const uint64_t messages = ni.messages();
  if (messages != ni.messages_seen) ni.idle_since = now;
  ni.messages_seen = messages;
  return now >= ni.idle_since + kNiLeaveIdle;
}

bool LocalNis::turn(Instant now, const std::function<bool()>& told) {
  const bool look = look_.due(now);
  if (look) look_.stop();
  drain_.stop();
  bool changed = false;
  for (size_t i = 0; i < nis_.size();) {
    LocalNi& ni = *nis_[i];
    if (look && ni.leaving && !ni.closing) {
      if ((is_idle(ni, now) && told()) || now >= ni.leave_deadline) {
        remove(ni, now);
        changed = true;
      } else {
        look_.set(now + kNiLeaveLook);
      }
    }
    if (ni.close_sent && !ni.stop_sent && (ni.undrained == 0 || now >= ni.drain_deadline)) {
      ni.stop_sent = true;
      ni.drain_deadline = kForever;
      deps_.lnds[ni.lnd]->ni_stop(ni.id, now);
    }
    if (ni.close_sent && !ni.stop_sent) drain_.set_by(ni.drain_deadline);
    if (ni.closing && ni.stopped && ni.undrained == 0) {
      erase(ni);
      changed = true;
    } else {
      ++i;
    }
  }
  return changed;
}

// Views that name the NI may still be in use, so its slices outlive it.
void LocalNis::erase(LocalNi& ni) {
  ULNET_CHECK(ni.closing && ni.stopped && ni.undrained == 0);
  for (auto& slice : ni.slices) deps_.publisher.bury(std::move(slice));
  std::erase(nis_, &ni);
  const auto net = std::find_if(nets_.begin(), nets_.end(), [&](const LocalNet& one) { return one.net == ni.net; });
  net->nis.remove_if([&](const LocalNi& one) { return &one == &ni; });
  if (net->nis.empty()) nets_.erase(net);
}

void LocalNis::drained(const NiSlice& slice) {
  LocalNi* ni = find(slice.id);
  if (ni == nullptr) return;
  ULNET_CHECK(ni->closing && ni->undrained > 0);  // each worker answers once
  --ni->undrained;
}

void LocalNis::stopped(NiId id) {
  if (LocalNi* ni = find(id)) ni->stopped = true;
}

LocalNi* LocalNis::find(NiId id) {
  const auto found = std::find_if(nis_.begin(), nis_.end(), [&](const LocalNi* ni) { return ni->id == id; });
  return found == nis_.end() ? nullptr : *found;
}

LocalNi* LocalNis::find(const Nid& nid) {
  const auto found = std::find_if(nis_.begin(), nis_.end(), [&](const LocalNi* ni) { return ni->nid == nid; });
  return found == nis_.end() ? nullptr : *found;
}

std::vector<LocalNi*> LocalNis::on_net(Net net) {
  std::vector<LocalNi*> found;
  for (LocalNet& one : nets_) {
    if (one.net != net) continue;
    for (LocalNi& ni : one.nis)
      if (!ni.going()) found.push_back(&ni);
  }
  return found;
}

LocalNi* LocalNis::primary() {
  for (LocalNet& net : nets_)
    for (LocalNi& ni : net.nis)
      if (!ni.going()) return &ni;
  return nullptr;
}

}  // namespace ulnet
