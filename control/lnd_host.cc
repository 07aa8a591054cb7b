#include "control/lnd_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "control/health/cut_off.h"
#include "control/health/health.h"
#include "control/turn.h"

namespace ulnet {

void LndHost::to_worker(WorkerId worker, const LndMsg& msg) {
  LndMsg numbered = msg;
  numbered.lnd = lnd_;
  c_.outbox->send(worker, numbered);
}

namespace {

/// As many peers as connect: memory that ends is an error for the one that comes last.
template <class Place>
Result<PeerPlace> placed(const Place& place) {
  try {
    const Result<PeerNi*> peer = place();
    if (!peer) return tl::unexpected(peer.error());
    return PeerPlace{(*peer)->id, (*peer)->server, &(*peer)->blocks->slice};
  } catch (const std::bad_alloc&) {
    return fail(ENOMEM, "there is no memory for another peer: delete some");
  }
}

}  // namespace

Result<PeerPlace> LndHost::place_peer(const Nid& nid, NiId from) {
  const LocalNi* ni = c_.nis->find(from);
  return placed([&] { return c_.peers->place(nid, ni == nullptr ? kAnyNid : ni->nid); });
}

Result<PeerPlace> LndHost::place_stranger(const Nid& nid, NiId from, const Stranger& stranger) {
  const LocalNi* ni = c_.nis->find(from);
  return placed([&] { return c_.peers->place_stranger(nid, ni == nullptr ? kAnyNid : ni->nid, stranger); });
}

void LndHost::ni_stopped(NiId ni) {
  if (ni == kLoNi)
    c_.lo_stopped = true;
  else
    c_.nis->stopped(ni);
}

// A router says so without a new sequence number (docs/wire/lnet.md §4.5).
void LndHost::ni_fatal(NiId id, bool fatal) {
  LocalNi* ni = c_.nis->find(id);
  if (ni == nullptr || ni->fatal == fatal) return;
  ni->fatal = fatal;
  c_.health->link_changed(*ni, c_.now);
  c_.cut_off->link_changed();
  if (!c_.routing->advertised()) c_.nis->bump_sequence();
  nis_changed(c_);
  const bool listed = !ni->params.interface.empty() && c_.deps.devices != nullptr;
  const bool gone = fatal && listed && !c_.deps.devices->find_address(ni->nid);
  c_.events->ni(*ni, gone ? "its address is gone" : fatal ? "link down" : "link up");
}

// If the best speed of a device is unknown, it is the highest at which the link ran (docs/decisions.md #16).
void LndHost::ni_speed(NiId id, LinkSpeed speed) {
  LocalNi* ni = c_.nis->find(id);
  if (ni == nullptr) return;
  speed.best_mbps = std::max({speed.best_mbps, speed.mbps, ni->speed.best_mbps});
  if (ni->speed == speed) return;
  ni->speed = speed;
  c_.events->ni(*ni, [&] { return fmt::format("its link runs at {} of {} Mbit/s", speed.mbps, speed.best_mbps); });
}

void LndHost::peer_up(PeerNiId id) {
  PeerNi* ni = c_.peers->find(id);
  if (ni == nullptr) return;
  c_.peers->alive(*ni);
  c_.router_checker->hurry(*ni, true);
  c_.events->peer_ni(*ni, "can be reached again");
}

void LndHost::peer_down(PeerNiId id, int error) {
  PeerNi* ni = c_.peers->find(id);
  if (ni == nullptr) return;
  c_.peers->dead(*ni, c_.now, error < 0 ? error : -error);
  c_.router_checker->hurry(*ni, false);
  c_.events->peer_ni(*ni, [&] { return fmt::format("cannot be reached: {}", std::strerror(std::abs(error))); });
}

}  // namespace ulnet
