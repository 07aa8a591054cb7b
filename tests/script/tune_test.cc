// Tunables that change while NIs run, and the effect of each change from then on.
#include <gtest/gtest.h>

#include "lnd/socklnd/proto/frame.h"
#include "tests/script/sock_rig.h"

namespace ulnet::test {
namespace {

constexpr const char* kUs = "10.0.0.2@tcp";
constexpr const char* kOther = "10.0.0.254@tcp";

struct Tuned {
  Tuned() {
    options.nids = {kUs};
    node = &rig.add(options);
    peer = &rig.foreign("10.0.0.254");
    peer->dial("10.0.0.2");
    peer->send(raw_request(kUs) + raw_hello(2, kOther, kUs, 0));  // version 2 uses an untyped connection for everything
    rig.run_for(20ms);
    peer->in.clear();
  }
  void retune() {
    socklnd::sock_lnd_retune(*node->control, options.config, rig.now);
    rig.run_for(1ms);
  }
  /// Checksum and first cookie of the first frame that the node sends for a PUT of `bytes` bytes.
  socklnd::FrameHeader put(uint32_t bytes) {
    peer->in.clear();
    node->put(kOther, bytes);
    rig.run_for(20ms);
    socklnd::FrameHeader frame;
    std::memcpy(&frame.csum, peer->in.data() + 4, 4);
    std::memcpy(&frame.cookie0, peer->in.data() + 8, 8);
    return frame;
  }
  SockNodeOptions options;
  SockRig rig;
  SockNode* node;
  RawPeer* peer;
};

TEST(SockTune, checksums_and_zero_copy_cookies_follow_at_once) {
  Tuned t;
  EXPECT_EQ(t.put(4096).csum, 0u);
  EXPECT_EQ(t.put(4096).cookie0, 0u);
  t.options.config.enable_csum = true;
  t.options.config.zc_min_payload = 4096;
  t.retune();
  const socklnd::FrameHeader frame = t.put(4096);
  EXPECT_NE(frame.csum, 0u);
  EXPECT_NE(frame.cookie0, 0u);
  t.options.config.enable_csum = false;
  t.options.config.zc_min_payload = 16384;
  t.retune();
  EXPECT_EQ(t.put(4096).csum, 0u);
  EXPECT_EQ(t.put(4096).cookie0, 0u);
}

TEST(SockTune, messages_with_a_cookie_do_not_count_as_copied) {
  Tuned t;
  const Lnd& lnd = *t.node->cores[0]->lnd;
  EXPECT_EQ(lnd.copied_bytes(), 4096u);
  for (const auto& [least, copied] : {std::pair{4096u, 4095u}, std::pair{1u, 0u}, std::pair{16384u, 4096u}}) {
    t.options.config.zc_min_payload = least;
    t.retune();
    EXPECT_EQ(lnd.copied_bytes(), copied) << least;
  }
}

// Goal: with a message to send, a poll may begin the send instead of looking at the sockets, but not twice. After a
// pause it looks, because the same turn judges deadlines.
TEST(SockLook, is_left_out_once_and_never_after_a_pause) {
  Tuned t;
  Lnd& lnd = *t.node->cores[0]->lnd;
  const auto bytes_come = [&](Duration pause) {
    t.node->dead = true;  // does not turn meanwhile
    t.peer->send(raw_noop(0, 0));
    t.rig.run_for(pause);
    t.node->dead = false;
    t.node->put(kOther, 10);
  };
  bytes_come(5s);
  EXPECT_GT(lnd.poll(64, t.rig.now), 0u) << "after a pause";
  t.rig.run_for(20ms);
  (void)lnd.poll(64, t.rig.now);
  bytes_come(500us);
  t.peer->in.clear();
  EXPECT_EQ(lnd.poll(64, t.rig.now), 0u);
  t.node->cores[0]->engine->flush();
  t.node->dead = true;
  t.rig.run_for(200us);
  t.node->dead = false;
  EXPECT_FALSE(t.peer->in.empty()) << "the send has begun";
  t.node->put(kOther, 10);
  EXPECT_GT(lnd.poll(64, t.rig.now), 0u);
  t.rig.run_for(20ms);
  EXPECT_EQ(t.node->unfinished(), 0u);
}

// Goal: an idle connection gets keepalives as soon as they are switched on, at the new interval, and none after that.
TEST(SockTune, keepalive_follows_at_once) {
  SockRig rig;
  SockNodeOptions options{.nids = {kUs}};
  options.config.keepalive = 0s;
  SockNode& node = rig.add(options);
  RawPeer& peer = rig.foreign("10.0.0.254");
  peer.dial("10.0.0.2");
  peer.send(raw_request(kUs) + raw_hello(3, kOther, kUs, 3));
  rig.run_for(20ms);
  ASSERT_EQ(peer.in.size(), 56u);
  peer.in.clear();
  const auto retune = [&](Duration keepalive) {
    options.config.keepalive = keepalive;
    socklnd::sock_lnd_retune(*node.control, options.config, rig.now);
  };
  rig.run_for(100s);
  EXPECT_TRUE(peer.in.empty());
  retune(20s);
  rig.run_for(100s);
  EXPECT_GE(peer.in.size(), 24u * 4);
  retune(0s);
  rig.run_for(1s);
  peer.in.clear();
  rig.run_for(100s);
  EXPECT_TRUE(peer.in.empty());
  EXPECT_TRUE(rig.shut_down());
}

// Goal: dials follow a new back-off, and stay on the port where the node listens.
TEST(SockTune, reconnect_and_what_stays) {
  Tuned t;
  t.options.config.min_reconnect = t.options.config.max_reconnect = 5s;
  t.options.config.accept_port = 4444;
  t.options.config.incarnation = 99;
  t.retune();
  RawPeer& listener = t.rig.foreign("10.0.0.253");
  t.node->put("10.0.0.253@tcp", 10);
  t.rig.run_for(1s);
  EXPECT_EQ(t.node->unfinished(), 0u) << "refused";
  listener.listen();
  t.rig.run_for(2s);
  t.node->put("10.0.0.253@tcp", 10);
  t.rig.run_for(100ms);
  EXPECT_EQ(t.node->unfinished(), 0u) << "the back-off is not over";
  EXPECT_EQ(listener.accepted, 0u);
  t.rig.run_for(3s);
  t.node->put("10.0.0.253@tcp", 10);
  t.rig.run_for(100ms);
  EXPECT_EQ(listener.accepted, 1u);
  const Bytes hello = listener.in;
  ASSERT_EQ(hello.size(), 16u + 56u);
  uint64_t incarnation = 0;
  std::memcpy(&incarnation, hello.data() + 16 + 32, 8);
  EXPECT_EQ(incarnation, 1u);
}

}  // namespace
}  // namespace ulnet::test
