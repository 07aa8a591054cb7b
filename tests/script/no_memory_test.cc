// The machine has no memory left while connections are made: each is refused, and the node serves on. A program of its
// own: it replaces the allocation functions.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>
#include <new>

#include "tests/script/sock_rig.h"

namespace {
size_t fail_from = SIZE_MAX;  ///< allocations of this many bytes or more fail
unsigned failures = 0;
// While `limited` is set, the next `plenty` allocations succeed. Later ones succeed only with bytes freed since then.
bool limited = false;
uint64_t plenty = UINT64_MAX;
size_t bytes_left = 0;

void* allocated(size_t bytes) {
  if (bytes >= fail_from) return nullptr;
  void* block = std::malloc(bytes);
  if (!limited) return block;
  if (plenty > 0) {
    --plenty;
    return block;
  }
  const size_t size = malloc_usable_size(block);
  if (size > bytes_left) {
    std::free(block);
    return nullptr;
  }
  bytes_left -= size;
  return block;
}
}  // namespace

[[gnu::noinline]] void* operator new(size_t bytes) {  // sanitizers have their own
  while (true) {
    if (void* block = allocated(bytes)) return block;
    ++failures;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
[[gnu::noinline]] void operator delete(void* block) noexcept {
  if (limited) bytes_left += malloc_usable_size(block);
  std::free(block);
}
[[gnu::noinline]] void operator delete(void* block, const std::nothrow_t&) noexcept {
  operator delete(block);
}
[[gnu::noinline]] void operator delete(void* block, size_t) noexcept {
  operator delete(block);
}

namespace ulnet::test {
namespace {

constexpr size_t kLarge = 16 * 1024;  ///< the state of a connection is larger, all else of these tests is smaller

class NoMemory : public testing::Test {
 protected:
  void TearDown() override {
    fail_from = SIZE_MAX;
    limited = false;
    plenty = UINT64_MAX;
    bytes_left = 0;
  }
};

// Goal: a connection for which there is no memory is refused, said once in a while, and made when memory is back.
TEST_F(NoMemory, accepted_connection_is_refused) {
  SockRig rig;
  SockNode& node = rig.add({.nids = {"10.0.0.2@tcp"}});
  const auto dial = [&](const std::string& address) -> RawPeer& {
    RawPeer& peer = rig.foreign(address.c_str());
    peer.dial("10.0.0.2");
    peer.send(raw_request("10.0.0.2@tcp") + raw_hello(3, address + "@tcp", "10.0.0.2@tcp", 1));
    rig.run_for(20ms);
    return peer;
  };
  RawPeer& before = dial("10.0.0.1");
  failures = 0;
  fail_from = kLarge;
  for (int i = 0; i < 100; ++i) {
    RawPeer& refused = dial("10.0.1." + std::to_string(i + 1));
    EXPECT_NE(refused.end, RawPeer::End::kOpen) << i;
    EXPECT_TRUE(refused.in.empty()) << i;
  }
  EXPECT_GE(failures, 100u);
  fail_from = SIZE_MAX;
  EXPECT_LE(node.logged.size(), 10u);
  ASSERT_FALSE(node.logged.empty());
  EXPECT_NE(node.logged.front().find("no memory"), std::string::npos) << node.logged.front();
  RawPeer& after = dial("10.0.0.3");
  EXPECT_EQ(after.in.size(), 56u);
  EXPECT_EQ(before.end, RawPeer::End::kOpen);
  EXPECT_TRUE(rig.shut_down());
}

// Goal: memory that runs out between the request and the HELLO refuses the connection, too.
TEST_F(NoMemory, hello_is_refused) {
  SockRig rig;
  rig.add({.nids = {"10.0.0.2@tcp"}});
  RawPeer& peer = rig.foreign("10.0.0.1");
  peer.dial("10.0.0.2");
  peer.send(raw_request("10.0.0.2@tcp"));
  rig.run_for(20ms);
  peer.send(raw_hello(3, "10.0.0.1@tcp", "10.0.0.2@tcp", 1));
  fail_from = kLarge;
  rig.run_for(20ms);
  fail_from = SIZE_MAX;
  EXPECT_NE(peer.end, RawPeer::End::kOpen);
  EXPECT_TRUE(rig.shut_down());
}

// Goal: a message to a peer that is not connected fails when there is no memory, and the next one arrives.
TEST_F(NoMemory, dial_fails) {
  SockRig rig;
  SockNode& a = rig.add({.nids = {"10.0.0.1@tcp"}});
  SockNode& b = rig.add({.nids = {"10.0.0.2@tcp"}});
  fail_from = kLarge;
  const TestTx& lost = a.put("10.0.0.2@tcp", 100);
  EXPECT_TRUE(rig.run_until([&] { return a.unfinished() == 0; }, 60s));
  fail_from = SIZE_MAX;
  EXPECT_EQ(lost.how.error, -ENOMEM);
  rig.run_for(10s);
  const TestTx& arrives = a.put("10.0.0.2@tcp", 100);
  EXPECT_TRUE(rig.run_until([&] { return a.unfinished() == 0; }, 60s));
  EXPECT_EQ(arrives.how.error, 0);
  EXPECT_TRUE(rig.run_until([&] { return b.received.size() == 1; }, 10s));
  EXPECT_TRUE(rig.shut_down());
}

/// 64 peers that connect, 8 that send what no node sends, 8 that leave again, and messages to peers that do not listen.
void crowd(SockRig& rig, SockNode& node) {
  for (int i = 1; i <= 64; ++i) {
    const std::string address = "10.0.1." + std::to_string(i);
    RawPeer& peer = rig.foreign(address.c_str());
    peer.dial("10.0.0.2");
    peer.send(raw_request("10.0.0.2@tcp"));
    rig.run_for(1ms);
    peer.send(i % 8 == 0 ? Bytes(56) : raw_hello(3, address + "@tcp", "10.0.0.2@tcp", 1));
    rig.run_for(1ms);
    if (i % 8 == 1) peer.close();
    if (i % 8 == 2) node.put("10.0.2." + std::to_string(i) + "@tcp", 100);
  }
  rig.run_for(1s);
}

// Goal: any allocation of the control half may be the first that fails. Operations under way then still end, further
// connections are refused, and the node serves again when memory is back.
// Method: each allocation in turn; from there on the control half has only freed memory and its reserve.
TEST_F(NoMemory, any_allocation_of_control_may_be_the_first_that_fails) {
  bool reached = true;
  for (unsigned first = 0; reached; ++first) {
    SCOPED_TRACE(first);
    MemoryReserve reserve;
    SockRig rig;
    SockNode& node = rig.add({.nids = {"10.0.0.2@tcp"}});
    node.reserve = &reserve;
    node.trace_on = false;
    RawPeer& before = rig.foreign("10.0.0.1");
    before.dial("10.0.0.2");
    before.send(raw_request("10.0.0.2@tcp") + raw_hello(3, "10.0.0.1@tcp", "10.0.0.2@tcp", 1));
    rig.run_for(20ms);
    node.around_control = [](bool begins) { limited = begins; };
    plenty = first;
    bytes_left = 0;
    ASSERT_NO_THROW(crowd(rig, node));
    reached = plenty == 0;
    ASSERT_TRUE(first > 0 || !node.logged.empty()) << "connections have been refused";
    plenty = UINT64_MAX;
    before.send(raw_put(3, "10.0.0.1@tcp", "10.0.0.2@tcp", 1, 100));
    RawPeer& after = rig.foreign("10.0.0.3");
    after.dial("10.0.0.2");
    after.send(raw_request("10.0.0.2@tcp") + raw_hello(3, "10.0.0.3@tcp", "10.0.0.2@tcp", 1));
    rig.run_for(20ms);
    ASSERT_EQ(after.in.size(), 56u);
    ASSERT_EQ(node.received.size(), 1u);
    ASSERT_TRUE(rig.shut_down());
    if (first % 8 == 7) first += first / 8;  // many connections repeat the same allocations: the steps may grow
  }
}

}  // namespace
}  // namespace ulnet::test
