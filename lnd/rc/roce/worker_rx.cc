// Packets that have come: to the queue pair, to another worker, or to the connection manager.
#include <bit>

#include "dataplane/wire/bytes.h"
#include "lnd/net/packet/udp.h"
#include "lnd/rc/roce/proto/icrc.h"
#include "lnd/rc/roce/worker.h"

namespace ulnet::rc::roce {
namespace {

constexpr uint8_t kCongestion = 3;  ///< ECN bits of a packet that was marked

/// Bytes of IP and UDP.
unsigned lead_of(const Arrival& arrival) {
  return (arrival.source.is_v4() ? dpdk::kIpv4Bytes : dpdk::kIpv6Bytes) + dpdk::kUdpBytes;
}

bool icrc_is_right(const Arrival& arrival) {
  const uint32_t head = lead_of(arrival) + kBthBytes;
  const uint32_t behind = arrival.bytes - kBthBytes - kIcrcBytes;
  Icrc crc(Bytes(arrival.pieces[0]).first(head), behind);
  std::array<std::byte, kIcrcBytes> trailer;
  if (!each_piece(arrival, head, behind, [&](Bytes piece) { crc.add(piece); })) return false;
  if (!copy(arrival, head + behind, kIcrcBytes, trailer.data())) return false;
  return wire::load<uint32_t>(trailer.data()) == crc.value();
}

}  // namespace

uint64_t qp_tag(uint32_t number, uint8_t port, const IpAddress& remote, const IpAddress& local) {
  using Words = std::array<uint64_t, 2>;
  uint64_t mixed = port;
  for (const Words& words : {std::bit_cast<Words>(remote.bytes), std::bit_cast<Words>(local.bytes)})
    for (const uint64_t word : words) {
      mixed = (mixed ^ word) * 0x9E37'79B9'7F4A'7C15;
      mixed ^= mixed >> 32;
    }
  return mixed << kQpnBits | number;
}

void RoceWorker::drop(const Arrival& arrival, FrameDrop reason, Instant now) {
  if (WorkerPort* queue = ports_[arrival.port].queue) queue->drop(arrival, reason, now);
}

void RoceWorker::give_back(const Arrival& arrival) {
  if (WorkerPort* queue = ports_[arrival.port].queue) queue->release(arrival);
}

/// From each worker in turn.
unsigned RoceWorker::take_handed_over(unsigned budget, Instant now) {
  const unsigned workers = shared_.handover.workers();
  if (workers == 1) return 0;
  unsigned count = 0;
  for (unsigned i = 0; i < workers && count < budget; ++i) {
    SpscRing<Arrival>& ring = shared_.handover.ring((first_ring_ + i) % workers, id_.value);
    for (Arrival arrival; count < budget && ring.pop(arrival); ++count) came(arrival, now);
  }
  ++first_ring_;
  return count;
}

unsigned RoceWorker::take_from(uint8_t port, unsigned budget, Instant now) {
  if (ports_[port].queue == nullptr) return 0;
  unsigned count = 0;
  while (count < budget) {
    const unsigned wanted = std::min(kBatch, budget - count);
    const unsigned taken = ports_[port].queue->take(std::span(batch_).first(wanted), now);
    for (unsigned i = 0; i < taken; ++i) {
      batch_[i].port = port;
      came(batch_[i], now);
    }
    ports_[port].taken.spend(kUnneededRate, taken, now);
    count += taken;
    if (taken < wanted) break;
  }
  return count;
}

/// The packet is for a user.
void RoceWorker::needed(const Arrival& arrival, Instant now) {
  needed_until_ = ports_[arrival.port].needed_until = now + kNeedLasts;
}

/// Null: the packet is for no queue pair of this worker that can take one.
RoceQp* RoceWorker::qp_of(const Arrival& arrival, const Packet& packet) {
  RoceQp* qp = packet.kind == PacketKind::kDatagram ? nullptr : find(arrival, packet.bth.qpn);
  if (qp != nullptr && qp->sender == nullptr) look(*qp);  // control may just have made it
  return qp == nullptr || qp->sender == nullptr ? nullptr : qp;
}

void RoceWorker::came(const Arrival& arrival, Instant now) {
  const Bytes first = arrival.pieces[0];
  const unsigned lead = lead_of(arrival);
  const size_t head_bytes = std::min<size_t>(kRoceHeadersMax, arrival.bytes);
  if (arrival.piece_count == 0 || first.size() < lead + head_bytes) return drop(arrival, FrameDrop::kRoceHeader, now);
  const auto packet = packet_decode(first.subspan(lead, head_bytes), arrival.bytes);
  if (!packet) return drop(arrival, packet.error(), now);
  const uint32_t number = packet->bth.qpn;
  if (number == kGsiQpn) return mad_came(arrival, *packet, now);
  if (worker_of_qpn(number) != id_) return hand_over(arrival, number, now);
  RoceQp* qp = qp_of(arrival, *packet);
  if (qp == nullptr) return drop(arrival, FrameDrop::kRoceQp, now);
  if (!arrival.verified && !icrc_is_right(arrival)) return drop(arrival, FrameDrop::kRoceIcrc, now);
  Requester& requester = qp->sender->requester;
  bool kept = false;
  switch (packet->kind) {
    case PacketKind::kRequest:
    case PacketKind::kRefused: kept = request_came(*qp, arrival, *packet, now); break;
    case PacketKind::kAcknowledge:
      if (qp->is_broken) break;
      requester.answered(packet->aeth, packet->bth.psn, now);
      if (requester.done() != nullptr) needed(arrival, now);
      if (requester.done() != nullptr || requester.failure() != Cause::kNone) report(*qp, now);
      break;
    case PacketKind::kCnp:
      qp->counts[Count::kCnpsReceived].add();
      if (!qp->is_broken) requester.congested();
      break;
    case PacketKind::kDatagram: break;
  }
  if (!qp->is_broken) follow(*qp, now);
  if (!kept) give_back(arrival);
}

/// The payload goes to its place, or stays where it is: true. The packet is kept then.
bool RoceWorker::put_payload(const Arrival& arrival, const Packet& packet, const Spot& spot) {
  const uint32_t from = lead_of(arrival) + packet.header_bytes;
  WorkerPort* queue = ports_[arrival.port].queue;
  if (spot.list != nullptr && queue != nullptr &&
      spot.list->take(*queue, arrival, from, packet.payload_bytes, spot.at)) {
    ports_[arrival.port].counts[Count::kPacketsKept].add();
    return true;
  }
  (void)copy(arrival, from, packet.payload_bytes, spot.at);
  return false;
}

/// A queue pair that has refused a request says so again, since the answer may be lost. True: the packet is kept.
bool RoceWorker::request_came(RoceQp& qp, const Arrival& arrival, const Packet& packet, Instant now) {
  if (qp.is_broken && qp.responder.failure() == Cause::kNone) return false;
  if ((arrival.traffic_class & 3) == kCongestion && !qp.is_broken) {
    qp.cnp_due = true;
    mark_ready(qp);
  }
  bool kept = false;
  if (const auto spot = qp.responder.place(packet)) {
    needed(arrival, now);
    kept = put_payload(arrival, packet, *spot);
    if (!std::exchange(qp.live, true)) owe(qp);
    Received message;
    if (qp.responder.taken(packet, message)) qp.user->received(qp, message.buffer, message.bytes, now);
  }
  if (qp.responder.answer_due()) mark_ready(qp);
  if (qp.responder.failure() != Cause::kNone) report(qp, now);
  return kept;
}

/// The peer and the CRC are looked at here, so that packets of strangers cost the worker on which they arrive.
void RoceWorker::hand_over(const Arrival& arrival, uint32_t number, Instant now) {
  const WorkerId to = worker_of_qpn(number);
  if (to.value >= shared_.handover.workers() || !shared_.has_queue(arrival.port, to))
    return drop(arrival, FrameDrop::kRoceQp, now);
  const uint64_t tag = qp_tag(number, arrival.port, arrival.source, arrival.destination);
  if (shared_.handover.tag(to.value, place_of_qpn(number)).load(std::memory_order_acquire) != tag)
    return drop(arrival, FrameDrop::kRoceQp, now);
  if (!icrc_is_right(arrival)) return drop(arrival, FrameDrop::kRoceIcrc, now);
  Arrival verified = arrival;
  verified.verified = true;
  if (!shared_.handover.ring(id_.value, to.value).push(verified)) return drop(arrival, FrameDrop::kRoceBusy, now);
  ports_[arrival.port].counts[Count::kHandedOver].add();
  needed(arrival, now);
  handed_to_[to.value] = true;
}

/// A flood of one sender, or from one port, leaves control time for others.
bool RoceWorker::mad_allowed(const Arrival& arrival, Instant now) {
  const uint64_t sender = (qp_tag(0, arrival.port, arrival.source, {}) ^ shared_.secret) * 0x9E37'79B9'7F4A'7C15;
  Allowance& source = mad_sources_[(sender >> 32) % kMadSourcePlaces];
  Allowance& port = ports_[arrival.port].mads;
  if (source.left(kMadSourceRate, now) == 0 || !port.take(kMadRate, now)) return false;
  source.spend(kMadSourceRate, 1, now);
  return true;
}

void RoceWorker::mad_came(const Arrival& arrival, const Packet& packet, Instant now) {
  const bool mad = packet.kind == PacketKind::kDatagram && packet.payload_bytes == kMadBytes;
  std::array<std::byte, kCmStart.size()> start;
  const unsigned at = lead_of(arrival) + packet.header_bytes;
  if (!mad || packet.deth.qkey != kGsiQkey || !copy(arrival, at, kCmStart.size(), start.data()) || start != kCmStart)
    return drop(arrival, FrameDrop::kRoceMad, now);
  if (!mad_allowed(arrival, now)) return drop(arrival, FrameDrop::kRoceBusy, now);
  if (!icrc_is_right(arrival)) return drop(arrival, FrameDrop::kRoceIcrc, now);
  MadMessage message{arrival.port, {arrival.destination, arrival.source}, {}};
  (void)copy(arrival, at, kMadBytes, message.mad.data());
  if (!rings().mads_in.push(message)) return drop(arrival, FrameDrop::kRoceBusy, now);
  control_rings_ = true;  // at the end of the turn
  give_back(arrival);
}

}  // namespace ulnet::rc::roce
