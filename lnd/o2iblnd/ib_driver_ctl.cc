// The driver of o2iblnd over any provider: settings, staging memory and the two halves. Thread: control.
#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "lnd/o2iblnd/fields.h"
#include "lnd/o2iblnd/ib_lnd.h"
#include "lnd/o2iblnd/ib_lnd_ctl.h"
#include "lnd/o2iblnd/o2iblnd.h"

namespace ulnet::o2iblnd {
namespace {

/// Pages that come into being when they are used first.
class LazyMemory {
 public:
  LazyMemory() = default;
  LazyMemory(const LazyMemory&) = delete;
  LazyMemory& operator=(const LazyMemory&) = delete;
  ~LazyMemory() {
    if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
  }
  Result<void> open(size_t bytes) {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return fail(ENOMEM, "o2iblnd: no address space for staging memory");
    bytes_ = {static_cast<std::byte*>(at), bytes};
    return {};
  }
  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

class IbDriver final : public Driver {
 public:
  IbDriver(const IbConfig& config, std::unique_ptr<rc::Provider> provider, PortUser* port_user)
      : config_(config), provider_(std::move(provider)), port_user_(port_user) {}
  // The node is gone, so no queue pair uses the memory.
  ~IbDriver() override {
    if (registered_) provider_->control().region_remove(kStagingRegion);
  }

  // Before a node has an NI, no device of the provider is in use: nothing is registered yet, and nothing blocks.
  Result<void> open(unsigned workers) {
    if (auto opened = staging_.open(workers * kStagingBytes); !opened) return opened;
    if (!config_.register_memory) return {};
    if (auto added = provider_->control().region_add(kStagingRegion, staging_.bytes()); !added) return added;
    registered_ = true;
    return {};
  }

  std::unique_ptr<LndControl> make_control(LndControlHost& host) override {
    auto made = std::make_unique<IbLndControl>(host, provider_->control(), config_);
    control_ = made.get();
    return made;
  }
  std::unique_ptr<Lnd> make_worker(LndCore& core) override {
    const WorkerId worker = core.worker_id();
    const auto own = staging_.bytes().subspan(worker.value * kStagingBytes, kStagingBytes);
    return std::make_unique<IbLnd>(core, provider_->worker(worker), config_, own);
  }
  void retune(std::span<const int64_t> settings, Instant now) override {
    if (control_ != nullptr) control_->retune(ib_config(settings), now);
  }
  PortUser* port_user() override { return port_user_; }

 private:
  const IbConfig config_;
  LazyMemory staging_;  // outlives the provider
  std::unique_ptr<rc::Provider> provider_;
  PortUser* const port_user_;  // the provider's
  bool registered_ = false;
  IbLndControl* control_ = nullptr;  // the Node's
};

}  // namespace

Result<std::unique_ptr<Driver>> make_ib_driver(const DriverContext& context, std::unique_ptr<rc::Provider> provider,
                                               bool register_memory, PortUser* port_user) {
  IbConfig config = ib_config(context.settings);
  config.register_memory = register_memory;
  config.incarnation = context.incarnation / 1000;
  auto driver = std::make_unique<IbDriver>(config, std::move(provider), port_user);
  if (auto opened = driver->open(context.workers); !opened) return tl::unexpected<Error>(opened.error());
  return driver;
}

}  // namespace ulnet::o2iblnd
