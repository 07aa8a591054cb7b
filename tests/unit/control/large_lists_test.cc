// Lists of NIDs of the maximal length: discovered, replaced, refused if longer, and reported to the operator.
#include "tests/unit/control/discovery_rig.h"

namespace ulnet::test {
namespace {

constexpr uint32_t kSmallMax = kPeerNidsMax - 1;  // 0@lo counts on the wire

class LargeLists : public DiscoveryTest {
 protected:
  /// 10.0.0.20, then `count` - 1 NIDs from 10.8.0.0 + `first` on.
  static wire::PingInfo info_of(uint32_t count, uint32_t sequence, uint32_t first = 0) {
    wire::PingInfo info;
    info.features = kOrdinary;
    info.sequence = sequence;
    info.nis.push_back({peer_nid(20), wire::kNiUp});
    for (uint32_t i = 0; i + 1 < count; ++i)
      info.nis.push_back({Nid::v4(net("tcp"), 0x0A080000 + first + i), wire::kNiUp});
    return info;
  }
  /// The decoded list, if only the first `room` bytes of it have arrived.
  static PingData data_of(const wire::PingInfo& info, size_t room = SIZE_MAX) {
    const auto bytes = wire::ping_info_encode(info);
    PingData data;
    data.decode = wire::ping_info_decode(std::span(bytes).first(std::min(room, bytes.size())), kPeerNidsMax).value();
    data.from = peer_nid(20);
    data.to = peer_nid(1);
    return data;
  }
  [[nodiscard]] bool all_known(const wire::PingInfo& info) {
    const Peer* one = peer(20);
    return one != nullptr && one->ni_count() == info.nis.size() && one->primary().nid == info.nis.front().nid &&
           std::all_of(info.nis.begin(), info.nis.end(), [&](const wire::PingNi& ni) {
             return peers.find(ni.nid) != nullptr && peers.find(ni.nid)->peer == one;
           });
  }
};

// Goal: a peer with the most IPv4 NIDs that fit is discovered, and has its list replaced by its next push.
TEST_F(LargeLists, most_nids_are_discovered_and_replaced) {
  const wire::PingInfo first = info_of(kSmallMax, 3), second = info_of(kSmallMax, 4, kSmallMax / 2);
  discover(20);
  const PingData cut = data_of(first, kPingBufferMin);
  ASSERT_TRUE(cut.decode.truncated);
  EXPECT_EQ(reply(cut), "ping 20 in " + std::to_string(cut.decode.needed_bytes) + "; ");
  EXPECT_EQ(reply(data_of(first)), "push from 1 to 20; ");
  EXPECT_EQ(ack(), "done 1; ");
  EXPECT_TRUE(all_known(first));
  EXPECT_EQ(peers.allocated(), kSmallMax);
  pushed(data_of(second));
  EXPECT_TRUE(all_known(second));
  EXPECT_EQ(peers.find(first.nis[1].nid), nullptr);
  EXPECT_TRUE(journal.empty());
}

// Goal: a list has at most 4096 NIDs, of either form. As upstream counts, 0@lo is one of the small ones.
TEST_F(LargeLists, longer_ones_are_refused) {
  const auto decodes = [](const wire::PingInfo& info) {
    return wire::ping_info_decode(wire::ping_info_encode(info), kPeerNidsMax).has_value();
  };
  EXPECT_TRUE(decodes(info_of(kSmallMax, 3)));
  EXPECT_FALSE(decodes(info_of(kSmallMax + 1, 3)));
  wire::PingInfo large = info_of(1, 3);
  const auto add = [&] {
    Nid nid = *nid_parse("fd00::1@tcp");
    nid.addr[13] = uint8_t(large.nis.size() >> 8);
    nid.addr[14] = uint8_t(large.nis.size());
    large.nis.push_back({nid, wire::kNiUp});
  };
  while (large.nis.size() < kPeerNidsMax) add();
  EXPECT_TRUE(decodes(large));
  add();
  EXPECT_FALSE(decodes(large));
}

// Goal: of many differences, the first few are named and the others are counted. The same differences are not reported
// again.
TEST_F(LargeLists, differences_are_reported_once_and_in_few_lines) {
  configure({20, 21});
  discover(20);
  reply(data_of(info_of(300, 3)));
  EXPECT_EQ(ack(), "done 1; ");
  ASSERT_EQ(journal.size(), kDifferencesSaid + 1) << journal.back();
  EXPECT_EQ(journal.front(), "configured: peer 10.0.0.20@tcp reports 10.8.0.0@tcp; no peer has it");
  EXPECT_EQ(journal.back(), "peer 10.0.0.20@tcp: and 292 more such differences");
  journal.clear();
  pushed(data_of(info_of(300, 4)));
  pushed(data_of(info_of(300, 5)));
  EXPECT_TRUE(journal.empty()) << journal.front();
  pushed(data_of(info_of(2, 6)));
  EXPECT_EQ(journal.size(), 2u) << "other ones";
  EXPECT_EQ(peer(20)->ni_count(), 2u);
}

}  // namespace
}  // namespace ulnet::test
