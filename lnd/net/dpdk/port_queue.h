// One receive and one send queue of a port: the part of it that a worker owns. Thread: its worker, from Port::start()
// on; any thread may read the counters. Burst calls only; does not look into packets.
#pragma once
#include <rte_mbuf.h>

#include <atomic>
#include <bit>

#include "dataplane/base/counters.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/time.h"
#include "lnd/net/dpdk/interrupt_watch.h"
#include "lnd/net/dpdk/packet.h"
#include "lnd/net/packet/drops.h"

namespace ulnet::dpdk {

/// Event of a packet that a PacketTap sees.
enum class TapEvent : uint8_t {
  kReceived,
  kSent,
  kDropped,
  kDroppedBare,  ///< dropped before it had all its headers: its bytes are no frame
};

/// Sees packets on their way while a capture runs. The worker calls it; a tap copies the bytes that it needs.
class PacketTap {
 public:
  virtual void see(TapEvent event, FrameDrop reason, std::span<rte_mbuf* const> packets, Instant now) = 0;

 protected:
  ~PacketTap() = default;
};

/// Work that the port does instead of software. Port::open sets it from the device's offers.
struct PortOffloads {
  bool rx_ip_checksum = false;
  bool rx_udp_checksum = false;
  bool tx_ip_checksum = false;
  bool tx_udp_checksum = false;
  bool multi_segment = false;  ///< sends several segments as one frame
  bool scatter = false;        ///< receives one frame into several buffers
  bool rss = false;            ///< spreads flows over queues by their hash
};

/// One writer: the worker.
struct QueueCounters {
  static constexpr unsigned kBurstClasses = 7;  ///< 1, 2-3, 4-7, 8-15, 16-31, 32-63, 64
  Counter rx_packets, rx_bytes, tx_packets, tx_bytes;
  Counter polls, polls_empty;  ///< receive calls, and those that found nothing
  Counter interrupts_missed;   ///< packets came during a sleep, and the device did not report it
  std::array<Counter, kBurstClasses> rx_bursts, tx_bursts;
  Counter copied;  ///< packets copied because the pool ran low, another worker took them, or the port takes one segment
  FrameDropCounters drops;
};

/// The properties of the device behind a queue, for its worker. A reset may change them.
struct QueueDevice {
  uint16_t port = UINT16_MAX;
  PortOffloads offloads;
  /// Frames may refer to memory that is not the port's own. Not for a NIC: it keeps packets that it has sent until more
  /// follow, so the last payload would not come back.
  bool lends = false;
  int wait_fd = -1;
  bool drain_fd = false;  ///< the descriptor is an eventfd, to be read after a wake-up
  bool may_miss = false;  ///< the interrupt of a NIC may not come
  bool peek = false;      ///< the device reports how many packets wait
};

class PortQueue {
 public:
  PortQueue(uint16_t queue, std::unique_ptr<PacketPool> pool) : queue_(queue), pool_(std::move(pool)) {}
  PortQueue(const PortQueue&) = delete;
  PortQueue& operator=(const PortQueue&) = delete;

  /// Fills `out` with at most out.size() packets, now the caller's.
  [[nodiscard]] unsigned receive(std::span<rte_mbuf*> out, Instant now);
  /// Sends; returns how many of the first it took. The rest stays the caller's.
  [[nodiscard]] unsigned send(std::span<rte_mbuf*> packets, Instant now);
  /// Frees a packet, also one that another worker's queue of this port has received.
  void give_back(rte_mbuf* packet);
  /// Counts a drop, shows the packet to the tap, gives the packet back.
  void drop(rte_mbuf* packet, FrameDrop reason, Instant now) { drop_as(TapEvent::kDropped, packet, reason, now); }
  /// The same for a packet that does not have all its headers yet.
  void drop_bare(rte_mbuf* packet, FrameDrop reason, Instant now) {
    drop_as(TapEvent::kDroppedBare, packet, reason, now);
  }
  /// Counts a drop of something that is no packet yet.
  void count_drop(FrameDrop reason) { counters_.drops[reason].add(); }

