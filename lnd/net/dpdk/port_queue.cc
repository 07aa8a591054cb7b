// The burst calls of DPDK's ethdev are inline functions over its device table: they are made here and in port.cc only.
#include "lnd/net/dpdk/port_queue.h"

#include <poll.h>
#include <rte_ethdev.h>
#include <rte_mempool.h>
#include <unistd.h>

namespace ulnet::dpdk {

bool PortQueue::obey(Instant now) {
  PacketTap* tap = tap_wanted_.load(std::memory_order_acquire);
  if (tap != tap_.load(std::memory_order_relaxed)) tap_.store(tap, std::memory_order_seq_cst);
  const bool stop = stop_wanted_.load(std::memory_order_acquire);
  if (stop == stopped_.load(std::memory_order_relaxed)) return !stop;
  if (stop) {
    let_go(now);
    false_wakes_ = 0;
    woken_ = false;
    watch_.reset();
    stopped_.store(true, std::memory_order_seq_cst);
    return false;
  }
  // Control may request another stop during this start, and trust the old answer. Both sides write, then read
  // (seq_cst): at least one sees the other.
  stopped_.store(false, std::memory_order_seq_cst);
  if (stop_wanted_.load(std::memory_order_seq_cst)) {
    stopped_.store(true, std::memory_order_seq_cst);
    return false;
  }
  device_ = given_;
  return true;
}

void PortQueue::let_go(Instant now) {
  while (kept_first_ < kept_end_) drop(kept_[kept_first_++], FrameDrop::kStopped, now);
}

unsigned PortQueue::take_kept(std::span<rte_mbuf*> out) {
  const unsigned count = unsigned(std::min<size_t>(out.size(), kept_end_ - kept_first_));
  std::copy_n(kept_.begin() + kept_first_, count, out.begin());
  kept_first_ += count;
  return count;
}

unsigned PortQueue::receive(std::span<rte_mbuf*> out, Instant now) {
  if (!obey(now) || out.empty()) return 0;
  counters_.polls.add();
  const unsigned count = kept_first_ < kept_end_
                             ? take_kept(out)
                             : rte_eth_rx_burst(device_.port, queue_, out.data(), uint16_t(out.size()));
  if (count == 0) {
    counters_.polls_empty.add();
    false_wakes_ += std::exchange(woken_, false) ? 1 : 0;
    return 0;
  }
  false_wakes_ = 0;
  woken_ = false;
  uint64_t bytes = 0;
  for (unsigned i = 0; i < count; ++i) bytes += out[i]->pkt_len;
  counters_.rx_packets.add(count);
  counters_.rx_bytes.add(bytes);
  counters_.rx_bursts[std::min<unsigned>(unsigned(std::bit_width(count)), QueueCounters::kBurstClasses) - 1].add();
  if (PacketTap* tap = tap_.load(std::memory_order_relaxed); tap != nullptr)
    tap->see(TapEvent::kReceived, FrameDrop::kCount, out.first(count), now);
  return count;
}

unsigned PortQueue::send(std::span<rte_mbuf*> packets, Instant now) {
  if (packets.empty() || stopped_.load(std::memory_order_relaxed)) return 0;
  // Bytes are summed before the burst: afterwards the packets that it took are the driver's.
  const unsigned offered = unsigned(std::min<size_t>(packets.size(), kTxGather));
  uint64_t bytes = 0;
  for (unsigned i = 0; i < offered; ++i) bytes += packets[i]->pkt_len;
  // The tap sees exactly the packets that were sent. An extra reference keeps each packet until then.
  PacketTap* tap = tap_.load(std::memory_order_relaxed);
  std::array<rte_mbuf*, kTxGather> seen;
  for (unsigned i = 0; tap != nullptr && i < offered; ++i) {
    seen[i] = packets[i];
    rte_pktmbuf_refcnt_update(seen[i], 1);
  }
  const unsigned sent = rte_eth_tx_burst(device_.port, queue_, packets.data(), uint16_t(offered));
  if (tap != nullptr) {
    if (sent > 0) tap->see(TapEvent::kSent, FrameDrop::kCount, {seen.data(), sent}, now);
    for (unsigned i = 0; i < offered; ++i) packet_free(seen[i]);
  }
  if (sent == 0) return 0;
  for (unsigned i = sent; i < offered; ++i) bytes -= packets[i]->pkt_len;
  counters_.tx_packets.add(sent);
  counters_.tx_bytes.add(bytes);
  counters_.tx_bursts[std::min<unsigned>(unsigned(std::bit_width(sent)), QueueCounters::kBurstClasses) - 1].add();
  return sent;
}

void PortQueue::drop_as(TapEvent event, rte_mbuf* packet, FrameDrop reason, Instant now) {
  counters_.drops[reason].add();
  if (PacketTap* tap = tap_.load(std::memory_order_relaxed); tap != nullptr) tap->see(event, reason, {&packet, 1}, now);
  give_back(packet);
}

/// A packet of another pool goes past this thread's cache of that pool. No thread takes buffers from that cache.
void PortQueue::give_back(rte_mbuf* packet) {
  if (packet->pool == pool_->mempool()) return packet_free(packet);
  while (packet != nullptr) {
    rte_mbuf* const next = packet->next;
    if (rte_mbuf* one = rte_pktmbuf_prefree_seg(packet)) {
      void* object = one;
      rte_mempool_generic_put(one->pool, &object, 1, nullptr);
    }
    packet = next;
  }
}

void PortQueue::arm_interrupt() {
  if (wait_fd() >= 0) (void)rte_eth_dev_rx_intr_enable(device_.port, queue_);
}

void PortQueue::disarm_interrupt(Duration slept) {
  if (wait_fd() < 0) return;
  pollfd wait{device_.wait_fd, POLLIN, 0};
  const bool reported = ::poll(&wait, 1, 0) > 0;  // some drivers take the event when the interrupt is disabled
  (void)rte_eth_dev_rx_intr_disable(device_.port, queue_);
  woken_ = ::poll(&wait, 1, 0) > 0;
  uint64_t count;
  if (device_.drain_fd && woken_) [[maybe_unused]]
    const ssize_t got = ::read(device_.wait_fd, &count, sizeof count);
  woken_ = woken_ || reported;
  if (device_.may_miss && watch_.woke(slept, woken_, has_packets())) counters_.interrupts_missed.add();
}

bool PortQueue::has_packets() {
  if (kept_first_ < kept_end_) return true;
  if (stopped_.load(std::memory_order_relaxed)) return false;
  if (device_.peek) return rte_eth_rx_queue_count(device_.port, queue_) > 0;
  kept_first_ = 0;
  kept_end_ = rte_eth_rx_burst(device_.port, queue_, kept_.data(), uint16_t(kept_.size()));
  return kept_end_ > 0;
}

}  // namespace ulnet::dpdk
