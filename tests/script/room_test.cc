// Connection slots and names: one address that takes all slots or somebody else's NID hurts nobody but itself. Foreign
// peers that send raw bytes, against one node with few slots.
#include <gtest/gtest.h>

#include "tests/script/sock_rig.h"

namespace ulnet::test {
namespace {

constexpr const char* kUs = "10.0.0.2@tcp";
constexpr uint32_t kControl = 1, kNone = 0xFFFFFFFF;

/// The type in the answer to the HELLO; 0xEEEEEEEE when there is no answer.
uint32_t answer_type(const RawPeer& peer) {
  if (peer.in.size() < 56) return 0xEEEEEEEE;
  uint32_t type = 0;
  std::memcpy(&type, peer.in.data() + 48, 4);
  return type;
}

struct Room {
  explicit Room(uint32_t slots, SockNodeOptions options = {}) {
    options.nids = {kUs};
    options.config.conns_max = slots;
    options.make_engine = [this, slots] { return rig.tcp.engine(slots); };
    node = &rig.add(options);
  }
  RawPeer& dial(const std::string& address, const std::string& nid, uint64_t incarnation = 77,
                uint32_t type = kControl) {
    RawPeer& peer = rig.foreign(address.c_str());
    peer.dial("10.0.0.2");
    peer.send(raw_request(kUs) + raw_hello(3, nid, kUs, type, incarnation));
    rig.run_for(20ms);
    return peer;
  }
  /// Whether a message of the peer arrives.
  bool serves(RawPeer& peer, const std::string& nid) {
    const size_t before = node->received.size();
    peer.send(raw_put(3, nid, kUs, ++number, 100));
    rig.run_for(20ms);
    return node->received.size() == before + 1 && peer.end == RawPeer::End::kOpen;
  }
  [[nodiscard]] unsigned logged(const std::string& words) const {
    return unsigned(std::count_if(node->logged.begin(), node->logged.end(),
                                  [&](const std::string& line) { return line.find(words) != std::string::npos; }));
  }
  SockRig rig;
  SockNode* node;
  uint64_t number = 0;
};

// Goal: an address that opens connections without end and lets them idle loses its own, not those of others.
// Method: 64 slots; one client with traffic; 200 HELLOs under 200 NIDs from one address; then a client never seen.
TEST(SockRoom, address_with_most_connections_makes_room) {
  Room t(64);
  const std::string first = "10.0.0.254@tcp", second = "10.0.0.253@tcp";
  RawPeer& client = t.dial("10.0.0.254", first);
  ASSERT_TRUE(t.serves(client, first));
  std::vector<RawPeer*> strangers;
  for (int i = 0; i < 200; ++i) {
    strangers.push_back(&t.dial("10.0.1.1", "10.0.2." + std::to_string(i + 1) + "@tcp"));
    EXPECT_EQ(answer_type(*strangers.back()), kControl) << i;
  }
  EXPECT_EQ(client.end, RawPeer::End::kOpen);
  EXPECT_EQ(strangers.front()->end, RawPeer::End::kFin) << "the longest idle one goes first";
  EXPECT_EQ(strangers.back()->end, RawPeer::End::kOpen);
  RawPeer& newcomer = t.dial("10.0.0.253", second);
  EXPECT_EQ(answer_type(newcomer), kControl);
  EXPECT_TRUE(t.serves(newcomer, second));
  EXPECT_TRUE(t.serves(client, first));
  EXPECT_EQ(t.node->take_trace().find("down"), std::string::npos) << "nobody became unreachable";
  EXPECT_LE(t.node->logged.size(), 20u);
  EXPECT_TRUE(t.rig.shut_down());
}

// Goal: idle connections of many addresses give way to new ones, the longest idle first, and one with traffic stays.
TEST(SockRoom, longest_idle_connection_makes_room_among_equals) {
  Room t(16);
  const std::string busy = "10.0.0.254@tcp";
  RawPeer& client = t.dial("10.0.0.254", busy);
  std::vector<RawPeer*> idle;
  for (int i = 0; i < 40; ++i) {
    const std::string address = "10.0.1." + std::to_string(i + 1);
    idle.push_back(&t.dial(address, address + "@tcp"));
    EXPECT_EQ(answer_type(*idle.back()), kControl) << i;
    t.rig.run_for(6s);
    EXPECT_TRUE(t.serves(client, busy)) << i;
  }
  EXPECT_EQ(idle.front()->end, RawPeer::End::kFin);
  EXPECT_EQ(idle.back()->end, RawPeer::End::kOpen);
  EXPECT_TRUE(t.rig.shut_down());
}

// Goal: without a slot the answer to a HELLO is "not now", and nobody is said to be unreachable.
// Method: as many active clients, each from its own address, as there are slots; then one more.
TEST(SockRoom, no_slot_no_acceptance) {
  Room t(16);
  std::vector<std::pair<RawPeer*, std::string>> clients;
  for (int i = 0; i < 16; ++i) {
    const std::string address = "10.0.1." + std::to_string(i + 1);
    clients.emplace_back(&t.dial(address, address + "@tcp"), address + "@tcp");
    EXPECT_TRUE(t.serves(*clients.back().first, clients.back().second)) << i;
  }
  RawPeer& late = t.dial("10.0.2.1", "10.0.2.1@tcp");
  EXPECT_EQ(answer_type(late), kNone);
  EXPECT_EQ(late.end, RawPeer::End::kFin);
  for (const auto& [peer, nid] : clients) EXPECT_TRUE(t.serves(*peer, nid));
  EXPECT_EQ(t.node->take_trace().find("down"), std::string::npos);
  EXPECT_EQ(t.logged("no connection slot"), 1u);
  EXPECT_EQ(t.logged("connections_per_worker"), 1u) << "the line says which key mends it";
  EXPECT_TRUE(t.rig.shut_down());
}

// Goal: a slot that was given back is used again, however connections end.
TEST(SockRoom, slots_come_back) {
  Room t(16);
  for (int i = 0; i < 100; ++i) {
    RawPeer& peer = t.dial("10.0.0.254", "10.0.0.254@tcp", 100 + uint64_t(i));
    EXPECT_EQ(answer_type(peer), kControl) << i;
    EXPECT_TRUE(t.serves(peer, "10.0.0.254@tcp")) << i;
    peer.close();
    t.rig.run_for(20ms);
  }
  EXPECT_EQ(t.logged("no connection slot"), 0u);
  EXPECT_TRUE(t.rig.shut_down());
}

// Goal: the NID of a connected client in the HELLO of another machine closes nothing.
TEST(SockClaim, hello_in_the_name_of_another_closes_nothing) {
  Room t(16);
  const std::string nid = "10.0.0.254@tcp";
  RawPeer& client = t.dial("10.0.0.254", nid, 100);
  ASSERT_TRUE(t.serves(client, nid));
  for (int i = 0; i < 4; ++i) {
    RawPeer& impostor = t.dial("10.0.0.66", nid, 200 + uint64_t(i));
    EXPECT_EQ(answer_type(impostor), kNone);
    EXPECT_EQ(impostor.end, RawPeer::End::kFin);
    EXPECT_TRUE(t.serves(client, nid));
  }
  EXPECT_EQ(t.logged("10.0.0.66"), 4u);
  EXPECT_EQ(t.logged(nid), 4u);
  EXPECT_TRUE(t.rig.shut_down());
}

// Goal: a machine whose address is the NID gets its place at once, though another has connected under that NID.
TEST(SockClaim, own_address_displaces_another) {
  Room t(16);
  const std::string nid = "10.0.0.254@tcp";
  RawPeer& impostor = t.dial("10.0.0.66", nid, 200);
  EXPECT_EQ(answer_type(impostor), kControl) << "a node with several addresses may dial from another one";
  RawPeer& client = t.dial("10.0.0.254", nid, 100);
  EXPECT_EQ(answer_type(client), kControl);
  EXPECT_EQ(impostor.end, RawPeer::End::kFin);
  EXPECT_TRUE(t.serves(client, nid));
  EXPECT_TRUE(t.rig.shut_down());
}

// Goal: a node that dials from another address of its interface reboots and is believed.
TEST(SockClaim, reboot_is_believed_from_the_address_of_the_connections) {
  Room t(16);
  const std::string nid = "10.0.0.254@tcp";
  RawPeer& before = t.dial("10.0.0.66", nid, 100);
  ASSERT_TRUE(t.serves(before, nid));
  RawPeer& after = t.dial("10.0.0.66", nid, 200);
  EXPECT_EQ(answer_type(after), kNone);
  EXPECT_EQ(before.end, RawPeer::End::kFin);
  RawPeer& again = t.dial("10.0.0.66", nid, 200);
  EXPECT_EQ(answer_type(again), kControl);
  EXPECT_TRUE(t.serves(again, nid));
  EXPECT_TRUE(t.rig.shut_down());
}

// Goal: further connections of a node may come from another address, if they name the same life of it.
TEST(SockClaim, same_incarnation_may_come_from_elsewhere) {
  Room t(16);
  const std::string nid = "10.0.0.254@tcp";
  RawPeer& control = t.dial("10.0.0.254", nid, 100);
  RawPeer& bulk = t.dial("10.0.0.66", nid, 100, 3);
  EXPECT_EQ(answer_type(bulk), 2u);
  EXPECT_TRUE(t.serves(control, nid));
  EXPECT_TRUE(t.serves(bulk, nid));
  EXPECT_TRUE(t.rig.shut_down());
}

// Goal: without typed connections one connection carries everything, both ways.
TEST(SockTyped, one_connection_for_everything) {
  SockRig rig;
  rig.tcp.record = true;
  SockNodeOptions a{.nids = {"10.0.0.1@tcp"}}, b{.nids = {"10.0.0.2@tcp"}};
  a.config.typed_conns = b.config.typed_conns = false;
  SockNode& left = rig.add(a);
  SockNode& right = rig.add(b);
  for (const uint32_t bytes : {10u, 100'000u}) {
    left.put("10.0.0.2@tcp", bytes);
    ASSERT_TRUE(rig.run_until([&] { return left.unfinished() == 0; }, 10s)) << bytes;
    right.put("10.0.0.1@tcp", bytes);
    ASSERT_TRUE(rig.run_until([&] { return right.unfinished() == 0; }, 10s)) << bytes;
  }
  EXPECT_TRUE(rig.run_until([&] { return right.received.size() == 2 && left.received.size() == 2; }, 10s));
  EXPECT_EQ(rig.tcp.connections.size(), 1u);
  EXPECT_TRUE(rig.shut_down());
}

// Goal: a node without typed connections and one with them understand each other.
TEST(SockTyped, one_side_only) {
  SockRig rig;
  SockNodeOptions a{.nids = {"10.0.0.1@tcp"}}, b{.nids = {"10.0.0.2@tcp"}};
  a.config.typed_conns = false;
  SockNode& left = rig.add(a);
  SockNode& right = rig.add(b);
  for (const uint32_t bytes : {10u, 100'000u}) {
    left.put("10.0.0.2@tcp", bytes);
    right.put("10.0.0.1@tcp", bytes);
    ASSERT_TRUE(rig.run_until([&] { return left.unfinished() + right.unfinished() == 0; }, 10s)) << bytes;
  }
  EXPECT_TRUE(rig.run_until([&] { return right.received.size() == 2 && left.received.size() == 2; }, 10s));
  EXPECT_TRUE(rig.shut_down());
}

}  // namespace
}  // namespace ulnet::test
