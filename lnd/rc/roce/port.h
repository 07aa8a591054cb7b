// The ports that RoCE runs over, as workers see them. A port has a queue on each worker. The opener of the ports
// implements WorkerPort (roce.h).
#pragma once
#include "dataplane/base/time.h"
#include "dataplane/state/payload.h"
#include "lnd/net/packet/drops.h"
#include "lnd/rc/roce/arrival.h"
#include "lnd/rc/roce/loan.h"

namespace ulnet::rc::roce {

using dpdk::FrameDrop;

inline constexpr unsigned kRocePortsMax = 32;  ///< of one node

/// A packet to send, in parts: headers from IP on, the next `bytes` of a payload, and what is behind them.
struct Departure {
  IpAddress to;
  Bytes head;
  PayloadCursor payload;
  uint32_t bytes = 0;
  Bytes tail;
  Loan* loan = nullptr;  ///< the packet may refer to the payload; null: it is copied
};

/// A worker's queue of a port. Thread: the worker.
class WorkerPort {
 public:
  /// Takes packets that have come; returns how many.
  [[nodiscard]] virtual unsigned take(std::span<Arrival> out, Instant now) = 0;
  /// The packet has been used. Maybe another worker's queue of this port took it.
  virtual void release(const Arrival& arrival) = 0;
  /// The same for a packet that is of no use.
  virtual void drop(const Arrival& arrival, FrameDrop reason, Instant now) = 0;
  /// May the packet stay for longer than a turn? True: it is the caller's until let_go(). False: release() follows.
  [[nodiscard]] virtual bool keep(const Arrival& arrival) = 0;
  /// Gives back what keep() left to the caller: Arrival::packet.
  virtual void let_go(void* packet) = 0;
  /// Packets that send() takes now. A port without a link takes and drops them.
  [[nodiscard]] virtual unsigned room(Instant now) = 0;
  /// Copies the packet, but for a payload that is lent. False: no buffer is left, and nothing was sent. Requires:
  /// room().
  virtual bool send(const Departure& packet, Instant now) = 0;
  /// Hands what was sent to the device.
  virtual void flush(Instant now) = 0;
  /// True if take() would find something.
  [[nodiscard]] virtual bool pending() = 0;

 protected:
  ~WorkerPort() = default;
};

}  // namespace ulnet::rc::roce
