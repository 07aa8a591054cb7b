// A worker's queue of a packet port, for RoCE. The port's turn receives packets, and the node's turn uses them, both on
// the thread of the worker.
#pragma once
#include <algorithm>
#include <atomic>
#include <memory>

#include "lnd/net/dpdk/port_worker.h"
#include "lnd/rc/roce/roce.h"

namespace ulnet::rc::roce {

inline constexpr unsigned kInboxPackets = 512;  ///< that wait for the node's turn
/// Taken from the device in one turn. With more, a turn has all messages that two nodes have in flight: then each of
/// them works while the other waits (perf/notebook.md).
inline constexpr unsigned kTurnPackets = 16;

/// The provider's number of a port; -1: not known yet. From control to the workers.
using PortNumber = std::atomic<int>;

class RoceQueue final : public PortApp, dpdk::UdpSink, WorkerPort {
 public:
  /// All outlive this. Thread: control.
  RoceQueue(RoceProvider& provider, const PortNumber& number, WorkerId worker, dpdk::PortQueue& queue,
            dpdk::Stack& stack);
  /// Errors: those of Stack::udp_bind().
  [[nodiscard]] Result<void> open();

  unsigned turn(Instant now) override;
  [[nodiscard]] unsigned room() const override { return std::min(kTurnPackets, kInboxPackets - (tail_ - head_)); }
  void finish(Instant now) override;

 private:
  void udp_received(std::span<dpdk::Datagram> datagrams, Instant now) override;
  [[nodiscard]] unsigned take(std::span<Arrival> out, Instant now) override;
  void release(const Arrival& arrival) override;
  void drop(const Arrival& arrival, FrameDrop reason, Instant now) override;
  [[nodiscard]] bool keep(const Arrival& arrival) override;
  void let_go(void* packet) override;
  [[nodiscard]] unsigned room(Instant now) override;
  bool send(const Departure& packet, Instant now) override;
  void flush(Instant now) override { stack_.flush(now); }
  [[nodiscard]] bool pending() override { return head_ != tail_; }

  RoceProvider& provider_;
  const PortNumber& number_;
  const WorkerId worker_;
  dpdk::PortQueue& queue_;
  dpdk::Stack& stack_;
  int attached_ = -1;  ///< the provider's number of the port, when it has this queue
  std::array<dpdk::Datagram, kInboxPackets> inbox_;
  uint32_t head_ = 0, tail_ = 0;  ///< counts of datagrams: taken, received
};

}  // namespace ulnet::rc::roce
