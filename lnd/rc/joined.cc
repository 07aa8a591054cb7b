#include "lnd/rc/joined.h"

#include <algorithm>
#include <cerrno>

#include "dataplane/base/check.h"

namespace ulnet::rc {
namespace {

class JoinedWorker final : public Worker {
 public:
  JoinedWorker(Worker& first, Worker& second) : first_(first), second_(second) {}
  void adopt(Qp& qp, QpUser& user) override { of(qp).adopt(qp, user); }
  void release(Qp& qp) override { of(qp).release(qp); }
  void receive(Qp& qp, uint32_t buffer) override { of(qp).receive(qp, buffer); }
  Posted send(Qp& qp, uint32_t buffer, uint32_t bytes, uint64_t token, Wake wake) override {
    return of(qp).send(qp, buffer, bytes, token, wake);
  }
  Posted write(Qp& qp, std::span<const Segment> from, uint32_t key, uint64_t address, uint64_t token) override {
    return of(qp).write(qp, from, key, address, token);
  }
  Posted key_open(Qp& qp, RemoteKey& key, const Payload& window) override { return of(qp).key_open(qp, key, window); }
  Posted key_close(Qp& qp, RemoteKey& key) override { return of(qp).key_close(qp, key); }
  uint32_t room(const Qp& qp) const override { return (is_second(qp) ? second_ : first_).room(qp); }

  /// Both in turn come first, so none waits for the other for ever.
  unsigned poll(unsigned budget, Instant now) override {
    Worker& one = swapped_ ? second_ : first_;
    Worker& other = swapped_ ? first_ : second_;
    swapped_ = !swapped_;
    const unsigned count = one.poll(budget, now);
    return count < budget ? count + other.poll(budget - count, now) : count;
  }
  unsigned timers(Instant now) override { return first_.timers(now) + second_.timers(now); }
  void flush(Instant now) override {
    first_.flush(now);
    second_.flush(now);
  }
  Instant next_deadline() override { return std::min(first_.next_deadline(), second_.next_deadline()); }
  bool pending() override {
    const bool pending = first_.pending();
    return second_.pending() || pending;  // each call prepares its provider for the sleep
  }
  unsigned wait_fds(std::span<int> out) override {
    const unsigned count = first_.wait_fds(out);
    return count + second_.wait_fds(out.subspan(count));
  }

 private:
  [[nodiscard]] static bool is_second(const Qp& qp) { return qp.conn >= kSecondConns; }
  [[nodiscard]] Worker& of(const Qp& qp) { return is_second(qp) ? second_ : first_; }
  Worker& first_;
  Worker& second_;
  bool swapped_ = false;
};

class JoinedControl final : public Control {
 public:
  JoinedControl(Control& first, Control& second) : first_(first), second_(second) {}
  Result<ListenerId> listen(const Endpoint& at) override {
    auto opened = second_.listen(at);
    if (opened || opened.error().code != -ENODEV) return opened;
    opened = first_.listen(at);
    if (opened || opened.error().code != -ENODEV) return opened;
    return fail(ENODEV, "neither a port under ulnet: devices: nor an RDMA device of this machine has this address");
  }
  void unlisten(ListenerId id) override { (id >= kSecondListeners ? second_ : first_).unlisten(id); }
  Device device(ListenerId id) const override { return (id >= kSecondListeners ? second_ : first_).device(id); }
  Result<ConnId> dial(const DialSpec& spec, Instant now) override {
    auto begun = second_.dial(spec, now);
    return begun || begun.error().code != -EADDRNOTAVAIL ? begun : first_.dial(spec, now);
  }
  void prepare(ConnId id, const QpNeeds& needs, Instant now) override { of(id).prepare(id, needs, now); }
  void reject(ConnId id, std::span<const std::byte> data, Instant now) override { of(id).reject(id, data, now); }
  void proceed(ConnId id, std::span<const std::byte> data, Instant now) override { of(id).proceed(id, data, now); }
  void disconnect(ConnId id, Instant now) override { of(id).disconnect(id, now); }
  void destroy(ConnId id, Instant now) override { of(id).destroy(id, now); }
  Result<void> region_add(RegionId region, std::span<std::byte> memory) override {
    if (auto added = first_.region_add(region, memory); !added) return added;
    auto added = second_.region_add(region, memory);
    if (!added) first_.region_remove(region);
    return added;
  }
  void region_remove(RegionId region) override {
    second_.region_remove(region);
    first_.region_remove(region);
  }
  unsigned poll(std::span<Event> out, Instant now) override {
    const unsigned count = first_.poll(out, now);
    return count + second_.poll(out.subspan(count), now);
  }
  Instant next_deadline() override { return std::min(first_.next_deadline(), second_.next_deadline()); }
  void wait_fds(std::vector<int>& out) override {
    first_.wait_fds(out);
    second_.wait_fds(out);
  }

 private:
  [[nodiscard]] Control& of(ConnId id) { return id >= kSecondConns ? second_ : first_; }
  Control& first_;
  Control& second_;
};

class Joined final : public Provider {
 public:
  Joined(std::unique_ptr<Provider> first, std::unique_ptr<Provider> second, unsigned workers)
      : first_(std::move(first)), second_(std::move(second)), control_(first_->control(), second_->control()) {
    for (uint16_t i = 0; i < workers; ++i)
      workers_.push_back(std::make_unique<JoinedWorker>(first_->worker(WorkerId{i}), second_->worker(WorkerId{i})));
  }
  Control& control() override { return control_; }
  Worker& worker(WorkerId id) override { return *workers_.at(id.value); }

 private:
  std::unique_ptr<Provider> first_, second_;
  JoinedControl control_;
  std::vector<std::unique_ptr<JoinedWorker>> workers_;
};

}  // namespace

std::unique_ptr<Provider> join(std::unique_ptr<Provider> first, std::unique_ptr<Provider> second, unsigned workers) {
  return std::make_unique<Joined>(std::move(first), std::move(second), workers);
}

}  // namespace ulnet::rc
