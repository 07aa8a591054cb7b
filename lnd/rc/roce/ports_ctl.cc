#include "lnd/rc/roce/ports_ctl.h"

namespace ulnet::rc::roce {
namespace {

/// Up to a speed that is known, a port does not run slower than it can.
PortLink link_of(const dpdk::LinkState& link) {
  return {link.up, {link.speed_mbps, link.speed_mbps}};
}

}  // namespace

PortAppMaker RocePorts::opening(const dpdk::PortConfig& config) {
  auto& place = numbers_[config.name];
  place = std::make_unique<PortNumber>(-1);
  return [this, number = place.get()](unsigned queue, dpdk::PortQueue& port_queue, dpdk::Stack& stack,
                                      const dpdk::Mac&) -> Result<std::unique_ptr<PortApp>> {
    auto app = std::make_unique<RoceQueue>(provider_, *number, WorkerId{uint16_t(queue)}, port_queue, stack);
    if (auto opened = app->open(); !opened) return tl::unexpected(opened.error());
    return app;
  };
}

Result<void> RocePorts::opened(const dpdk::Port& port, const dpdk::LinkState& link) {
  const dpdk::PortConfig& config = port.config();
  PortFacts facts;
  facts.name = config.name;
  for (const dpdk::IpPrefix& own : config.addresses.own) facts.addresses.push_back(own.address);
  facts.mac = port.mac();
  facts.mtu = config.mtu;
  facts.workers = port.queue_count();
  facts.worker_of = [&port](const IpAddress& from, const IpAddress& to,
                            uint16_t source_port) -> std::optional<WorkerId> {
    const dpdk::RssModel& rss = port.rss();  // a reset may have changed it
    if (!rss.known) return std::nullopt;
    return WorkerId{rss.queue_of({from, to, source_port, kUdpPort})};
  };
  const auto number = provider_.add_port(std::move(facts));
  if (!number) return tl::unexpected(number.error());
  provider_.set_link(*number, link_of(link));
  numbers_.at(config.name)->store(*number, std::memory_order_release);
  return {};
}

void RocePorts::link_changed(const std::string& name, const dpdk::LinkState& link) {
  if (const int number = number_of(name); number >= 0) provider_.set_link(uint8_t(number), link_of(link));
}

int RocePorts::number_of(const std::string& name) const {
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? -1 : found->second->load(std::memory_order_relaxed);
}

std::vector<PortUser::Count> RocePorts::counts(const std::string& name) const {
  std::vector<Count> all;
  const int number = number_of(name);
  for (unsigned i = 0; number >= 0 && i < unsigned(roce::Count::kCount); ++i) {
    const auto which = roce::Count(i);
    all.push_back({&text_of(which), provider_.count(uint8_t(number), which)});
  }
  return all;
}

}  // namespace ulnet::rc::roce
