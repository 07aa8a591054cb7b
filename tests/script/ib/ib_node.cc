#include "tests/script/ib/ib_node.h"

namespace ulnet::test {

using namespace o2iblnd;

namespace {

IbConfig config_of(const IbNodeOptions& options, unsigned number) {
  IbConfig config = options.config;
  if (config.incarnation == 0) config.incarnation = ib_stamp(number);
  return config;
}

}  // namespace

IbNode::IbNode(IbNet& in, unsigned which, const IbNodeOptions& options)
    : IbCore(in, which, config_of(options, which), 1) {
  if (options.settings) {
    const DriverContext context{.settings = *options.settings, .workers = 1, .incarnation = ib_stamp(which) * 1000};
    driver = make_ib_driver(context, std::move(provider), true).value();
    control.reset(static_cast<IbLndControl*>(driver->make_control(*this).release()));
    lnd.reset(static_cast<IbLnd*>(driver->make_worker(*this).release()));
  } else {
    control = std::make_unique<IbLndControl>(*this, provider->control(), config_of(options, which));
  }
  params_.id = NiId{1};
  params_.nid = options.nid.is_any() ? ib_nid(which) : options.nid;
  params_.peer_credits = options.peer_credits;
  params_.tunables = options.tunables;
  params_.slices = {nullptr};
  now = kNever + 1s;
  start();
}

void IbNode::start() {
  stopped = false;
  EXPECT_TRUE(control->ni_start(params_, now));
}

IbNode::~IbNode() {
  EXPECT_TRUE(stopped) << "the NI was not stopped";
  control.reset();
  lnd.reset();
  driver.reset();
}

Result<PeerPlace> IbNode::place_peer(const Nid& nid, NiId) {
  if (no_place) return fail(ENOMEM, "no room for another peer");
  const uint32_t peer = nid.address_v4() - 0x0A000001;
  return PeerPlace{PeerNiId{kPeerNi.value + peer}, WorkerId{0},
                   reinterpret_cast<PeerSlice*>(uintptr_t{peer + 1} * 64)};  // named only
}

}  // namespace ulnet::test
