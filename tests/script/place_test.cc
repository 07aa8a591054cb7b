// Control gives a peer NI a new place. The connections of the peer NI end, and waiting messages leave over new ones at
// the new place. A message that is submitted at the old place fails with an error that permits a resend.
#include <gtest/gtest.h>

#include "dataplane/base/nid_text.h"
#include "tests/script/sock_rig.h"

namespace ulnet::test {
namespace {

constexpr const char* kUs = "10.0.0.1@tcp";
constexpr const char* kThem = "10.0.0.2@tcp";

struct Placed {
  Placed() {
    SockNodeOptions options;
    options.nids = {kUs};
    options.workers = 2;
    a = &rig.add(options);
    options.nids = {kThem};
    b = &rig.add(options);
  }
  bool all_done() {
    return rig.run_until([&] { return a->unfinished() == 0 && b->unfinished() == 0; }, 30s);
  }
  PeerPlace& place() { return a->places[*nid_parse(kThem)]; }
  /// Another number, another worker.
  PeerPlace elsewhere() { return {{place().id.value + 100}, {uint16_t(1 - place().worker.value)}, nullptr}; }
  SockRig rig;
  SockNode* a;
  SockNode* b;
};

TEST(SockPlace, connections_follow_a_peer_to_its_new_place) {
  Placed t;
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 3; ++i) {
      t.a->put(kThem, 3000);
      t.b->put(kUs, 3000);
    }
    ASSERT_TRUE(t.all_done()) << round;
    t.place() = t.elsewhere();
  }
  for (const SockNode* node : {t.a, t.b}) {
    EXPECT_EQ(node->txs.size(), 12u);
    for (const TestTx& tx : node->txs) EXPECT_EQ(tx.how.error, 0) << tx.number;
  }
  EXPECT_TRUE(t.rig.shut_down());
}

// A message that the old place gets before control has the new place must not close the new connections.
TEST(SockPlace, a_message_at_the_old_place_may_be_sent_again) {
  Placed t;
  t.a->put(kThem, 100);
  t.place() = t.elsewhere();
  t.rig.run_for(1s);
  EXPECT_EQ(t.a->take_trace(), "tx 1 -18/LOCAL_ABORTED");
  t.a->put(kThem, 100);
  ASSERT_TRUE(t.all_done());
  EXPECT_EQ(t.a->take_trace(), "up 10.0.0.2@tcp; tx 2 ok");
  const PeerPlace now = t.place(), old = t.elsewhere();
  t.place() = old;
  t.a->put(kThem, 100);
  t.place() = now;
  t.a->put(kThem, 100);
  ASSERT_TRUE(t.all_done());
  EXPECT_EQ(t.a->txs[2].how.error, -EXDEV);
  EXPECT_EQ(t.a->txs[2].how.health, LndStatus::kLocalAborted);
  EXPECT_EQ(t.a->txs[3].how.error, 0);
  EXPECT_TRUE(t.rig.shut_down());
}

}  // namespace
}  // namespace ulnet::test
