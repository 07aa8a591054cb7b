// The parts of a verbs provider, put together.
#include "lnd/rc/verbs/control_ctl.h"
#include "lnd/rc/verbs/verbs.h"

namespace ulnet::rc::verbs {
namespace {

class VerbsProvider final : public Provider {
 public:
  explicit VerbsProvider(unsigned workers) {
    for (uint16_t i = 0; i < workers; ++i) workers_.push_back(std::make_unique<VerbsWorker>(WorkerId{i}, stuck_));
    std::vector<VerbsWorker*> all;
    for (const auto& worker : workers_) all.push_back(worker.get());
    cm_ = std::make_unique<CmThread>(std::move(all), stuck_);
    control_ = std::make_unique<VerbsControl>(*cm_);
  }
  Result<void> open() {
    for (const auto& worker : workers_)
      if (auto opened = worker->bell().signal.open(); !opened) return opened;
    return cm_->open();
  }
  Control& control() override { return *control_; }
  Worker& worker(WorkerId id) override { return *workers_.at(id.value); }

 private:
  StuckBell stuck_;
  std::vector<std::unique_ptr<VerbsWorker>> workers_;
  std::unique_ptr<CmThread> cm_;
  std::unique_ptr<VerbsControl> control_;  // goes before the CM thread, which acknowledges its listeners' events
};

}  // namespace

Result<std::unique_ptr<Provider>> open_provider(unsigned workers) {
  auto provider = std::make_unique<VerbsProvider>(workers);
  if (auto opened = provider->open(); !opened) return tl::unexpected(opened.error());
  return provider;
}

}  // namespace ulnet::rc::verbs
