// The provider of one node on a simulated net: its two halves (lnd/rc/rc.h).
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "lnd/rc/sim/net.h"

namespace ulnet::rc::sim {

class SimControl final : public Control {
 public:
  SimControl(Net& net, std::vector<IpAddress> addresses) : net_(net), addresses_(std::move(addresses)) {
    for (const IpAddress& one : addresses_) net_.devices[one] = this;
  }
  ~SimControl();

  [[nodiscard]] Result<ListenerId> listen(const Endpoint& at) override;
  void unlisten(ListenerId id) override;
  [[nodiscard]] Device device(ListenerId id) const override;
  [[nodiscard]] Result<ConnId> dial(const DialSpec& spec, Instant now) override;
  void prepare(ConnId id, const QpNeeds& needs, Instant now) override;
  void reject(ConnId id, std::span<const std::byte> private_data, Instant now) override;
  void proceed(ConnId id, std::span<const std::byte> private_data, Instant now) override;
  void disconnect(ConnId id, Instant now) override;
  void destroy(ConnId id, Instant now) override;
  [[nodiscard]] Result<void> region_add(RegionId region, std::span<std::byte> memory) override;
  void region_remove(RegionId region) override { regions_.erase(region); }
  unsigned poll(std::span<Event> out, Instant now) override;
  [[nodiscard]] Instant next_deadline() override { return events_.empty() ? net_.next() : kNever; }
  void wait_fds(std::vector<int>&) override {}

  // --- For the net ---
  [[nodiscard]] bool registered(const Segment& segment) const;
  [[nodiscard]] bool registered(std::span<const Segment> segments) const;
  [[nodiscard]] bool registered(const Payload& window) const;
  void device_known(ListenerId id);
  void device_changed(const IpAddress& address);
  void message_came(Conn& conn);

 private:
  [[nodiscard]] Conn& mine(ConnId id);
  void queue_pair(Conn& conn, const QpNeeds& needs);
  void made(Conn& conn, const QpNeeds& needs);
  void request(ConnId active, const std::vector<std::byte>& data);
  void reply(ConnId passive, const std::vector<std::byte>& data);
  void fail_conn(Conn& conn, Cause cause, std::span<const std::byte> data = {});
  void say(Conn& conn, EventKind kind, Cause cause = Cause::kNone, std::span<const std::byte> data = {});
  void hang_up(ConnId id);
  /// Runs `step` when what this end sends has come to the other end.
  void send(const Conn& conn, std::function<void()> step);

  Net& net_;
  const std::vector<IpAddress> addresses_;
  std::map<ListenerId, Endpoint> listeners_;
  std::set<ListenerId> unknown_;  ///< whose device is not known yet
  std::map<RegionId, std::span<std::byte>> regions_;
  std::deque<Event> events_;
  uint32_t qps_ = 0;
  ListenerId last_listener_ = 0;
};

class SimWorker final : public Worker {
 public:
  SimWorker(Net& net, WorkerId id) : net_(net), id_(id) {}
  void adopt(Qp& qp, QpUser& user) override;
  void release(Qp& qp) override;
  void receive(Qp& qp, uint32_t buffer) override;
  [[nodiscard]] Posted send(Qp& qp, uint32_t buffer, uint32_t bytes, uint64_t token, Wake wake) override;
  [[nodiscard]] Posted write(Qp& qp, std::span<const Segment> from, uint32_t key, uint64_t address,
                             uint64_t token) override;
  [[nodiscard]] Posted key_open(Qp& qp, RemoteKey& key, const Payload& window) override;
  [[nodiscard]] Posted key_close(Qp& qp, RemoteKey& key) override;
  [[nodiscard]] uint32_t room(const Qp& qp) const override;
  unsigned poll(unsigned budget, Instant now) override;
  unsigned timers(Instant) override { return 0; }
  void flush(Instant now) override;
  [[nodiscard]] Instant next_deadline() override { return pending() ? kNever : net_.next(); }
  [[nodiscard]] bool pending() override;
  unsigned wait_fds(std::span<int>) override { return 0; }

 private:
  [[nodiscard]] Posted post(Qp& qp, Op op);
  void tell(SimQp& qp, const Done& done, Instant now);

  Net& net_;
  const WorkerId id_;
  std::set<ConnId> ready_;           ///< their user has something to hear
  std::set<ConnId> posted_;          ///< with operations for flush()
  std::map<ConnId, Instant> quiet_;  ///< only ends that do not wake are there, since then
};

class SimProvider final : public Provider {
 public:
  SimProvider(Net& net, std::vector<IpAddress> addresses, unsigned workers) : control_(net, std::move(addresses)) {
    for (uint16_t i = 0; i < workers; ++i) workers_.push_back(std::make_unique<SimWorker>(net, WorkerId{i}));
  }
  Control& control() override { return control_; }
  Worker& worker(WorkerId id) override { return *workers_.at(id.value); }

 private:
  SimControl control_;
  std::vector<std::unique_ptr<SimWorker>> workers_;
};

}  // namespace ulnet::rc::sim
