// Part of Applier: NIs whose interface or address is not there. Such NIs wait for it, and so do the routes over them.
// When the machine reports a change of its interfaces, the waiting NIs are tried again.
#include <fmt/format.h>

#include <algorithm>

#include "control/apply/applier.h"
#include "control/turn.h"
#include "dataplane/base/nid_text.h"

namespace ulnet {
namespace {

/// Time between two tries without a report of the machine: an address may be there and not usable yet.
constexpr Duration kRetryWaiting = 5s;

std::string name_of(Net net, const config::NiConfig& ni) {
  return ni.nid ? nid_text(*ni.nid) : fmt::format("the NI of {} on {}", net_text(net), ni.interface);
}

bool is_missing(const config::Problem& error) {
  return error.code == -ENETDOWN || error.code == -EADDRNOTAVAIL || error.code == -ENODEV;
}

}  // namespace

bool Applier::waits(Job& job, const config::NetAdd& change, const config::Problem& error) {
  if (!wait_for_devices_ || !is_missing(error) || c_.deps.devices == nullptr) return false;
  if (c_.nis->size() + c_.nis->waiting().size() >= kNisMax) return false;
  c_.nis->waiting().push_back({change.net, change.ni, error.what});
  job.undo.push_back([this, net = change.net, ni = change.ni] {
    (void)stop_waiting(net, ni.interface, ni.nid);
    return true;
  });
  retry_waiting_at_ = now_ + kRetryWaiting;
  note(job, fmt::format("{} waits: {}; the NI is added when this changes", name_of(change.net, change.ni), error.what));
  return true;
}

bool Applier::waits(const config::RouteConfig& route) const {
  const auto& waiting = c_.nis->waiting();
  return std::any_of(waiting.begin(), waiting.end(),
                     [&](const WaitingNi& one) { return one.net == route.gateway.net(); });
}

std::vector<WaitingNi> Applier::stop_waiting(Net net, const std::string& interface, const std::optional<Nid>& nid) {
  std::vector<WaitingNi> gone;
  std::erase_if(c_.nis->waiting(), [&](const WaitingNi& one) {
    const bool meant =
        one.net == net && (interface.empty() || one.config.interface == interface) && (!nid || one.config.nid == nid);
    if (meant) gone.push_back(one);
    return meant;
  });
  return gone;
}

unsigned Applier::retry_waiting() {
  auto& waiting = c_.nis->waiting();
  if (waiting.empty() || !jobs_.empty()) return 0;
  if (!c_.deps.devices->changed() && now_ < retry_waiting_at_) return 0;
  retry_waiting_at_ = now_ + kRetryWaiting;
  unsigned done = 0;
  for (size_t i = 0; i < waiting.size();) {
    auto added = ni_add(waiting[i].net, waiting[i].config, c_.desired);
    if (!added) {
      if (waiting[i].why != added.error().what)
        c_.log(fmt::format("{} waits: {}", name_of(waiting[i].net, waiting[i].config), added.error().what));
      waiting[i].why = added.error().what;
      ++i;
      continue;
    }
    c_.events->ni(**added, fmt::format("added on {}, which is there now", (*added)->params.interface));
    waiting.erase(waiting.begin() + std::ptrdiff_t(i));
    ++done;
  }
  if (done == 0) return 0;
  name_nis();
  for (const config::RouteConfig& route : c_.desired.routes) {
    if (!c_.routes->has(route.net, route.gateway)) (void)c_.routes->add(route);
  }
  c_.dirty.node = true;
  return done;
}

}  // namespace ulnet
