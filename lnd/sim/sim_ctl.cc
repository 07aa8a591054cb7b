// Control half of the sim LND (sim_ctl.h).
#include "lnd/sim/sim_ctl.h"

#include <algorithm>

namespace ulnet::sim {

SimControl::SimControl(Fabric& fabric, LndControlHost& host, uint32_t node, NetType type)
    : fabric_(fabric), host_(host), node_(node), type_(type) {
  fabric_.join(*this);
}

SimControl::~SimControl() {
  for (auto& [key, peer] : peers_)
    if (peer.attempt != 0) fabric_.attempt_end(peer.attempt);
  fabric_.leave(*this);
}

Result<void> SimControl::ni_start(const NiParams& params, Instant now) {
  fabric_.see(now);
  if (params.nid.net().type() != type_) return fail(EINVAL, "this sim LND serves another net type");
  if (auto listening = fabric_.listen(params.nid, *this); !listening) return listening;
  nis_.insert_or_assign(params.id, params);
  if (fabric_.is_down(params.nid)) {
    mail(now, {.kind = ControlMail::Kind::kLinkState, .from = params.nid, .to = params.nid});
  }
  return {};
}

void SimControl::ni_stop(NiId ni, Instant now) {
  fabric_.see(now);
  const auto found = nis_.find(ni);
  if (found == nis_.end()) return;
  fabric_.unlisten(found->second.nid);
  for (auto& [key, peer] : peers_)
    if (key.first == ni && peer.attempt != 0) fabric_.attempt_end(peer.attempt);
  std::erase_if(peers_, [&](const auto& entry) { return entry.first.first == ni; });
  nis_.erase(found);
  const unsigned workers = host_.worker_count();
  stopping_[ni] = workers;
  for (unsigned worker = 0; worker < workers; ++worker) host_.to_worker(WorkerId{uint16_t(worker)}, StopMsg{ni});
}

Result<void> SimControl::ni_tune(NiId ni, std::span<const int64_t> tunables, Instant) {
  const auto found = nis_.find(ni);
  if (found == nis_.end()) return fail(ENOENT, "no such NI is running", ni.value);
  if (sim_tunables(tunables).conns_per_peer != sim_tunables(found->second.tunables).conns_per_peer)
    return fail(EOPNOTSUPP, "the sim LND has one connection to each peer", ni.value);
  found->second.tunables.assign(tunables.begin(), tunables.end());
  return {};
}

std::vector<int64_t> SimControl::ni_tunables(NiId ni) const {
  const auto found = nis_.find(ni);
  if (found == nis_.end()) return {};
  SimTunables in_force = sim_tunables(found->second.tunables);
  if (in_force.conns_per_peer == 0) in_force.conns_per_peer = 1;
  return sim_tunable_numbers(in_force);
}

Result<void> SimControl::region_add(RegionId region, std::span<std::byte> memory) {
  if (fabric_.refuse_region && fabric_.refuse_region(memory))
    return fail(ENOMEM, "the device has no room for the region");
  ULNET_CHECK(regions_.emplace(region, memory).second && !memory.empty());
  return {};
}

void SimControl::region_remove(RegionId region) {
  ULNET_CHECK(regions_.erase(region) == 1);
}

bool SimControl::registered(const Payload& window) const {
  uint32_t skip = window.offset, left = window.length;
  for (uint32_t i = 0; i < window.segment_count && left > 0; ++i) {
    const Segment& segment = window.segments[i];
    const uint32_t from = std::min(skip, segment.bytes), bytes = std::min(segment.bytes - from, left);
    skip -= from;
    left -= bytes;
    if (bytes == 0) continue;
    const auto found = regions_.find(segment.region);
    if (found == regions_.end()) return false;
    const std::byte* const begin = segment.base + from;
    const std::byte* const region = found->second.data();
    if (begin < region || begin + bytes > region + found->second.size()) return false;
  }
  return left == 0;
}

bool SimControl::names(const PeerSlice& slice) const {
  return fabric_.names(slice) || std::any_of(peers_.begin(), peers_.end(), [&](const auto& entry) {
           return entry.second.attempt != 0 && entry.second.place.slice == &slice;
         });
}

void SimControl::from_worker(WorkerId worker, const LndMsg& msg, Instant now) {
  fabric_.see(now);
  switch (SimMsg(msg.kind())) {
    case SimMsg::kStopped: return stopped(msg.as<StoppedMsg>().ni);
    case SimMsg::kConnect: return connect(worker, msg.as<ConnectMsg>(), now);
    case SimMsg::kConnUp:
    case SimMsg::kConnFailed:
    case SimMsg::kStop: return;
  }
}

void SimControl::stopped(NiId ni) {
  const auto found = stopping_.find(ni);
  if (found == stopping_.end() || --found->second > 0) return;
  stopping_.erase(found);
  host_.ni_stopped(ni);
}

void SimControl::connect(WorkerId worker, const ConnectMsg& msg, Instant now) {
  if (!nis_.contains(msg.ni)) return;  // stopped: the worker fails its Txs itself
  const Key key{msg.ni, msg.nid};
  Peer& peer = peers_.try_emplace(key).first->second;
  if (peer.attempt != 0 || alive(peer)) {      // the answer, or the connection itself, is on its way to that worker
    ULNET_CHECK(peer.place.worker == worker);  // all sets to one peer NID share a worker
    return;
  }
  peer.place = {msg.peer_ni, worker, msg.peer};
  dial(key, peer, now);
}

const NiParams* SimControl::ni_of(const Nid& nid) const {
  for (const auto& [id, params] : nis_)
    if (params.nid == nid) return &params;
  return nullptr;
}

bool SimControl::alive(const Peer& peer) {
  const End* end = fabric_.find_end(peer.end);
  return end != nullptr && !end->broken;
}

void SimControl::dial(const Key& key, Peer& peer, Instant now) {
  peer.attempt = fabric_.attempt_begin();
  peer.deadline = now + fabric_.options().connect_timeout;
  peer.send_again = now + fabric_.options().connect_retry;
  fabric_.post(
      {.kind = ControlMail::Kind::kRequest, .from = nis_.at(key.first).nid, .to = key.second, .attempt = peer.attempt});
}

void SimControl::dial_failed(const Key& key, Peer& peer, Completion how) {
  ++fabric_.count().connects_failed;
  fabric_.attempt_end(peer.attempt);
  peer.attempt = 0;
  host_.to_worker(peer.place.worker, ConnFailedMsg{key.first, key.second, how});
  host_.peer_down(peer.place.id, how.error);
}

void SimControl::hand_over(const NiParams& ni, Peer& peer, End& end) {
  const WorkerId worker = peer.place.worker;
  end.handed_over = true;
  end.ni = ni.id;
  end.ni_slice = worker.value < ni.slices.size() ? ni.slices[worker.value] : nullptr;
  end.peer_ni = peer.place.id;
  end.slice = peer.place.slice;
  end.timeout = sim_tunables(ni.tunables).timeout;
  peer.end = end.id;
  host_.to_worker(worker, ConnUpMsg{ni.id, end.remote, end.id});
  host_.peer_up(end.peer_ni);
}

void SimControl::requested(const ControlMail& mail) {
  const NiParams* ni = ni_of(mail.to);
  if (ni == nullptr || !fabric_.attempt_wanted(mail.attempt)) return;
  const Key key{ni->id, mail.from};
  const bool self = mail.from == mail.to;
  const auto known = peers_.find(key);
  if (known != peers_.end() && !self) {
    Peer& peer = known->second;
    if (peer.attempt != 0 && mail.to > mail.from) return;  // ours wins, and will serve both
    const End* end = fabric_.find_end(peer.end);
    if (end != nullptr && end->attempt == mail.attempt) {  // our answer was lost
      return fabric_.post({.kind = ControlMail::Kind::kAccept,
                           .from = mail.to,
                           .to = mail.from,
                           .attempt = mail.attempt,
                           .end = end->peer});
    }
  }
  const Result<PeerPlace> place = host_.place_peer(mail.from, ni->id);
  if (!place) {
    return fabric_.post(
        {.kind = ControlMail::Kind::kRefuse, .from = mail.to, .to = mail.from, .attempt = mail.attempt});
  }
  Peer& peer = peers_.try_emplace(key).first->second;
  ULNET_CHECK(peer.attempt == 0 || peer.place.worker == place->worker);
  peer.place = *place;
  fabric_.schedule_break(fabric_.find_end(peer.end), fabric_.now(), kReset);
  if (peer.attempt != 0 && !self) fabric_.attempt_end(peer.attempt);
  End& end = fabric_.connect_ends(mail.from, mail.to, mail.attempt);
  hand_over(*ni, peer, end);
  if (self) fabric_.attempt_end(mail.attempt);
  peer.attempt = 0;
  if (self) return;
  fabric_.post(
      {.kind = ControlMail::Kind::kAccept, .from = mail.to, .to = mail.from, .attempt = mail.attempt, .end = end.peer});
}

void SimControl::accepted(const ControlMail& mail) {
  const NiParams* ni = ni_of(mail.to);
  const auto found = ni == nullptr ? peers_.end() : peers_.find({ni->id, mail.from});
  End* end = fabric_.find_end(mail.end);
  if (end == nullptr || end->handed_over) return;
  if (found == peers_.end() || found->second.attempt != mail.attempt) return fabric_.abandon(*end);
  Peer& peer = found->second;
  peer.attempt = 0;
  hand_over(*ni, peer, *end);
  fabric_.attempt_end(mail.attempt);
}

void SimControl::refused(const ControlMail& mail) {
  const NiParams* ni = ni_of(mail.to);
  const auto found = ni == nullptr ? peers_.end() : peers_.find({ni->id, mail.from});
  if (found == peers_.end() || found->second.attempt != mail.attempt) return;
  dial_failed(found->first, found->second, kRefusedConnect);
}

unsigned SimControl::redial(Instant now) {
  unsigned done = 0;
  for (auto& [key, peer] : peers_) {
    if (peer.attempt == 0) continue;
    if (peer.deadline <= now) {
      dial_failed(key, peer, kStalled);
      ++done;
    } else if (peer.send_again <= now) {
      peer.send_again = now + fabric_.options().connect_retry;
      fabric_.post({.kind = ControlMail::Kind::kRequest,
                    .from = nis_.at(key.first).nid,
                    .to = key.second,
                    .attempt = peer.attempt});
      ++done;
    }
  }
  return done;
}

unsigned SimControl::turn(Instant now) {
  fabric_.see(now);
  if (fabric_.frozen(node_)) return 0;
  unsigned done = 0;
  while (!mail_.empty() && mail_.begin()->first.first <= now) {
    const ControlMail mail = mail_.begin()->second;
    mail_.erase(mail_.begin());
    ++done;
    if (mail.kind == ControlMail::Kind::kLinkState) {
      if (const NiParams* ni = ni_of(mail.to)) host_.ni_fatal(ni->id, fabric_.is_down(mail.to));
      continue;
    }
    if (!fabric_.passes(mail.from, mail.to)) continue;
    switch (mail.kind) {
      case ControlMail::Kind::kRequest: requested(mail); break;
      case ControlMail::Kind::kAccept: accepted(mail); break;
      case ControlMail::Kind::kRefuse: refused(mail); break;
      case ControlMail::Kind::kLinkState: break;
    }
  }
  return done + redial(now);
}

Instant SimControl::wake() const {
  Instant next = mail_.empty() ? kForever : mail_.begin()->first.first;
  for (const auto& [key, peer] : peers_)
    if (peer.attempt != 0) next = std::min({next, peer.deadline, peer.send_again});
  return next;
}

size_t SimControl::attempts() const {
  return size_t(
      std::count_if(peers_.begin(), peers_.end(), [](const auto& entry) { return entry.second.attempt != 0; }));
}

}  // namespace ulnet::sim
