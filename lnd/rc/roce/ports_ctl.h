// The packet ports of the process, as ports of the RoCE provider. Thread: control.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "lnd/net/dpdk/port_user_ctl.h"
#include "lnd/rc/roce/port_queue.h"

namespace ulnet::rc::roce {

class RocePorts final : public PortUser {
 public:
  /// `provider` outlives this; both outlive the ports.
  explicit RocePorts(RoceProvider& provider) : provider_(provider) {}
  [[nodiscard]] PortAppMaker opening(const dpdk::PortConfig& config) override;
  [[nodiscard]] Result<void> opened(const dpdk::Port& port, const dpdk::LinkState& link) override;
  void link_changed(const std::string& name, const dpdk::LinkState& link) override;
  [[nodiscard]] std::vector<Count> counts(const std::string& name) const override;
  [[nodiscard]] const char* protocol() const override { return "roce"; }

 private:
  [[nodiscard]] int number_of(const std::string& name) const;

  RoceProvider& provider_;
  std::map<std::string, std::unique_ptr<PortNumber>> numbers_;
};

}  // namespace ulnet::rc::roce
