// An allocation fails while RoCE makes a queue pair: nothing of it is kept. This is a program of its own, because it
// replaces the allocation functions.
#include <cstdlib>
#include <new>

#include "lnd/rc/roce/qp_numbers_ctl.h"
#include "tests/cluster/roce_net.h"
#include "tests/unit/rc/world.h"

namespace {
constexpr size_t kLarge = 16 * 1024;  ///< most tables of a queue pair are larger, all else of these tests is smaller
uint64_t plenty = UINT64_MAX;         ///< the number of large allocations that succeed before one fails

void* allocated(size_t bytes) {
  if (bytes >= kLarge && plenty != UINT64_MAX && plenty-- == 0) throw std::bad_alloc();
  if (void* block = std::malloc(bytes)) return block;
  throw std::bad_alloc();
}
}  // namespace

[[gnu::noinline]] void* operator new(size_t bytes) {  // all forms: sanitizers have their own
  return allocated(bytes);
}
[[gnu::noinline]] void* operator new[](size_t bytes) {
  return allocated(bytes);
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(bytes);
}
[[gnu::noinline]] void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return allocated(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
[[gnu::noinline]] void operator delete(void* block) noexcept {
  std::free(block);
}
[[gnu::noinline]] void operator delete[](void* block) noexcept {
  std::free(block);
}
[[gnu::noinline]] void operator delete(void* block, size_t) noexcept {
  std::free(block);
}
[[gnu::noinline]] void operator delete[](void* block, size_t) noexcept {
  std::free(block);
}

namespace ulnet::test {
namespace {

/// Two nodes with one worker each. Queue pairs are never adopted.
class RoceMemory : public ::testing::Test {
 protected:
  RoceMemory() {
    net.now = now;
    for (unsigned i = 0; i < 2; ++i) nodes.push_back(net.make_node({address(i)}, 1));
    EXPECT_TRUE(control(1).listen({address(1), kPort}));
  }
  ~RoceMemory() override {
    for (int i = 0; i < 100; ++i) pass();
    EXPECT_EQ(net.conns(), 0u);
    nodes.clear();
  }
  [[nodiscard]] static rc::IpAddress address(unsigned index) { return rc::IpAddress::of_v4(0x0A000001 + index); }
  [[nodiscard]] rc::Control& control(unsigned node) { return nodes[node]->control(); }
  [[nodiscard]] static rc::QpNeeds needs() {
    rc::QpNeeds all = usual_needs();
    all.receives = 8192;
    all.buffer_bytes = 16;
    all.keys = 1024;
    all.work = 512;
    all.pieces = 1;
    return all;
  }
  void pass() {
    now += 1ms;
    net.run(now);
    for (const auto& node : nodes) {
      node->worker(kWorker).poll(64, now);
      node->worker(kWorker).flush(now);
    }
  }
  /// The next event of this node.
  rc::Event next(unsigned node) {
    rc::Event event;
    for (int i = 0; i < 10'000; ++i, pass())
      if (control(node).poll({&event, 1}, now) == 1) return event;
    ADD_FAILURE() << "no event";
    return event;
  }
  /// Nothing: the allocation that fails has been thrown.
  std::optional<rc::ConnId> dial(uint64_t allocations = UINT64_MAX) {
    plenty = allocations;
    try {
      const auto conn = control(0).dial({.local = address(0), .remote = {address(1), kPort}, .needs = needs()}, now);
      plenty = UINT64_MAX;
      EXPECT_TRUE(conn);
      return conn.value_or(0);
    } catch (const std::bad_alloc&) {
      plenty = UINT64_MAX;
      return std::nullopt;
    }
  }
  /// False: the same.
  bool prepare(rc::ConnId conn, uint64_t allocations) {
    plenty = allocations;
    try {
      control(1).prepare(conn, needs(), now);
      plenty = UINT64_MAX;
      return true;
    } catch (const std::bad_alloc&) {
      plenty = UINT64_MAX;
      return false;
    }
  }
  void end(unsigned node, rc::ConnId conn) {
    control(node).disconnect(conn, now);
    control(node).destroy(conn, now);
  }

  Instant now = kNever + 1s;
  RoceNet net{7};
  std::vector<std::unique_ptr<RoceNode>> nodes;
};

// Goal: a connection that was not made leaves nothing: neither itself, nor its source port, nor the number of its queue
// pair. If there is no memory for the buffers of messages, the connection fails.
TEST_F(RoceMemory, the_active_side) {
  const auto conn = dial(0);
  ASSERT_TRUE(conn);
  const rc::Event failed = next(0);
  EXPECT_EQ(failed.kind, rc::EventKind::kFailed);
  EXPECT_EQ(failed.cause, rc::Cause::kResources);
  end(0, *conn);
  uint64_t allocations = 1;
  while (true) {
    const auto more = dial(allocations);
    if (more) end(0, *more);
    if (more) break;
    EXPECT_EQ(net.conns(), 0u);
    ++allocations;
  }
  EXPECT_EQ(allocations, 3u) << "buffers, keys, and the order of receive buffers";
  for (uint32_t i = 0; i <= rc::roce::kQpPlaces; ++i) ASSERT_FALSE(dial(1 + i % 2));
  const auto last = dial();
  ASSERT_TRUE(last);
  EXPECT_EQ(next(0).kind, rc::EventKind::kReady);
  end(0, *last);
}

// Goal: a request for which there is no memory still waits, and the user may accept it later.
TEST_F(RoceMemory, the_passive_side) {
  const auto conn = dial();
  ASSERT_TRUE(conn);
  EXPECT_EQ(next(0).kind, rc::EventKind::kReady);
  control(0).proceed(*conn, {}, now);
  const rc::Event request = next(1);
  ASSERT_EQ(request.kind, rc::EventKind::kRequest);
  for (uint32_t i = 1; i <= 2; ++i) ASSERT_FALSE(prepare(request.conn, i));
  for (uint32_t i = 0; i <= rc::roce::kQpPlaces; ++i) ASSERT_FALSE(prepare(request.conn, 3 + i % 3));
  ASSERT_TRUE(prepare(request.conn, 6)) << "buffers, keys, the order of receive buffers, operations, segments, loans";
  EXPECT_EQ(next(1).kind, rc::EventKind::kReady);
  control(1).proceed(request.conn, {}, now);
  EXPECT_EQ(next(0).kind, rc::EventKind::kEstablished);
  end(0, *conn);
  end(1, request.conn);
}

// Goal: if there is no memory for the buffers of messages, the peer gets a refusal at once.
TEST_F(RoceMemory, no_memory_for_a_request) {
  const auto conn = dial();
  ASSERT_TRUE(conn);
  EXPECT_EQ(next(0).kind, rc::EventKind::kReady);
  control(0).proceed(*conn, {}, now);
  const rc::Event request = next(1);
  ASSERT_TRUE(prepare(request.conn, 0));
  EXPECT_EQ(next(1).cause, rc::Cause::kResources);
  const Instant before = now;
  EXPECT_EQ(next(0).cause, rc::Cause::kRefused);
  EXPECT_LT(now - before, 100ms) << "of the time line";
  end(0, *conn);
  end(1, request.conn);
}

}  // namespace
}  // namespace ulnet::test
