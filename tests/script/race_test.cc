// Pure rules of the control half and of the books: tables. Source: docs/wire/socklnd.md §3.3, §5, §6, docs/wire/lnet.md
// §9.1.
#include <gtest/gtest.h>

#include "dataplane/base/nid_text.h"
#include "lnd/socklnd/peer_ctl.h"
#include "lnd/socklnd/race_ctl.h"
#include "lnd/socklnd/status.h"
#include "lnd/socklnd/zc.h"

namespace ulnet::socklnd {
namespace {

TEST(SockRules, opening_order) {
  for (const uint32_t per_peer : {1u, 4u}) {
    TypeCounts counts{};
    std::string order;
    for (ConnType type = next_type(counts, per_peer); type != ConnType::kNone; type = next_type(counts, per_peer)) {
      order += char('0' + uint32_t(type));
      ++counts[size_t(type)];
    }
    EXPECT_EQ(order, per_peer == 1 ? "123" : "123232323");
  }
  EXPECT_EQ(next_type({0, 1, 0, 4}, 4), ConnType::kBulkIn);
  EXPECT_EQ(next_type({0, 1, 4, 3}, 4), ConnType::kBulkOut);
  EXPECT_EQ(next_type({0, 0, 4, 4}, 4), ConnType::kControl);
  EXPECT_EQ(next_type({0, 1, 2, 4}, 4), ConnType::kBulkIn);
}

TEST(SockRules, conns_per_peer_by_link_speed) {
  const std::pair<uint32_t, uint32_t> table[] = {{0, 1},     {100, 1},    {1000, 1},   {10000, 2}, {25000, 3},
                                                 {40000, 3}, {100000, 4}, {200000, 4}, {400000, 5}};
  for (const auto& [mbps, conns] : table) EXPECT_EQ(conns_per_peer_for(mbps), conns) << mbps;
}

TEST(SockRules, passive_verdicts) {
  PassiveCase base;
  base.my_nid = *nid_parse("10.0.0.2@tcp");
  base.peer_nid = *nid_parse("10.0.0.1@tcp");
  base.version = 3;
  base.incarnation = 7;
  const auto verdict = [&](auto&& change) {
    PassiveCase c = base;
    change(c);
    return passive_verdict(c);
  };
  EXPECT_EQ(verdict([](PassiveCase&) {}), PassiveVerdict::kAccept);
  // Race: the connect of the higher NID survives.
  EXPECT_EQ(verdict([](PassiveCase& c) { c.dialling = true; }), PassiveVerdict::kRaceLost);
  const auto higher = [](const char* nid) {
    return [nid](PassiveCase& c) {
      c.dialling = true;
      c.peer_nid = *nid_parse(nid);
    };
  };
  EXPECT_EQ(verdict(higher("10.0.0.3@tcp")), PassiveVerdict::kAccept);
  EXPECT_EQ(verdict(higher("9.255.255.255@tcp1")), PassiveVerdict::kAccept);   // the net counts before the address
  EXPECT_EQ(verdict(higher("255.255.255.255@tcp")), PassiveVerdict::kAccept);  // bytes are unsigned
  EXPECT_EQ(verdict(higher("9.255.255.255@tcp")), PassiveVerdict::kRaceLost);
  // Duplicates.
  EXPECT_EQ(verdict([](PassiveCase& c) { c.same_type_count = 1; }), PassiveVerdict::kDuplicate);
  EXPECT_EQ(verdict([](PassiveCase& c) { c.same_type_count = 1, c.type_limit = 2; }), PassiveVerdict::kAccept);
  EXPECT_EQ(verdict([](PassiveCase& c) { c.same_type_count = 1, c.same_ip = true; }), PassiveVerdict::kAccept);
  // Reboot and change of version: after the race, before duplicates (docs/wire/socklnd.md §6).
  const auto known = [](uint32_t version, uint64_t incarnation) {
    return [=](PassiveCase& c) {
      c.known = true;
      c.known_version = version;
      c.known_incarnation = incarnation;
      c.same_type_count = 1;
    };
  };
  EXPECT_EQ(verdict(known(3, 8)), PassiveVerdict::kRebooted);
  EXPECT_EQ(verdict(known(2, 7)), PassiveVerdict::kRebooted);
  EXPECT_EQ(verdict(known(3, 7)), PassiveVerdict::kDuplicate);
  const auto with = [](auto&& first, auto&& second) {
    return [=](PassiveCase& c) {
      first(c);
      second(c);
    };
  };
  EXPECT_EQ(verdict(with(known(3, 8), [](PassiveCase& c) { c.dialling = true; })), PassiveVerdict::kRaceLost)
      << "the race closes nothing";
  EXPECT_EQ(verdict(with(known(3, 8), higher("10.0.0.3@tcp"))), PassiveVerdict::kRebooted);
  // If the address is neither in the NID nor that of a connection, the existing connections stay.
  const auto elsewhere = [](PassiveCase& c) { c.elsewhere = true; };
  EXPECT_EQ(verdict(elsewhere), PassiveVerdict::kAccept);
  EXPECT_EQ(verdict(with(known(3, 8), elsewhere)), PassiveVerdict::kClaimed);
  EXPECT_EQ(verdict(with(known(3, 7), elsewhere)), PassiveVerdict::kDuplicate);
}

TEST(SockRules, active_verdicts) {
  const auto verdict = [](bool known, uint64_t incarnation, uint32_t count, bool same_ip) {
    return active_verdict({known, 3, incarnation, 3, 7, same_ip, count, 1});
  };
  EXPECT_EQ(verdict(false, 0, 0, false), ActiveVerdict::kKeep);
  EXPECT_EQ(verdict(true, 7, 0, false), ActiveVerdict::kKeep);
  EXPECT_EQ(verdict(true, 8, 0, false), ActiveVerdict::kRebooted);
  EXPECT_EQ(verdict(true, 7, 1, false), ActiveVerdict::kDuplicate);
  EXPECT_EQ(verdict(true, 7, 1, true), ActiveVerdict::kKeep);
}

TEST(SockRules, type_limits) {
  EXPECT_EQ(type_limit(ConnType::kControl, 4), 1u);
  EXPECT_EQ(type_limit(ConnType::kAny, 4), 1u);
  EXPECT_EQ(type_limit(ConnType::kBulkIn, 4), 4u);
  EXPECT_EQ(type_limit(ConnType::kBulkOut, 4), 4u);
}

TEST(SockRules, identity_by_source_port) {
  Hello hello;
  hello.src_nid = *nid_parse("10.9.9.9@tcp");
  const Net net = Net::of(NetType::kTcp, 3);
  Endpoint remote{{false, {10, 0, 0, 9}}, 1023};
  SockConfig config;
  EXPECT_EQ(peer_identity(config, net, remote, hello).nid, hello.src_nid);
  remote.port = 1024;
  const PeerIdentity made = peer_identity(config, net, remote, hello);
  EXPECT_EQ(nid_text(made.nid), "10.0.0.9@tcp3");
  EXPECT_EQ(made.pid, 0x80000400u);
  EXPECT_TRUE(made.rewrite_source);
  config.unprivileged_ports = true;
  EXPECT_EQ(peer_identity(config, net, remote, hello).nid, hello.src_nid);
  config.unprivileged_ports = false;
  remote.address.v6 = true;
  EXPECT_TRUE(peer_identity(config, net, remote, hello).refuse);
}

TEST(SockRules, whose_fault) {
  EXPECT_EQ(queue_failure(-ETIMEDOUT).health, LndStatus::kNetworkTimeout);
  for (const int error : {ENETDOWN, EHOSTUNREACH, ENETUNREACH, ECONNREFUSED, ECONNRESET})
    EXPECT_EQ(queue_failure(-error).health, LndStatus::kRemoteDropped) << error;
  for (const int error : {EPROTO, EADDRINUSE, EALREADY, ESTALE})
    EXPECT_EQ(queue_failure(-error).health, LndStatus::kLocalError) << error;
  EXPECT_EQ(queue_failure(-ESHUTDOWN).health, LndStatus::kLocalAborted) << "our NI goes: another one may send it";
  EXPECT_EQ(unacknowledged_failure(-ESHUTDOWN).health, LndStatus::kLocalError);
  EXPECT_EQ(unacknowledged_failure(-ETIMEDOUT).health, LndStatus::kNetworkTimeout);
  EXPECT_EQ(unacknowledged_failure(-EPROTO).health, LndStatus::kLocalError);
  for (const int error : {ENETDOWN, EHOSTUNREACH, ENETUNREACH, ECONNREFUSED, ECONNRESET})
    EXPECT_EQ(unacknowledged_failure(-error).health, LndStatus::kRemoteError) << error << ": the peer may have it";
  EXPECT_EQ(write_failure(-ETIMEDOUT).health, LndStatus::kRemoteTimeout);
  EXPECT_EQ(write_failure(-ECONNRESET).health, LndStatus::kLocalError);
  EXPECT_EQ(receive_failure(-ECONNRESET).health, LndStatus::kRemoteError);
}

TEST(SockZcBook, covers_only_what_is_outstanding) {
  ZcBook book(4);
  Tx txs[5];
  for (int i = 0; i < 4; ++i) EXPECT_EQ(book.add(txs[i]), uint64_t(i) + 2);
  EXPECT_TRUE(book.full());
  EXPECT_TRUE(book.covers(2, 5));
  EXPECT_TRUE(book.covers(3, 3));
  EXPECT_FALSE(book.covers(2, 6));
  EXPECT_FALSE(book.covers(1, 2));
  EXPECT_FALSE(book.covers(0, UINT64_MAX));
  EXPECT_FALSE(book.covers(5, 4));
  EXPECT_EQ(book.take(3), &txs[1]);
  EXPECT_EQ(book.take(3), nullptr);
  EXPECT_FALSE(book.covers(2, 4));
  EXPECT_TRUE(book.covers(4, 5));
  EXPECT_EQ(book.add(txs[4]), 6u);
  EXPECT_TRUE(book.covers(4, 6));
  book.clear();
  EXPECT_EQ(book.size(), 0u);
  EXPECT_EQ(book.add(txs[0]), 7u);  // numbers go on
}

}  // namespace
}  // namespace ulnet::socklnd
