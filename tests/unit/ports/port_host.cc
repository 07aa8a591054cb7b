#include "tests/unit/ports/port_host.h"

#include <unistd.h>

#include <cstdlib>

#include "lnd/net/dpdk/eal.h"

namespace ulnet {
namespace {

std::unique_ptr<Host>& the_host() {
  static std::unique_ptr<Host> host;
  return host;
}

class HostForAll final : public testing::Environment {
 public:
  void SetUp() override {
    HostConfig config;
    config.worker_count = 2;
    config.dpdk = DpdkMode::kOwn;
    config.start_eal = &dpdk::start_eal;
    config.eal_memory_mb = 192;
    auto started = Host::start(config);
    ASSERT_TRUE(started.has_value()) << started.error().what;
    the_host() = std::move(*started);
  }
  void TearDown() override { the_host().reset(); }
};

[[maybe_unused]] const testing::Environment* const kHost = testing::AddGlobalTestEnvironment(new HostForAll);

}  // namespace

Host& port_host() {
  return *the_host();
}

unsigned port_index() {
  static unsigned next = 0;
  return next++;
}

Folder::Folder() {
  std::string name = (std::filesystem::temp_directory_path() / "ulnet-ports-XXXXXX").string();
  path_ = ::mkdtemp(name.data());
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace ulnet
