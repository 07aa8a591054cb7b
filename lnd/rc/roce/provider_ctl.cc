// The parts of a RoCE provider, put together.
#include "lnd/rc/roce/control_ctl.h"
#include "lnd/rc/roce/roce.h"

namespace ulnet::rc::roce {
namespace {

class ProviderImpl final : public RoceProvider {
 public:
  explicit ProviderImpl(const ProviderOptions& options) : rng_(options.seed), shared_(options.workers, rng_.next()) {
    std::vector<RoceWorker*> all;
    for (uint16_t i = 0; i < options.workers; ++i)
      all.push_back(workers_.emplace_back(std::make_unique<RoceWorker>(WorkerId{i}, shared_)).get());
    control_ = std::make_unique<RoceControl>(shared_, std::move(all), rng_, options);
  }
  Result<void> open_bells() {
    for (const auto& rings : shared_.rings)
      if (auto opened = rings->bell.signal.open(); !opened) return opened;
    return shared_.control_bell.signal.open();
  }
  Control& control() override { return *control_; }
  Worker& worker(WorkerId id) override { return *workers_.at(id.value); }
  Result<uint8_t> add_port(PortFacts facts) override { return control_->add_port(std::move(facts)); }
  void set_link(uint8_t port, const PortLink& link) override { control_->set_link(port, link); }
  void attach(uint8_t port, WorkerId worker, WorkerPort& queue) override {
    workers_.at(worker.value)->attach(port, queue);
  }
  void detach(uint8_t port, WorkerId worker) override { workers_.at(worker.value)->detach(port); }
  size_t connections() const override { return control_->connections(); }
  uint64_t count(uint8_t port, Count which) const override {
    uint64_t sum = 0;
    for (const auto& worker : workers_) sum += worker->counts(port)[which].get();
    return sum;
  }

 private:
  Rng rng_;
  Shared shared_;
  std::vector<std::unique_ptr<RoceWorker>> workers_;
  std::unique_ptr<RoceControl> control_;
};

}  // namespace

Result<std::unique_ptr<RoceProvider>> open_provider(const ProviderOptions& options) {
  auto provider = std::make_unique<ProviderImpl>(options);
  if (options.threads)
    if (auto opened = provider->open_bells(); !opened) return tl::unexpected(opened.error());
  return provider;
}

}  // namespace ulnet::rc::roce
