#include "tests/cluster/ib_rig.h"

#include "lnd/o2iblnd/fields.h"
#include "lnd/o2iblnd/ib_lnd.h"
#include "lnd/o2iblnd/ib_lnd_ctl.h"
#include "lnd/o2iblnd/proto/message.h"

namespace ulnet::test {
namespace {

using o2iblnd::MessageFault;
using o2iblnd::MessageType;
using o2iblnd::Staging;

const DriverType& ib_type() {
  static const DriverType type{
      .name = "o2iblnd", .net_type = NetType::kO2ib, .ni_tunables = o2iblnd::ib_tunable_fields()};
  return type;
}

}  // namespace

IbRig::IbRig(std::unique_ptr<rc::Provider> provider, unsigned workers, const o2iblnd::IbConfig& config)
    : config_(config), staging_(workers * Staging::kBlockBytes), provider_(std::move(provider)) {
  ULNET_CHECK(provider_->control().region_add(o2iblnd::kStagingRegion, staging_).has_value());
}

LndEntry IbRig::entry(std::function<LndCore&(LndCore&)> core_for) {
  return {&ib_type(),
          [this, core_for](LndCore& core) {
            const WorkerId worker = core.worker_id();
            const auto staging = std::span(staging_).subspan(worker.value * Staging::kBlockBytes, Staging::kBlockBytes);
            return std::make_unique<o2iblnd::IbLnd>(core_for(core), provider_->worker(worker), config_, staging);
          },
          [this](LndControlHost& host) {
            return std::make_unique<o2iblnd::IbLndControl>(host, provider_->control(), config_);
          }};
}

void see_messages(rc::sim::Net& net, SeeMessage see) {
  net.hook = [see = std::move(see)](std::span<const std::byte> bytes) {
    o2iblnd::Message message;
    if (message_decode(bytes, message) != MessageFault::kNone) return;
    switch (message.type) {
      case MessageType::kImmediate:
      case MessageType::kPutReq:
      case MessageType::kGetReq: return see(message.ends.src, message.ends.dst, message.header);
      default: return;
    }
  };
}

}  // namespace ulnet::test
