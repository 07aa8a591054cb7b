// The driver of the swarm and its peers (swarm.h).
#include "tests/simulate/swarm.h"

#include <algorithm>
#include <utility>

#include "dataplane/state/payload.h"
#include "dataplane/state/slices.h"

namespace ulnet::simulate {
namespace {

constexpr uint32_t kFirstAddress = 0x0A010000;  // 10.1.0.0
/// When a peer's list changes it loses its first two NIDs, the primary among them, and gets two others.
constexpr uint32_t kSwarmNidsKept = 2;
constexpr uint32_t kAddressesEach = 2 * kSwarmNids - kSwarmNidsKept;

}  // namespace

// --- the peers -------------------------------------------------------------------------------------------------------

Nid Swarm::nid_of(uint32_t peer, uint32_t index) {
  return Nid::v4(Net::of(NetType::kTcp, 0), kFirstAddress + peer * kAddressesEach + index);
}

std::vector<Nid> Swarm::nids_of(uint32_t peer) const {
  std::vector<Nid> nids;
  for (uint32_t i = 0; i < kSwarmNids; ++i) nids.push_back(nid_of(peer, peers_[peer].first + i));
  return nids;
}

uint32_t Swarm::peer_of(const Nid& nid) const {
  return (nid.address_v4() - kFirstAddress) / kAddressesEach;
}

wire::PingInfo Swarm::info_of(uint32_t peer) const {
  wire::PingInfo info;
  info.features =
      wire::kFeatureNiStatus | wire::kFeatureRteDisabled | wire::kFeatureMultiRail | wire::kFeatureDiscovery;
  info.sequence = peers_[peer].sequence;
  for (const Nid& nid : nids_of(peer)) info.nis.push_back({nid, wire::kNiUp});
  return info;
}

void Swarm::push_at(uint32_t peer, Instant at) {
  peers_[peer].wants = true;
  pushes_.insert({at, peer});
}

void Swarm::change_all(Instant now) {
  for (uint32_t peer = 0; peer < peers_.size(); ++peer) {
    ++peers_[peer].sequence;
    peers_[peer].first = kSwarmNids - kSwarmNidsKept;
    push_at(peer, now);
  }
}

uint32_t Swarm::unheard() const {
  return uint32_t(std::count_if(peers_.begin(), peers_.end(), [](const SwarmPeer& one) { return one.wants; }));
}

Instant Swarm::next_event() const {
  Instant next = kForever;
  if (!outbound_.empty()) next = std::min(next, outbound_.begin()->first);
  if (!arriving_.empty()) next = std::min(next, arriving_.begin()->first);
  if (!pushes_.empty()) next = std::min(next, pushes_.begin()->first);
  return next;
}

/// A message back to who sent the Tx, over the same pair of NIDs.
Swarm::Inbound& Swarm::send(const Tx& to_whom, wire::Header header, Instant at) {
  header.src_nid = to_whom.header.dest_nid;
  header.dest_nid = to_whom.header.src_nid;
  auto message = std::make_unique<Inbound>();
  message->begin(header, to_whom.ni, to_whom.ni_slice, to_whom.peer_ni, to_whom.peer, to_whom.next_hop);
  return *arriving_.emplace(at, std::move(message))->second;
}

// The handle for the ACK says whose push it is, and of which list.
void Swarm::push(uint32_t peer, const Nid& from, const PeerPlace& place, Instant now) {
  const wire::PingInfo info = info_of(peer);
  auto message = std::make_unique<Inbound>();
  message->bytes = wire::ping_info_encode(info);
  wire::Header header;
  header.type = wire::MsgType::kPut;
  header.src_nid = from;
  header.dest_nid = ni_.nid;
  header.payload_length = uint32_t(message->bytes.size());
  wire::PutBody put;
  put.ack_wmd = {info.sequence, peer};
  put.match_bits = wire::kPingMatchBits;
  header.set(put);
  message->begin(header, ni_.id, ni_.slices[place.worker.value], place.id, place.slice, from);
  arriving_.emplace(now, std::move(message));
  ++pushes_sent_;
}

// A NID that a peer has no more answers nothing.
void Swarm::answer(Tx& tx, Instant now) {
  const uint32_t peer = peer_of(tx.header.dest_nid);
  if (peer >= peers_.size()) return;
  const auto nids = nids_of(peer);
  if (std::find(nids.begin(), nids.end(), tx.header.dest_nid) == nids.end()) return;
  SwarmPeer& one = peers_[peer];
  wire::Header header;
  if (tx.header.type == wire::MsgType::kGet) {
    ++one.pings;
    const wire::GetBody get = tx.header.get();
    const auto bytes = wire::ping_info_encode(info_of(peer));
    header.type = wire::MsgType::kReply;
    header.payload_length = std::min<uint32_t>(uint32_t(bytes.size()), get.sink_length);
    header.set(wire::ReplyBody{get.return_wmd});
    Inbound& reply = send(tx, header, now + kSwarmDelay);
    reply.bytes.assign(bytes.begin(), bytes.begin() + header.payload_length);
  } else if (tx.header.type == wire::MsgType::kPut) {
    ++one.pushed;
    const wire::PutBody put = tx.header.put();
    header.type = wire::MsgType::kAck;
    header.set(wire::AckBody{put.ack_wmd, put.match_bits, tx.header.payload_length});
    (void)send(tx, header, now + kSwarmDelay);
    if (!std::exchange(one.knows, true)) push_at(peer, now);  // now it knows who is there, and tells its own
  } else if (tx.header.type == wire::MsgType::kAck) {
    heard(tx.header);
  }
}

void Swarm::heard(const wire::Header& ack) {
  const wire::WireHandle handle = ack.ack().dst_wmd;
  SwarmPeer& one = peers_[handle.object_cookie];
  if (handle.interface_cookie == one.sequence) one.wants = false;
}

// --- the driver's worker half ----------------------------------------------------------------------------------------

void SwarmLnd::submit(Tx& tx, Instant now) {
  s_.outbound_.emplace(now + kSwarmDelay, &tx);
}

void SwarmLnd::cancel(Tx& tx, bool, Instant now) {
  const auto found =
      std::find_if(s_.outbound_.begin(), s_.outbound_.end(), [&](const auto& one) { return one.second == &tx; });
  if (found == s_.outbound_.end()) return;
  s_.outbound_.erase(found);
  core_.tx_done(tx, {-ECANCELED, LndStatus::kOk}, now);
}

void SwarmLnd::receive(Swarm::Inbound& message, Instant now) {
  const Segment segment{message.bytes.data(), uint32_t(message.bytes.size())};
  PayloadCursor to(message.into), from({&segment, 1, 0, segment.bytes});
  payload_copy(to, from);
  core_.rx_done(message, {}, now);
}

void SwarmLnd::deliver(std::unique_ptr<Swarm::Inbound> message, Instant now) {
  Swarm::Inbound& slot = *message;
  switch (core_.rx_header(slot, now)) {
    case RxVerdict::kReceive: return receive(slot, now);
    case RxVerdict::kHold:
      s_.held_.emplace(&slot, std::move(message));
      s_.held_most_ = std::max(s_.held_most_, s_.held_.size());
      return;
    case RxVerdict::kTaken: ULNET_CHECK(!"a slot that is not movable was taken"); return;
    case RxVerdict::kRefused: ULNET_CHECK(!"a slot without a token was refused"); return;
    case RxVerdict::kProtocolError: ++s_.protocol_errors_; return;
  }
}

// The core may resume many in a row from within one call: the rest is done by poll().
void SwarmLnd::resume(RxSlot& slot, Instant) {
  const auto found = s_.held_.find(&slot);
  ULNET_CHECK(found != s_.held_.end());
  ready_.push_back(std::move(found->second));
  s_.held_.erase(found);
}

unsigned SwarmLnd::poll(unsigned budget, Instant now) {
  unsigned done = 0;
  for (; done < budget && !ready_.empty(); ++done) {
    const auto message = std::move(ready_.front());
    ready_.pop_front();
    if (message->verdict == RxVerdict::kReceive)
      receive(*message, now);
    else
      ++s_.protocol_errors_;
  }
  for (; done < budget && !s_.outbound_.empty() && s_.outbound_.begin()->first <= now; ++done) {
    Tx& tx = *s_.outbound_.begin()->second;
    s_.outbound_.erase(s_.outbound_.begin());
    s_.answer(tx, now);
    core_.tx_done(tx, {}, now);
  }
  for (; done < budget && !s_.arriving_.empty() && s_.arriving_.begin()->first <= now; ++done) {
    auto message = std::move(s_.arriving_.begin()->second);
    s_.arriving_.erase(s_.arriving_.begin());
    deliver(std::move(message), now);
  }
  return done;
}

// --- and its control half --------------------------------------------------------------------------------------------

Result<void> SwarmControl::ni_start(const NiParams& params, Instant) {
  s_.ni_ = params;
  return {};
}

void SwarmControl::ni_stop(NiId ni, Instant) {
  s_.pushes_.clear();
  host_.ni_stopped(ni);
}

unsigned SwarmControl::turn(Instant now) {
  unsigned done = 0;
  for (; !s_.pushes_.empty() && s_.pushes_.begin()->first <= now; ++done) {
    const uint32_t peer = s_.pushes_.begin()->second;
    s_.pushes_.erase(s_.pushes_.begin());
    const Nid from = s_.nids_of(peer)[peer % kSwarmNidsKept];
    const auto place = host_.place_peer(from, s_.ni_.id);
    if (place)
      s_.push(peer, from, *place, now);
    else
      ++s_.unplaced_;
  }
  return done;
}

Instant SwarmControl::next_deadline() {
  return s_.pushes_.empty() ? kForever : s_.pushes_.begin()->first;
}

}  // namespace ulnet::simulate
