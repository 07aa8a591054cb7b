// Devices of the verbs provider, over a stand-in for rdma-core.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "lnd/rc/verbs/hca_ctl.h"
#include "tests/unit/rc/fake_rdma.h"

namespace ulnet::rc::verbs {
namespace {

using test::fake;

struct RcHca : ::testing::Test {
  RcHca() {
    test::fake_reset();
    open();
  }
  void open() { hca = Hca::open(&device.device, 2); }
  [[nodiscard]] std::unique_ptr<VerbsQp> make(ConnId conn = 2, uint32_t work = 32) {
    const QpNeeds needs{.receives = 18, .sends = 16, .buffer_bytes = 4096, .work = work, .keys = 3};
    return hca->make_qp(conn, needs, {}, 0, 0, 1);
  }
  test::FakeDevice device;
  std::unique_ptr<Hca> hca;
};

TEST_F(RcHca, a_queue_pair_bears_the_number_of_its_connection) {
  auto qp = make(4242);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(qp->qp->qp_context, reinterpret_cast<void*>(uintptr_t{4242}));
  EXPECT_EQ(qp->conn, 4242u);
  hca->unmake_qp(std::move(qp));
  EXPECT_TRUE(fake().qps.empty() && fake().windows.empty() && fake().regions.empty());
  EXPECT_FALSE(hca->free_refused());
}

TEST_F(RcHca, only_rdma_rxe_is_forgetful) {
  for (const auto& [vendor, forgets] : std::map<uint32_t, bool>{{0x2C9, false}, {0xFFFFFF, true}}) {
    device.vendor_id = vendor;
    open();
    auto qp = make();
    ASSERT_NE(qp, nullptr);
    EXPECT_EQ(qp->forgetful, forgets) << vendor;
    EXPECT_EQ(qp->work, 32u);
    EXPECT_EQ(qp->ring, forgets ? 34u : 32u);
    hca->unmake_qp(std::move(qp));
  }
}

// Goal: memory stays mapped and registered while a device may use it.
TEST_F(RcHca, memory_of_a_queue_pair_that_the_device_refuses_to_let_go) {
  auto qp = make();
  std::byte* memory = qp->receive_memory;
  fake().refuse_qp = 2;
  hca->unmake_qp(std::move(qp));
  EXPECT_EQ(fake().qps.size(), 1u);
  EXPECT_EQ(fake().regions.size(), 1u);
  memory[0] = std::byte{1};
  EXPECT_TRUE(hca->free_refused());
  memory[0] = std::byte{2};
  EXPECT_FALSE(hca->free_refused());
  EXPECT_TRUE(fake().qps.empty() && fake().regions.empty());
}

// Goal: a queue pair does not go while one of its windows is left.
TEST_F(RcHca, windows_that_the_device_refuses_to_let_go) {
  auto qp = make();
  fake().refuse_window = 1;
  EXPECT_FALSE(hca->destroy_qp(*qp));
  EXPECT_EQ(fake().windows.size(), 1u);
  EXPECT_EQ(fake().qps.size(), 1u);
  EXPECT_TRUE(hca->destroy_qp(*qp));
  EXPECT_TRUE(fake().windows.empty() && fake().qps.empty());
  hca->unmake_qp(std::move(qp));
}

TEST_F(RcHca, buffers_that_the_device_refuses_to_let_go) {
  auto qp = make();
  std::byte* memory = qp->receive_memory;
  fake().refuse_mr = 1;
  hca->unmake_qp(std::move(qp));
  memory[0] = std::byte{1};
  EXPECT_FALSE(hca->free_refused());
  EXPECT_TRUE(fake().regions.empty());
}

TEST_F(RcHca, a_region_that_the_device_refuses_to_let_go) {
  std::array<std::byte, 64> memory{};
  auto keys = hca->region_register({1}, memory);
  ASSERT_TRUE(keys);
  fake().refuse_mr = 1;
  EXPECT_FALSE(Hca::region_deregister(**keys));
  hca->region_keep(std::move(*keys));
  EXPECT_EQ(fake().regions.size(), 1u);
  EXPECT_FALSE(hca->free_refused());
  EXPECT_TRUE(fake().regions.empty());
}

// Goal: queue pairs have more completions than one queue of the device. Each queue has room for those of its own.
TEST_F(RcHca, more_completions_than_one_queue_has) {
  device.max_cqe = 6000;
  open();
  std::vector<std::unique_ptr<VerbsQp>> made;
  std::map<CompletionQueue*, uint32_t> promised;
  std::set<ibv_comp_channel*> channels;
  for (unsigned i = 0; i < 40; ++i) {
    made.push_back(make(2 + 2 * i, 982));
    ASSERT_NE(made.back(), nullptr) << i;
    CompletionQueue* queue = made.back()->cq;
    EXPECT_EQ(queue->receives->cq_context, queue);
    EXPECT_EQ(queue->sends->cq_context, queue);
    promised[queue] += 982;
    channels.insert(queue->channel);
  }
  for (const auto& [queue, count] : promised) {
    EXPECT_LE(count, queue->size);
    EXPECT_LE(queue->receives->cqe, 6000);
    EXPECT_GE(queue->receives->cqe, int(queue->size));
    EXPECT_GE(queue->sends->cqe, int(queue->size));
  }
  EXPECT_GT(promised.size(), 6u);
  EXPECT_EQ(channels.size(), 1u);
  for (auto& qp : made) hca->unmake_qp(std::move(qp));
  const size_t before = fake().cqs.size();
  auto again = make(100, 982);
  EXPECT_EQ(fake().cqs.size(), before) << "a queue has room again";
  hca->unmake_qp(std::move(again));
}

TEST_F(RcHca, completion_queues_have_a_bound) {
  device.max_cqe = 1000;
  open();
  std::vector<std::unique_ptr<VerbsQp>> made;
  for (auto qp = make(2, 982); qp != nullptr; qp = make(2, 982)) made.push_back(std::move(qp));
  EXPECT_EQ(made.size(), kQueuesMax);
  EXPECT_EQ(make(2, 1001), nullptr) << "longer than a queue can be";
  for (auto& qp : made) hca->unmake_qp(std::move(qp));
}

// Goal: when a device is closed, the queue pairs that it has refused to let go end with it.
TEST_F(RcHca, a_device_that_is_closed_with_a_queue_pair) {
  fake().refuse_qp = 2;
  hca->unmake_qp(make());
  hca.reset();
  EXPECT_TRUE(fake().open.empty());
}

}  // namespace
}  // namespace ulnet::rc::verbs