  /// True while control has requested something that no receive() has done yet. seq_cst, for the re-check before a
  /// sleep.
  [[nodiscard]] bool asked() const {
    return stop_wanted_.load(std::memory_order_seq_cst) != stopped_.load(std::memory_order_relaxed) ||
           tap_wanted_.load(std::memory_order_seq_cst) != tap_.load(std::memory_order_relaxed);
  }
  /// True while the worker may use the device.
  [[nodiscard]] bool running() const { return !stopped_.load(std::memory_order_relaxed); }

  // Sleep.
  /// A descriptor that becomes readable when packets come; -1: this queue must be polled. While the queue is stopped it
  /// is -1, because the device may be gone. Valid between arm_interrupt() and disarm_interrupt().
  [[nodiscard]] int wait_fd() const {
    if (stopped_.load(std::memory_order_relaxed)) return -1;
    return false_wakes_ < kFalseWakesMax && !is_deaf() ? device_.wait_fd : -1;
  }
  /// A sleep on wait_fd() lasts at most InterruptWatch::kSleepMax.
  [[nodiscard]] bool may_miss() const { return device_.may_miss; }
  /// The device's interrupts do not come: the queue must be polled. For any thread.
  [[nodiscard]] bool is_deaf() const { return watch_.is_deaf(); }
  /// Called before a sleep. A packet that came just before may cause no wake-up: check has_packets() afterwards.
  void arm_interrupt();
  /// `slept`: how long; zero if not at all.
  void disarm_interrupt(Duration slept);
  /// True if a receive() finds something. If the device cannot report that, has_packets() takes a burst and keeps it
  /// for the next receive().
  [[nodiscard]] bool has_packets();

  [[nodiscard]] PacketPool& pool() { return *pool_; }
  /// The device's offloads when the worker last began to use it.
  [[nodiscard]] const PortOffloads& offloads() const { return device_.offloads; }
  /// Frames may carry payload in place (frame_make).
  [[nodiscard]] bool lends() const { return device_.lends && device_.offloads.multi_segment; }
  [[nodiscard]] uint16_t index() const { return queue_; }
  [[nodiscard]] QueueCounters& counters() { return counters_; }

  // Control's side: requests something, and sees when the worker has done it. Control wakes a sleeping worker in
  // between.
  void ask_stop() { stop_wanted_.store(true, std::memory_order_seq_cst); }
  void ask_run() { stop_wanted_.store(false, std::memory_order_seq_cst); }
  [[nodiscard]] bool stopped() const { return stopped_.load(std::memory_order_seq_cst); }
  void ask_tap(PacketTap* tap) { tap_wanted_.store(tap, std::memory_order_seq_cst); }
  /// The tap that the worker may still call.
  [[nodiscard]] PacketTap* tap_in_use() const { return tap_.load(std::memory_order_seq_cst); }

 private:
  friend class Port;
  /// Does what control has requested. False: do not touch the device.
  bool obey(Instant now);
  void drop_as(TapEvent event, rte_mbuf* packet, FrameDrop reason, Instant now);
  void let_go(Instant now);
  [[nodiscard]] unsigned take_kept(std::span<rte_mbuf*> out);

  const uint16_t queue_;
  std::unique_ptr<PacketPool> pool_;
  QueueDevice given_;                   // control: w, but only while stopped(); worker: r, when it begins
  QueueDevice device_;                  // the worker's copy
  std::array<rte_mbuf*, kBurst> kept_;  // by has_packets(), for the next receive()
  unsigned kept_first_ = 0, kept_end_ = 0;
  // Some drivers (tap) report a readable descriptor, but give no packet until the next one comes. After kFalseWakesMax
  // such wake-ups in a row the queue is polled until a packet has come.
  static constexpr unsigned kFalseWakesMax = 4;
  unsigned false_wakes_ = 0;
  bool woken_ = false;  ///< the descriptor was readable when the worker woke
  InterruptWatch watch_;
  QueueCounters counters_;
  std::atomic<bool> stop_wanted_{true};          // control: w, worker: r
  std::atomic<PacketTap*> tap_wanted_{nullptr};  // control: w, worker: r
  std::atomic<bool> stopped_{true};              // worker: w, control: r (before the start: control)
  std::atomic<PacketTap*> tap_{nullptr};         // worker: w, control: r
};

}  // namespace ulnet::dpdk
