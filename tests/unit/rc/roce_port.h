// A packet port for tests of RoCE over ports: DPDK's ring, which gives back what the port sends. So a test can put any
// frame into the port, and see all that it sends. No threads.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "lnd/net/dpdk/port.h"
#include "lnd/rc/roce/roce.h"

namespace ulnet::test {

/// A provider that has the queues and facts of its ports noted. The rest is that of the real one.
class NotedProvider final : public rc::roce::RoceProvider {
 public:
  explicit NotedProvider(unsigned workers = 1)
      : real_(*rc::roce::open_provider({.workers = workers, .seed = 1, .threads = false})) {}
  rc::Control& control() override { return real_->control(); }
  rc::Worker& worker(WorkerId id) override { return real_->worker(id); }
  Result<uint8_t> add_port(rc::roce::PortFacts facts) override {
    auto number = real_->add_port(facts);
    if (number) ports.push_back(std::move(facts));
    return number;
  }
  void set_link(uint8_t port, const rc::roce::PortLink& link) override {
    links[port] = link;
    real_->set_link(port, link);
  }
  void attach(uint8_t port, WorkerId worker, rc::roce::WorkerPort& queue) override {
    queues[{port, worker.value}] = &queue;
    real_->attach(port, worker, queue);
  }
  void detach(uint8_t port, WorkerId worker) override {
    queues.erase({port, worker.value});
    real_->detach(port, worker);
  }
  size_t connections() const override { return real_->connections(); }
  uint64_t count(uint8_t port, rc::roce::Count which) const override { return real_->count(port, which); }

  std::map<std::pair<uint8_t, uint16_t>, rc::roce::WorkerPort*> queues;  ///< by port and worker: attached now
  std::vector<rc::roce::PortFacts> ports;
  std::map<uint8_t, rc::roce::PortLink> links;

 private:
  std::unique_ptr<rc::roce::RoceProvider> real_;
};

using FrameBytes = std::vector<std::byte>;

/// Properties of a frame besides its addresses.
struct FrameShape {
  std::vector<uint16_t> vlan_tags;
  unsigned option_bytes = 0;  ///< of the IPv4 header; a multiple of 4
  uint16_t source_port = 0xC001, destination_port = 4791;
  uint8_t traffic_class = 0;
  uint16_t identification = 0;  ///< in the IPv4 header
};

/// Address and MAC address of end `index` of the wire that a ring stands for. A port is end 1.
[[nodiscard]] dpdk::IpAddress ring_address(unsigned index);
[[nodiscard]] dpdk::Mac ring_mac(unsigned index);
/// A port with the address of end `own`. All ends below 10 are its neighbours.
[[nodiscard]] dpdk::PortConfig ring_config(const std::string& name, unsigned own = 1);
/// Opened, and its queues started. Null after a failure of the test.
[[nodiscard]] std::unique_ptr<dpdk::Port> ring_open(const dpdk::PortConfig& config, Instant now, unsigned workers = 1);
void ring_start(dpdk::Port& port, Instant now);
/// Completes the stop in the workers' place.
void ring_stop(dpdk::Port& port, Instant now);

/// A frame of UDP from one end to another.
[[nodiscard]] FrameBytes frame_of(unsigned from, unsigned to, const FrameBytes& payload, const FrameShape& shape = {});
/// Bytes that differ from place to place.
[[nodiscard]] FrameBytes bytes_of(size_t count, uint8_t first = 0);
/// Puts a frame into the port, in buffers of at most these sizes, and the rest in as few as possible.
void ring_put(dpdk::PortQueue& queue, const FrameBytes& frame, Instant now, const std::vector<uint32_t>& cuts = {});
/// Takes all that is in the port, as bytes.
[[nodiscard]] std::vector<FrameBytes> ring_take(dpdk::PortQueue& queue, Instant now);

}  // namespace ulnet::test
