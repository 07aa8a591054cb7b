// What a worker does with a port besides its stack. Thread: the worker.
#pragma once
#include <functional>
#include <memory>

#include "lnd/net/dpdk/stack.h"

namespace ulnet {

class PortApp {
 public:
  virtual ~PortApp() = default;
  /// One turn; none while the queue is stopped. Returns work done. `queue` was not polled by anyone else for apps that
  /// are raw(): they are turned always, since only a receive() lets them in.
  virtual unsigned turn(Instant now) = 0;
  /// Uses the queue itself: no stack polls it.
  [[nodiscard]] virtual bool raw() const { return false; }
  /// When turn() has something to do by itself.
  [[nodiscard]] virtual Instant next_deadline() const { return kForever; }
  /// Gives all packets back. The last call.
  virtual void finish(Instant) {}
  [[nodiscard]] virtual bool done() const { return false; }
};

/// Makes the app of a queue's worker; the queue and the stack outlive it.
using PortAppMaker =
    std::function<Result<std::unique_ptr<PortApp>>(unsigned queue, dpdk::PortQueue&, dpdk::Stack&, const dpdk::Mac&)>;

}  // namespace ulnet
