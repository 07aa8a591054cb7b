// The machine has no memory left while connections are made: each is refused, and the node serves on. A program of its
// own: it replaces the allocation functions.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "tests/script/sock_rig.h"

namespace {
size_t fail_from = SIZE_MAX;  ///< allocations of so many bytes fail
unsigned failures = 0;
}  // namespace

[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {  // sanitizers have their own
  void* block = bytes >= fail_from ? nullptr : std::malloc(bytes);
  if (block == nullptr) ++failures;
  return block;
}
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (void* block = operator new(bytes, std::nothrow)) return block;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* block, const std::nothrow_t&) noexcept {
  std::free(block);
}
[[gnu::noinline]] void operator delete(void* block) noexcept {
  std::free(block);
}
[[gnu::noinline]] void operator delete(void* block, size_t) noexcept {
  std::free(block);
}

namespace ulnet::test {
namespace {

constexpr size_t kLarge = 16 * 1024;  ///< the state of a connection is larger, all else of these tests is smaller

class NoMemory : public testing::Test {
 protected:
  void TearDown() override { fail_from = SIZE_MAX; }
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

}  // namespace
}  // namespace ulnet::test
