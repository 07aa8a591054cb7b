// Our RoCE over one packet port, on the thread of its user: nothing else of a node.
#pragma once
#include <array>
#include <memory>
#include <string>

#include "lnd/net/dpdk/eal.h"
#include "lnd/rc/roce/ports_ctl.h"

namespace ulnet::test {

struct RocePortConfig {
  std::string interface;
  dpdk::IpPrefix address;
  uint16_t mtu = 1500;
};

class RocePort {
 public:
  /// Once in a process. Errors: those of the environment, the device and the provider.
  [[nodiscard]] static Checked<std::unique_ptr<RocePort>> open(const RocePortConfig& config);
  ~RocePort();
  RocePort(const RocePort&) = delete;
  RocePort& operator=(const RocePort&) = delete;

  [[nodiscard]] rc::roce::RoceProvider& provider() { return *provider_; }
  [[nodiscard]] rc::Worker& worker() { return provider_->worker(WorkerId{}); }
  /// Moves packets; returns work done.
  unsigned turn(Instant now);
  /// Counts of `port show -v 1` below `roce` and `drops`, without zeros, as fields of JSON.
  [[nodiscard]] std::string counts();

 private:
  RocePort() = default;
  std::unique_ptr<dpdk::Eal> eal_;
  std::unique_ptr<rc::roce::RoceProvider> provider_;
  std::unique_ptr<rc::roce::RocePorts> ports_;
  std::unique_ptr<dpdk::Port> port_;
  std::unique_ptr<PortWorker> worker_;
};

}  // namespace ulnet::test
