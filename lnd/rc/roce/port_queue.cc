#include "lnd/rc/roce/port_queue.h"

#include <algorithm>
#include <new>
#include <type_traits>

#include "lnd/net/packet/udp.h"
#include "lnd/rc/roce/proto/headers.h"

namespace ulnet::rc::roce {
namespace {

/// Fills the pieces of `arrival` from the IP header on. False: the packet has IP options, or is cut in odd places.
bool describe(const dpdk::Datagram& datagram, Arrival& arrival) {
  const uint32_t plain = datagram.source.is_v4() ? dpdk::kIpv4Bytes : dpdk::kIpv6Bytes;
  if (datagram.ip_bytes != plain) return false;
  const uint32_t lead = plain + dpdk::kUdpBytes;
  rte_mbuf* first = datagram.packet;
  const uint32_t start = datagram.offset - lead;
  const uint32_t headers = lead + std::min(datagram.bytes, uint32_t{kRoceHeadersMax});
  if (first->data_len < start + headers) return false;
  // Field by field: most of the pieces are not used.
  arrival.verified = false;
  arrival.piece_count = 0;
  arrival.source = datagram.source;
  arrival.destination = datagram.destination;
  arrival.traffic_class = datagram.traffic_class;
  arrival.bytes = datagram.bytes;
  arrival.packet = datagram.packet;
  uint32_t offset = start, left = lead + datagram.bytes;
  for (rte_mbuf* segment = first; segment != nullptr && left > 0; segment = segment->next, offset = 0) {
    if (arrival.piece_count == kArrivalPieces) return false;
    const uint32_t here = std::min(segment->data_len - offset, left);
    arrival.pieces[arrival.piece_count++] = {rte_pktmbuf_mtod_offset(segment, std::byte*, offset), here};
    left -= here;
  }
  return left == 0;
}

/// Puts `bytes` at the end of a packet. False: no buffer.
bool append(dpdk::PacketPool& pool, rte_mbuf* packet, Bytes bytes) {
  char* at = rte_pktmbuf_append(packet, uint16_t(bytes.size()));
  if (at == nullptr) {
    rte_mbuf* more = pool.take();
    if (more == nullptr) return false;
    at = rte_pktmbuf_append(more, uint16_t(bytes.size()));
    if (at == nullptr || rte_pktmbuf_chain(packet, more) != 0) {
      dpdk::packet_free(more);
      return false;
    }
  }
  std::memcpy(at, bytes.data(), bytes.size());
  return true;
}

static_assert(sizeof(dpdk::TxLease) <= Loan::kPlaceBytes && std::is_trivially_destructible_v<dpdk::TxLease>);

dpdk::TxLease& lease_of(Loan& loan) {
  return *std::launder(reinterpret_cast<dpdk::TxLease*>(loan.place()));
}

/// The lease of this payload, which ends with the loan.
dpdk::TxLease& borrow(Loan& loan) {
  if (loan.is_open()) return lease_of(loan);
  auto* lease = new (loan.place()) dpdk::TxLease;
  lease->open([](dpdk::TxLease&, void* to) { static_cast<Loan*>(to)->give_back(); }, &loan);
  loan.open([](Loan& its) { lease_of(its).close(); });
  return *lease;
}

rte_mbuf* packet_of(const Arrival& arrival) {
  return static_cast<rte_mbuf*>(arrival.packet);
}

}  // namespace

RoceQueue::RoceQueue(RoceProvider& provider, const PortNumber& number, WorkerId worker, dpdk::PortQueue& queue,
                     dpdk::Stack& stack)
    : provider_(provider), number_(number), worker_(worker), queue_(queue), stack_(stack) {}

Result<void> RoceQueue::open() {
  const auto bound = stack_.udp_bind(kUdpPort, *this);
  if (bound || bound.error().code != -EADDRINUSE) return bound;
  return fail(EADDRINUSE, "RoCE needs UDP port 4791 of the packet port, which is bound to something else", kUdpPort);
}

/// The provider gets the queue in the first turn after the port has a number.
unsigned RoceQueue::turn(Instant) {
  if (attached_ >= 0) return 0;
  attached_ = number_.load(std::memory_order_acquire);
  if (attached_ < 0) return 0;
  provider_.attach(uint8_t(attached_), worker_, *this);
  return 1;
}

void RoceQueue::finish(Instant) {
  if (attached_ >= 0) provider_.detach(uint8_t(attached_), worker_);
  for (; head_ != tail_; ++head_) dpdk::packet_free(inbox_[head_ % kInboxPackets].packet);
  stack_.udp_unbind(kUdpPort);
}

void RoceQueue::udp_received(std::span<dpdk::Datagram> datagrams, Instant now) {
  for (const dpdk::Datagram& datagram : datagrams) {
    if (tail_ - head_ == kInboxPackets)
      queue_.drop(datagram.packet, FrameDrop::kRoceBusy, now);
    else
      inbox_[tail_++ % kInboxPackets] = datagram;
  }
}

unsigned RoceQueue::take(std::span<Arrival> out, Instant now) {
  unsigned count = 0;
  for (; count < out.size() && head_ != tail_; ++head_) {
    const dpdk::Datagram& datagram = inbox_[head_ % kInboxPackets];
    if (head_ + 1 != tail_)
      __builtin_prefetch(rte_pktmbuf_mtod(inbox_[(head_ + 1) % kInboxPackets].packet, const void*));
    if (describe(datagram, out[count]))
      ++count;
    else
      queue_.drop(datagram.packet, FrameDrop::kRoceHeader, now);
  }
  return count;
}

void RoceQueue::release(const Arrival& arrival) {
  queue_.give_back(packet_of(arrival));
}

void RoceQueue::drop(const Arrival& arrival, FrameDrop reason, Instant now) {
  queue_.drop(packet_of(arrival), reason, now);
}

/// The pool counts what it holds on its own worker only, so a packet of another worker's queue is copied.
bool RoceQueue::keep(const Arrival& arrival) {
  const rte_mbuf* packet = packet_of(arrival);
  if (queue_.pool().held_max() == 0) return false;
  if (packet->pool == queue_.pool().mempool() && queue_.pool().hold(packet->nb_segs)) return true;
  queue_.counters().copied.add();
  return false;
}

void RoceQueue::let_go(void* packet) {
  auto* kept = static_cast<rte_mbuf*>(packet);
  queue_.pool().release(kept->nb_segs);
  dpdk::packet_free(kept);
}

unsigned RoceQueue::room(Instant now) {
  return queue_.running() ? stack_.tx_room(now) : dpdk::kTxGather;
}

bool RoceQueue::send(const Departure& packet, Instant now) {
  if (!queue_.running()) {
    queue_.count_drop(FrameDrop::kStopped);
    return true;
  }
  PayloadCursor payload = packet.payload;
  const bool lends = packet.loan != nullptr && packet.bytes > dpdk::kCopyMax && queue_.lends();
  dpdk::TxLease* lease = lends ? &borrow(*packet.loan) : nullptr;
  rte_mbuf* frame = dpdk::frame_make(queue_.pool(), packet.head, payload, packet.bytes, lease, true);
  if (frame == nullptr || !append(queue_.pool(), frame, packet.tail)) {
    if (frame != nullptr) dpdk::packet_free(frame);
    queue_.count_drop(FrameDrop::kNoBuffer);  // of this attempt: the packet is sent later
    return false;
  }
  (void)stack_.ip_send(packet.to, frame, now);  // a drop is counted there, and the packet is sent again
  return true;
}

}  // namespace ulnet::rc::roce
