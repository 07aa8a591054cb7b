// The world of the verbs provider: two nodes at one port of a real RDMA device, whose address ULNET_RC_ADDRESS is.
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "dataplane/host/clock.h"
#include "lnd/net/packet/net_address_text.h"
#include "lnd/rc/verbs/address.h"
#include "lnd/rc/verbs/verbs.h"
#include "tests/unit/rc/world.h"

namespace ulnet::test {
namespace {

rc::IpAddress address_of_test() {
  const char* text = std::getenv("ULNET_RC_ADDRESS");
  const auto parsed = dpdk::ip_parse(text == nullptr ? "" : text);
  if (!parsed) {
    std::fputs("ULNET_RC_ADDRESS has to be the address of an RDMA device\n", stderr);
    std::exit(2);
  }
  return *parsed;
}

/// A peer that uses rdma_cm as any program may: it sends a REQ, and reads no event from then on.
class SilentPeer {
 public:
  ~SilentPeer() {
    if (id_ != nullptr) (void)rdma_destroy_id(id_);
    if (channel_ != nullptr) rdma_destroy_event_channel(channel_);
  }
  void request(const rc::IpAddress& address) {
    channel_ = rdma_create_event_channel();
    ASSERT_NE(channel_, nullptr);
    ASSERT_EQ(rdma_create_id(channel_, &id_, nullptr, RDMA_PS_TCP), 0);
    rc::verbs::SocketAddress from = rc::verbs::socket_address({address, 0});
    rc::verbs::SocketAddress to = rc::verbs::socket_address({address, kPort});
    ASSERT_EQ(rdma_resolve_addr(id_, &from.any, &to.any, 2000), 0);
    expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    ASSERT_EQ(rdma_resolve_route(id_, 2000), 0);
    expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    rdma_conn_param param{};
    param.private_data = "hello";
    param.private_data_len = 5;
    param.qp_num = 1;
    ASSERT_EQ(rdma_connect(id_, &param), 0);
  }

 private:
  void expect(rdma_cm_event_type type) {
    rdma_cm_event* event = nullptr;
    ASSERT_EQ(rdma_get_cm_event(channel_, &event), 0);
    EXPECT_EQ(event->event, type);
    (void)rdma_ack_cm_event(event);
  }
  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* id_ = nullptr;
};

class VerbsWorld final : public World {
 public:
  VerbsWorld() : address_(address_of_test()) {
    now = clock_now();
    for (auto& node : nodes_) node = std::move(*rc::verbs::open_provider(1));
  }
  rc::Provider& node(unsigned index) override { return *nodes_[index]; }
  rc::IpAddress address(unsigned) const override { return address_; }
  void cut() override { FAIL() << "not possible"; }
  bool can_cut() const override { return false; }
  bool windows_have_bounds() const override { return false; }  // rdma_rxe of Linux 6.1
  void silent_request() override { silent_.request(address_); }
  Instant pass() override {
    ::usleep(50);
    return now = clock_now();
  }

 private:
  const rc::IpAddress address_;
  std::unique_ptr<rc::Provider> nodes_[2];
  SilentPeer silent_;
};

}  // namespace

std::unique_ptr<World> make_world() {
  return std::make_unique<VerbsWorld>();
}

}  // namespace ulnet::test
