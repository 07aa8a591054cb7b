// The part of a driver that uses packet ports. The process that opens ports reports them to it. Thread: control.
#pragma once
#include <string>
#include <vector>

#include "lnd/net/dpdk/port_worker.h"

namespace ulnet {

class PortUser {
 public:
  /// A port is about to be opened. Makes what its workers run with it; an empty maker stands for nothing.
  [[nodiscard]] virtual PortAppMaker opening(const dpdk::PortConfig& config) = 0;
  /// The port is open, until the workers of the nodes have stopped.
  /// Errors: why the driver cannot use it.
  [[nodiscard]] virtual Result<void> opened(const dpdk::Port& port, const dpdk::LinkState& link) = 0;
  virtual void link_changed(const std::string& name, const dpdk::LinkState& link) = 0;
  /// Events of its protocol at this port, for `port show`.
  struct Count {
    const CounterText* text = nullptr;
    uint64_t value = 0;
  };
  [[nodiscard]] virtual std::vector<Count> counts(const std::string& name) const = 0;
  /// The name of the protocol, one word.
  [[nodiscard]] virtual const char* protocol() const = 0;

 protected:
  ~PortUser() = default;
};

}  // namespace ulnet
