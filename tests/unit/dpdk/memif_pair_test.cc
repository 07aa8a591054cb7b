// A relayed control connection of memif: messages that pass, and ends at each stage.
#include "lnd/net/dpdk/memif_pair.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include <optional>

#include "tests/unit/dpdk/memif_ends.h"

namespace ulnet::dpdk {
namespace {

using Side = MemifPair::Side;
using Stage = MemifPair::Stage;
using Types = std::vector<int>;

class MemifPairTest : public testing::Test {
 protected:
  MemifPairTest() {
    auto [far, near] = memif_ends();
    server = std::move(far);
    pair.emplace(near.give());
  }
  void set_client() {
    auto [far, near] = memif_ends();
    client = std::move(far);
    pair->set_client(near.give());
  }
  /// Up to this stage: kHandshake (the client has the greeting) or kConnected.
  void reach(Stage stage) {
    set_client();
    server.send(kHello);
    pair->turn();
    if (stage == Stage::kConnected) {
      server.send(kConnected);
      pair->turn();
    }
    ASSERT_EQ(stage, pair->stage());
    (void)client.all();
  }
  [[nodiscard]] size_t waits() const {
    std::vector<int> fds;
    pair->wait_fds(fds);
    return fds.size();
  }

  const size_t open_before = open_descriptors();
  MemifEnd server, client;  // the far ends
  std::optional<MemifPair> pair;
};

TEST_F(MemifPairTest, greeting_waits_for_a_client) {
  EXPECT_FALSE(pair->turn());
  EXPECT_TRUE(pair->wants_client());
  EXPECT_FALSE(pair->greeted());
  server.send(kHello);
  EXPECT_TRUE(pair->turn());
  EXPECT_TRUE(pair->greeted());
  EXPECT_TRUE(pair->wants_client());
  EXPECT_FALSE(pair->turn());
  set_client();
  EXPECT_FALSE(pair->wants_client());
  EXPECT_TRUE(pair->turn());
  EXPECT_EQ(Types{kHello}, client.all());
  EXPECT_EQ(2u, waits());
}

TEST_F(MemifPairTest, messages_pass_in_order_with_their_descriptors) {
  reach(Stage::kHandshake);
  const int region = eventfd(0, 0), ring = open("/dev/null", O_RDONLY);
  const std::vector<std::string> sent{MemifEnd::inode_of(region), MemifEnd::inode_of(ring)};
  client.send(kInit);
  client.send(kRegion, {region});
  client.send(kRing, {ring});
  EXPECT_TRUE(pair->turn());
  EXPECT_EQ((Types{kInit, kRegion, kRing}), server.all());
  EXPECT_EQ(sent, server.inodes);
  for (int i = 0; i < 3; ++i) server.send(1);
  EXPECT_TRUE(pair->turn());
  EXPECT_EQ((Types{1, 1, 1}), client.all());
  client.send(kConnect);
  EXPECT_TRUE(pair->turn());
  EXPECT_EQ(Stage::kHandshake, pair->stage());
  server.send(kConnected);
  EXPECT_TRUE(pair->turn());
  EXPECT_EQ(Stage::kConnected, pair->stage());
  EXPECT_EQ(Types{kConnected}, client.all());
  EXPECT_FALSE(pair->turn());
  for (const int fd : {region, ring}) ::close(fd);
  EXPECT_EQ(open_before + 4, open_descriptors());
}

// A client may name this type as well, and the rings are not in use then.
TEST_F(MemifPairTest, only_the_server_says_that_it_is_connected) {
  reach(Stage::kHandshake);
  client.send(kConnected);
  EXPECT_TRUE(pair->turn());
  EXPECT_EQ(Stage::kHandshake, pair->stage());
}

// DPDK may otherwise unmap rings that are already in use.
TEST_F(MemifPairTest, messages_behind_the_request_to_connect_wait) {
  reach(Stage::kHandshake);
  client.send(kConnect);
  client.send(kInit);
  EXPECT_TRUE(pair->turn());
  EXPECT_EQ(Types{kConnect}, server.all());
  EXPECT_EQ(1u, waits());
  EXPECT_FALSE(pair->turn());
  server.send(kConnected);
  EXPECT_TRUE(pair->turn());
  EXPECT_EQ(Types{kConnected}, client.all());
  EXPECT_EQ(Types{}, server.all());
  EXPECT_EQ(Stage::kEnding, pair->stage());
  EXPECT_TRUE(pair->had_rings());
}

// Whatever comes while the rings are in use: DPDK would unmap them.
TEST_F(MemifPairTest, connected_ends_in_two_steps) {
  for (int way = 0; way < 4; ++way) {
    reach(Stage::kConnected);
    MemifEnd& active = way % 2 == 0 ? client : server;
    MemifEnd& other = way % 2 == 0 ? server : client;
    if (way < 2) {
      active.close();
    } else {
      active.send(kInit);
    }
    EXPECT_TRUE(pair->turn()) << way;
    EXPECT_EQ(Stage::kEnding, pair->stage()) << way;
    EXPECT_TRUE(pair->had_rings()) << way;
    EXPECT_EQ(Types{}, other.all()) << way << ": it knows nothing yet";
    EXPECT_FALSE(pair->turn()) << way;
    EXPECT_EQ(0u, waits()) << way << ": a closed connection is readable without end";
    EXPECT_EQ(way == 1, pair->release(Side::kServer)) << way << ": only if the device has let go";
    if (way != 1) {
      EXPECT_EQ(Types{kEnd}, server.all()) << way;
      EXPECT_FALSE(pair->release(Side::kServer)) << way;
      server.close();
      EXPECT_TRUE(pair->release(Side::kServer)) << way;
    }
    EXPECT_EQ(Stage::kOver, pair->stage()) << way;
    if (way != 0) {
      EXPECT_EQ(Types{kEnd}, client.all()) << way;
    }
    auto [far, near] = memif_ends();
    server = std::move(far);
    pair.emplace(near.give());
  }
}

TEST_F(MemifPairTest, a_handshake_ends) {
  for (const bool client_goes : {true, false}) {
    reach(Stage::kHandshake);
    (client_goes ? client : server).close();
    EXPECT_TRUE(pair->turn());
    EXPECT_EQ(Stage::kEnding, pair->stage());
    EXPECT_FALSE(pair->had_rings());
    EXPECT_FALSE(pair->wants_client());
    auto [far, near] = memif_ends();
    server = std::move(far);
    pair.emplace(near.give());
  }
}

// DPDK would abort a server whose client is gone before its greeting.
TEST_F(MemifPairTest, a_client_goes_before_the_greeting) {
  set_client();
  EXPECT_FALSE(pair->turn());
  client.close();
  EXPECT_TRUE(pair->turn());
  EXPECT_EQ(Types{}, server.all());
  EXPECT_TRUE(pair->wants_client());
  server.send(kHello);
  EXPECT_TRUE(pair->turn());
  EXPECT_TRUE(pair->greeted() && pair->wants_client());
  set_client();
  EXPECT_TRUE(pair->turn());
  EXPECT_EQ(Types{kHello}, client.all());
}

TEST_F(MemifPairTest, a_client_that_its_owner_has_closed) {
  set_client();
  pair->drop_client();
  EXPECT_TRUE(pair->wants_client()) << "the greeting is still to come";
  set_client();
  server.send(kHello);
  pair->turn();
  pair->drop_client();
  EXPECT_EQ(Stage::kOver, pair->stage()) << "the greeting is used";
  EXPECT_EQ(Types{kEnd}, server.all());
}

// DPDK would abort a server, and a client's device is closed only when DPDK's thread does not use it.
TEST_F(MemifPairTest, a_device_lets_go) {
  set_client();
  EXPECT_FALSE(pair->let_go(Side::kServer));
  EXPECT_EQ(Types{}, server.all()) << "not before its greeting";
  EXPECT_FALSE(pair->let_go(Side::kClient));
  EXPECT_EQ(Types{kEnd}, client.all());
  EXPECT_FALSE(pair->let_go(Side::kClient));
  client.close();
  EXPECT_TRUE(pair->let_go(Side::kClient));
  pair->drop_client();
  set_client();
  EXPECT_FALSE(pair->let_go(Side::kClient)) << "the next client";
  EXPECT_EQ(Types{kEnd}, client.all());
}

TEST_F(MemifPairTest, a_server_goes_before_the_greeting_and_behind_it) {
  server.close();
  EXPECT_TRUE(pair->turn());
  EXPECT_EQ(Stage::kEnding, pair->stage());
  EXPECT_FALSE(pair->greeted());
  auto [far, near] = memif_ends();
  pair.emplace(near.give());
  far.send(kHello);
  far.close();
  EXPECT_TRUE(pair->turn());
  EXPECT_EQ(Stage::kEnding, pair->stage());
  EXPECT_FALSE(pair->wants_client());
}

TEST_F(MemifPairTest, messages_that_are_none) {
  const int one = eventfd(0, 0), two = eventfd(0, 0);
  const auto refused = [&](const auto& send) {
    reach(Stage::kHandshake);
    EXPECT_TRUE(send());
    EXPECT_TRUE(pair->turn());
    EXPECT_EQ(Stage::kEnding, pair->stage());
    EXPECT_EQ(Types{}, server.all());
    auto [far, near] = memif_ends();
    server = std::move(far);
    pair.emplace(near.give());
  };
  refused([&] { return client.send(kInit, {}, 129); });
  refused([&] { return client.send(kRegion, {one, two}); });
  for (const int fd : {one, two}) ::close(fd);
  client.close();
  EXPECT_EQ(open_before + 2, open_descriptors()) << "the server's connection";
  reach(Stage::kHandshake);
  EXPECT_TRUE(client.send(kInit, {}, 1)) << "DPDK checks the length";
  EXPECT_TRUE(pair->turn());
  EXPECT_EQ(Stage::kHandshake, pair->stage());
}

// Nothing grows: a side that does not read is over.
TEST_F(MemifPairTest, a_side_that_does_not_read) {
  reach(Stage::kHandshake);
  unsigned sent = 0;
  while (pair->stage() == Stage::kHandshake) {
    ASSERT_LT(++sent, 100000u);
    client.send(kInit);
    pair->turn();
  }
  EXPECT_GT(sent, 16u) << "a whole handshake has room";
}

}  // namespace
}  // namespace ulnet::dpdk
