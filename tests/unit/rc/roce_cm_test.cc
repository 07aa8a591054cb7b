// The connection manager of our RoCE. Two of them over a wire that loses, repeats and reorders MADs. Single messages at
// the wrong time or from strangers, and the bounds.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lnd/rc/roce/cm_ctl.h"
#include "tests/wire/hex.h"

namespace ulnet::test {
namespace {

using namespace rc::roce;
using rc::Cause;
using Mad = std::array<std::byte, kMadBytes>;

const rc::IpAddress kFirst = rc::IpAddress::of_v4(0x0A000005), kSecond = rc::IpAddress::of_v4(0x0A000006),
                    kStranger = rc::IpAddress::of_v4(0x0A000007);

class CmWire;

/// One node. Agrees to requests, unless a test says otherwise.
class CmNode final : public CmUser {
 public:
  CmNode(CmWire& wire, const rc::IpAddress& at, uint64_t seed)
      : address(at), wire_(wire), rng_(seed), cm(*this, rng_) {}
  void cm_send(const CmAddresses& addresses, std::span<const std::byte, kMadBytes> mad) override;
  std::optional<RejReason> cm_requested(CmId id, const CmAddresses&, const CmReq& req) override;
  void cm_replied(CmId id, const CmRep& rep) override;
  void cm_established(CmId id) override {
    log += "established ";
    up.push_back(id);
  }
  void cm_ended(CmId id, Cause cause, std::span<const std::byte> private_data) override;
  CmId dial(Instant now, Instant give_up = kForever) {
    const CmId id = *cm.open({address, address == kFirst ? kSecond : kFirst});
    cm.request(
        id,
        {.service_id = 987, .ca_guid = guid(), .qpn = qpn++, .starting_psn = Psn(3), .mtu = 3, .private_data = kHello},
        give_up, now);
    return id;
  }
  void reply(CmId id, Instant now, Instant give_up = kForever) {
    cm.reply(id, {.qpn = qpn++, .starting_psn = Psn(4), .ca_guid = guid(), .private_data = kHello}, give_up, now);
  }
  [[nodiscard]] uint64_t guid() const { return 0x1000 + address.v4(); }

  static constexpr std::array kHello{std::byte{0x48}, std::byte{0x69}};
  const rc::IpAddress address;
  std::string log;
  std::vector<CmId> asked, up;
  std::map<CmId, Cause> ended;
  std::vector<std::byte> data;  ///< private data of the last message, its first bytes
  std::optional<RejReason> refuses;
  bool accepts = true, answers = true;
  CmId closes_with_it = 0;  ///< when another connection ends
  uint32_t qpn = 17;

 private:
  CmWire& wire_;
  Rng rng_;

 public:
  Cm cm;
};

class CmWire {
 public:
  struct Flight {
    CmAddresses addresses;  ///< as the receiver sees them
    Mad mad;
  };
  explicit CmWire(uint64_t seed = 1) : rng(seed), a(*this, kFirst, seed * 2), b(*this, kSecond, seed * 2 + 1) {}
  void send(const CmAddresses& from, const Mad& mad) {
    sent.push_back(mad);
    const bool lost = (lose_one_in != 0 && rng.one_in(lose_one_in)) || (loses && loses(mad));
    const Duration delay = 10us + Duration(int64_t(rng.below(uint64_t(jitter.count()) + 1)));
    const Flight flight{{from.remote, from.local}, mad};
    if (!lost) flights.emplace(now + delay, flight);
    if (repeat_one_in != 0 && rng.one_in(repeat_one_in)) flights.emplace(now + delay + 700ms, flight);
  }
  /// The next MAD comes to the first of these nodes that has its address.
  void deliver(const std::vector<CmNode*>& nodes) {
    const Flight flight = flights.begin()->second;
    flights.erase(flights.begin());
    for (CmNode* node : nodes)
      if (node->address == flight.addresses.local) return (void)node->cm.received(flight.addresses, flight.mad, now);
  }
  /// False: nothing is to come until `end`.
  bool step(Instant end = kForever) {
    Instant next = std::min(a.cm.next_deadline(), b.cm.next_deadline());
    if (!flights.empty()) next = std::min(next, flights.begin()->first);
    if (next == kForever || next > end) return false;
    now = std::max(now, next);
    if (!flights.empty() && flights.begin()->first <= now) deliver({&a, &b});
    (void)a.cm.timers(now);
    (void)b.cm.timers(now);
    return true;
  }
  void run(Duration limit = 100s) {
    const Instant end = now + limit;
    while (step(end)) continue;
    now = end;
  }
  /// The kinds of the MADs that were sent, "REQ REP RTU ".
  [[nodiscard]] std::string kinds() const {
    static constexpr std::array<const char*, 7> kNames{"REQ ", "MRA ", "REJ ", "REP ", "RTU ", "DREQ ", "DREP "};
    std::string out;
    for (const Mad& mad : sent) out += kNames.at(cm_decode(mad)->body.index());
    return out;
  }
  Rng rng;
  uint32_t lose_one_in = 0, repeat_one_in = 0;
  Duration jitter{};
  std::function<bool(const Mad&)> loses;
  std::vector<Mad> sent;
  std::multimap<Instant, Flight> flights;
  Instant now = kNever + 1s;
  CmNode a, b;
};

void CmNode::cm_send(const CmAddresses& addresses, std::span<const std::byte, kMadBytes> mad) {
  EXPECT_EQ(addresses.local, address);
  Mad copy;
  std::copy(mad.begin(), mad.end(), copy.begin());
  wire_.send(addresses, copy);
}

std::optional<RejReason> CmNode::cm_requested(CmId id, const CmAddresses&, const CmReq& req) {
  log += "asked ";
  if (refuses) return refuses;
  data.assign(req.private_data.begin(), req.private_data.begin() + 2);
  asked.push_back(id);
  if (answers) reply(id, wire_.now);
  return std::nullopt;
}

void CmNode::cm_replied(CmId id, const CmRep& rep) {
  log += "replied ";
  data.assign(rep.private_data.begin(), rep.private_data.begin() + 2);
  if (!accepts) return cm.close(id, wire_.now);
  cm.ready(id);
  up.push_back(id);
}

void CmNode::cm_ended(CmId id, Cause cause, std::span<const std::byte> private_data) {
  log += "ended ";
  ended[id] = cause;
  if (closes_with_it != 0) cm.close(std::exchange(closes_with_it, 0), wire_.now);
  data.assign(private_data.begin(), private_data.begin() + std::min<ptrdiff_t>(2, std::ssize(private_data)));
}

bool is(const Mad& mad, size_t kind) {
  return cm_decode(mad)->body.index() == kind;
}
constexpr size_t kReq = 0, kRej = 2, kRep = 3, kRtu = 4, kDreq = 5, kDrep = 6;

TEST(RoceCmCtl, a_connection_from_begin_to_end) {
  CmWire wire;
  const CmId id = wire.a.dial(wire.now);
  wire.run();
  EXPECT_EQ(wire.kinds(), "REQ REP RTU ");
  EXPECT_EQ(wire.a.log, "replied ");
  EXPECT_EQ(wire.b.log, "asked established ");
  EXPECT_EQ(wire.b.data, std::vector<std::byte>(CmNode::kHello.begin(), CmNode::kHello.end()));
  EXPECT_EQ(cm_decode(wire.sent[0])->transaction, cm_decode(wire.sent[2])->transaction);
  wire.a.cm.close(id, wire.now);
  wire.run();
  EXPECT_EQ(wire.kinds(), "REQ REP RTU DREQ DREP ");
  EXPECT_EQ(wire.b.ended.at(wire.b.up.at(0)), Cause::kPeerClosed);
  EXPECT_EQ(wire.a.cm.conns() + wire.b.cm.conns(), 0u);
}

// Goal: under loss, repeats and reordering each attempt ends in a connection, each side hears of it once, and nothing
// is left after the end.
TEST(RoceCmCtl, loss_repeats_and_reordering) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    CmWire wire(seed);
    wire.lose_one_in = 4;
    wire.repeat_one_in = 4;
    wire.jitter = 2s;
    const CmId id = wire.a.dial(wire.now, wire.now + 1000s);
    wire.run(200s);
    ASSERT_EQ(wire.a.log, "replied ") << seed;
    ASSERT_EQ(wire.b.log, "asked established ") << seed;
    CmNode& leaver = seed % 2 == 0 ? wire.a : wire.b;
    CmNode& other = seed % 2 == 0 ? wire.b : wire.a;
    leaver.cm.close(seed % 2 == 0 ? id : wire.b.up.at(0), wire.now);
    wire.run(200s);
    ASSERT_LE(other.ended.size(), 1u);
    EXPECT_EQ(leaver.cm.conns(), 0u) << seed;
    if (other.ended.empty()) other.cm.close(other.up.at(0), wire.now);  // all DREQs were lost
    wire.run(200s);
    EXPECT_EQ(other.cm.conns(), 0u) << seed;
  }
}

TEST(RoceCmCtl, refusals_of_the_provider_and_of_its_user) {
  CmWire wire;
  wire.b.refuses = RejReason::kInvalidServiceId;
  const CmId first = wire.a.dial(wire.now);
  wire.run();
  EXPECT_EQ(wire.a.ended.at(first), Cause::kNoListener);
  wire.b.refuses.reset();
  wire.b.answers = false;
  const CmId second = wire.a.dial(wire.now);
  wire.run(100ms);
  wire.b.cm.reject(wire.b.asked.at(0), RejReason::kConsumer, CmNode::kHello);
  wire.run();
  EXPECT_EQ(wire.a.ended.at(second), Cause::kRejected);
  EXPECT_EQ(wire.a.data, std::vector<std::byte>(CmNode::kHello.begin(), CmNode::kHello.end()));
  EXPECT_EQ(wire.kinds(), "REQ REJ REQ REJ ");
  EXPECT_EQ(wire.a.cm.conns() + wire.b.cm.conns(), 0u);
}

// Goal: a side that gives up says so, and the other side forgets the connection.
TEST(RoceCmCtl, a_side_that_gives_up) {
  CmWire wire;
  wire.b.answers = false;
  const CmId id = wire.a.dial(wire.now, wire.now + 3s);
  wire.run(2999ms);
  EXPECT_TRUE(wire.a.ended.empty());
  wire.run(2ms);
  EXPECT_EQ(wire.a.ended.at(id), Cause::kNoAnswer);
  EXPECT_EQ(wire.b.ended.at(wire.b.asked.at(0)), Cause::kPeerClosed);
  EXPECT_EQ(wire.a.cm.conns() + wire.b.cm.conns(), 0u);
}

TEST(RoceCmCtl, an_attempt_that_is_closed_by_its_user) {
  CmWire wire;
  wire.b.answers = false;
  wire.a.cm.close(wire.a.dial(wire.now), wire.now);
  wire.run();
  EXPECT_EQ(wire.a.log, "");
  EXPECT_EQ(wire.b.log, "asked ended ");
  const CmId id = *wire.a.cm.open({kFirst, kSecond});
  wire.a.cm.close(id, wire.now);
  EXPECT_EQ(wire.a.cm.conns() + wire.b.cm.conns(), 0u);
}

// Goal: a passive side without an RTU repeats its REP, and gives up. A message is as good as an RTU.
TEST(RoceCmCtl, an_rtu_that_is_lost) {
  CmWire wire;
  unsigned lost = 0;
  wire.loses = [&](const Mad& mad) { return is(mad, kRtu) && lost++ == 0; };
  (void)wire.a.dial(wire.now);
  wire.run();
  EXPECT_EQ(wire.kinds(), "REQ REP RTU REP RTU ");
  EXPECT_EQ(wire.b.log, "asked established ");

  CmWire silent;
  silent.b.answers = false;
  silent.loses = [&](const Mad& mad) { return is(mad, kRtu); };
  (void)silent.a.dial(silent.now);
  silent.run(100ms);
  const CmId id = silent.b.asked.at(0);
  silent.b.reply(id, silent.now, silent.now + 2s);
  silent.run(100ms);
  EXPECT_EQ(silent.b.log, "asked ");
  silent.b.cm.message_came(id);
  silent.b.cm.message_came(id);
  EXPECT_EQ(silent.b.log, "asked established ");
  const size_t before = silent.sent.size();
  silent.run();
  EXPECT_EQ(silent.sent.size(), before) << "nothing is repeated";
}

TEST(RoceCmCtl, a_passive_side_that_gets_no_rtu) {
  CmWire wire;
  wire.b.answers = false;
  wire.loses = [&](const Mad& mad) { return is(mad, kRtu); };
  (void)wire.a.dial(wire.now);
  wire.run(100ms);
  wire.b.reply(wire.b.asked.at(0), wire.now, wire.now + 2s);
  wire.run();
  EXPECT_EQ(wire.b.ended.at(wire.b.asked.at(0)), Cause::kNoAnswer);
}

// Goal: both sides leave at once, and each is done with the first message of the other.
TEST(RoceCmCtl, both_sides_leave_at_once) {
  CmWire wire;
  const CmId id = wire.a.dial(wire.now);
  wire.run();
  wire.a.cm.close(id, wire.now);
  wire.b.cm.close(wire.b.up.at(0), wire.now);
  wire.run();
  EXPECT_EQ(wire.a.cm.conns() + wire.b.cm.conns(), 0u);
  EXPECT_TRUE(wire.a.ended.empty() && wire.b.ended.empty()) << "no event follows close()";
}

// Goal: a peer that is gone does not keep a connection for ever. A DREQ of an unknown connection is answered.
TEST(RoceCmCtl, leaving_without_an_answer) {
  CmWire wire;
  const CmId id = wire.a.dial(wire.now);
  wire.run();
  wire.loses = [&](const Mad& mad) { return is(mad, kDrep); };
  wire.a.cm.close(id, wire.now);
  wire.run();
  EXPECT_EQ(wire.kinds(), "REQ REP RTU DREQ DREP DREQ DREP DREQ DREP DREQ DREP DREQ DREP ");
  EXPECT_EQ(wire.a.cm.conns() + wire.b.cm.conns(), 0u);
}

// Goal: while the consumer of the peer makes up its mind, a repeated REQ is answered with an MRA, and repeats pause.
TEST(RoceCmCtl, a_consumer_that_takes_its_time) {
  CmWire wire;
  wire.b.answers = false;
  (void)wire.a.dial(wire.now);
  wire.run(3s);
  EXPECT_EQ(wire.kinds(), "REQ REQ MRA ");
  wire.b.reply(wire.b.asked.at(0), wire.now);
  wire.run();
  EXPECT_EQ(wire.b.log, "asked established ");
}

// Goal: a queue pair number that comes again is of a new life of the peer. Its former connection ends.
TEST(RoceCmCtl, another_life_of_the_peer) {
  CmWire wire;
  (void)wire.a.dial(wire.now);
  wire.run();
  const CmId old = wire.b.up.at(0);
  CmNode reborn(wire, kFirst, 77);  // with the same numbers of queue pairs
  (void)reborn.dial(wire.now);
  while (!wire.flights.empty()) wire.deliver({&reborn, &wire.b});
  EXPECT_EQ(wire.b.ended.at(old), Cause::kPeerClosed);
  EXPECT_EQ(wire.b.up.size(), 2u);
  EXPECT_EQ(reborn.log, "replied ");
}

/// All kinds of messages about this connection of `node`, but a REQ. Returns which had an effect.
std::string effects(CmWire& wire, CmNode& node, const CmAddresses& addresses, CmId mine, uint32_t theirs) {
  std::string out;
  const auto send = [&](const char* name, auto body) {
    Mad mad;
    cm_encode({.transaction = 1, .body = body}, mad);
    const std::string before = node.log;
    const Instant deadline = node.cm.next_deadline();
    const bool taken = node.cm.received(addresses, mad, wire.now);
    if (taken || node.log != before || node.cm.next_deadline() != deadline || !node.cm.has(mine)) out += name;
  };
  send("MRA ", CmMra{theirs, mine, CmAbout::kReq, 31});
  send("MRA ", CmMra{theirs, mine, CmAbout::kRep, 31});
  send("RTU ", CmRtu{theirs, mine});
  send("DREP ", CmDrep{theirs, mine});
  send("DREQ ", CmDreq{theirs, mine, 17});
  send("REP ", CmRep{.local_id = theirs, .remote_id = mine, .qpn = 99});
  send("REJ ", CmRej{.local_id = theirs, .reason = 4});
  send("REJ ", CmRej{.remote_id = mine, .reason = 28});
  send("REJ ", CmRej{.local_id = theirs, .remote_id = mine, .reason = 28});
  return out;
}

// Goal: no message of a stranger has an effect on a connection in any state, whatever it names.
TEST(RoceCmCtl, strangers_have_no_effect) {
  CmWire wire;
  wire.b.answers = false;
  wire.loses = [](const Mad& mad) { return is(mad, kRtu); };
  const CmAddresses of_a{kFirst, kStranger}, of_b{kSecond, kStranger};
  const CmId id = wire.a.dial(wire.now);
  EXPECT_EQ(effects(wire, wire.a, of_a, id, 4711), "") << "the REQ is sent";
  wire.run(100ms);
  const CmId other = wire.b.asked.at(0);
  EXPECT_EQ(effects(wire, wire.b, of_b, other, id), "") << "the REQ is here";
  wire.b.reply(other, wire.now);
  EXPECT_EQ(effects(wire, wire.b, of_b, other, id), "") << "the REP is sent";
  wire.run(100ms);
  EXPECT_EQ(effects(wire, wire.a, of_a, id, other), "") << "up";
  wire.b.cm.message_came(other);
  EXPECT_EQ(effects(wire, wire.b, of_b, other, id), "") << "up";
  wire.a.cm.close(id, wire.now);
  EXPECT_EQ(effects(wire, wire.a, of_a, id, other), "") << "the DREQ is sent";
  // The peer itself, about a queue pair that is not the one of this connection.
  Mad mad;
  cm_encode({.transaction = 1, .body = CmDreq{id, other, 4711}}, mad);
  EXPECT_FALSE(wire.b.cm.received({kSecond, kFirst}, mad, wire.now));
  EXPECT_TRUE(wire.b.cm.has(other));
}

// Goal: the peer itself ends a connection by a REJ in each state in which Linux sends one.
TEST(RoceCmCtl, a_rej_of_the_peer_ends_a_connection) {
  for (const bool up : {false, true}) {
    CmWire wire;
    wire.b.answers = up;
    const CmId id = wire.a.dial(wire.now);
    wire.run(100ms);
    CmNode& node = up ? wire.a : wire.b;
    const CmId mine = up ? id : wire.b.asked.at(0), theirs = up ? wire.b.up.at(0) : id;
    Mad mad;
    cm_encode({.transaction = 1,
               .body = CmRej{.local_id = theirs, .remote_id = mine, .about = CmAbout::kOther, .reason = 28}},
              mad);
    EXPECT_TRUE(node.cm.received({node.address, up ? kSecond : kFirst}, mad, wire.now));
    EXPECT_EQ(node.ended.at(mine), Cause::kPeerClosed);
  }
}

// Goal: a side that does not like the REP says so, and the other side hears of it.
TEST(RoceCmCtl, a_reply_that_is_refused) {
  CmWire wire;
  wire.a.accepts = false;
  (void)wire.a.dial(wire.now);
  wire.run();
  EXPECT_EQ(wire.kinds(), "REQ REP REJ ");
  EXPECT_EQ(wire.b.ended.at(wire.b.asked.at(0)), Cause::kRejected);
  EXPECT_EQ(wire.a.cm.conns() + wire.b.cm.conns(), 0u);
}

// Goal: a passive side that gives up ends the connection of the peer, with and without the REP. Linux expects both
// messages: a REJ that names the REQ only, and a DREQ.
TEST(RoceCmCtl, a_passive_side_that_gives_up) {
  for (const bool has_rep : {false, true}) {
    CmWire wire;
    wire.loses = [&](const Mad& mad) { return is(mad, kRtu) || (!has_rep && is(mad, kRep)); };
    const CmId id = wire.a.dial(wire.now);
    wire.run(100ms);
    wire.b.cm.close(wire.b.asked.at(0), wire.now);
    const auto rej = std::get<CmRej>(cm_decode(wire.sent.at(wire.sent.size() - 2))->body);
    EXPECT_EQ(rej.local_id, 0u);
    EXPECT_EQ(rej.about, CmAbout::kReq);
    EXPECT_TRUE(is(wire.sent.back(), kDreq));
    wire.run(100ms);
    EXPECT_EQ(wire.a.ended.at(id), has_rep ? Cause::kPeerClosed : Cause::kRejected);
    EXPECT_EQ(wire.a.cm.conns() + wire.b.cm.conns(), 0u);
  }
}

// Goal: a user may close another connection while it hears of the end of one.
TEST(RoceCmCtl, a_user_that_closes_while_it_hears) {
  CmWire wire;
  (void)wire.a.dial(wire.now);
  wire.run();
  const CmId old = wire.a.up.at(0);
  CmNode reborn(wire, kSecond, 78);  // with the same numbers of queue pairs
  const CmId id = wire.a.dial(wire.now);
  wire.a.closes_with_it = id;
  while (!wire.flights.empty()) wire.deliver({&reborn, &wire.a});
  EXPECT_EQ(wire.a.ended.at(old), Cause::kPeerClosed);
  EXPECT_FALSE(wire.a.cm.has(id));
  EXPECT_EQ(wire.a.log, "replied ended ");
}

TEST(RoceCmCtl, faults_of_a_request) {
  const CmReq right{.local_id = 5, .qpn = 17, .mtu = 3, .local_gid = kFirst, .remote_gid = kSecond};
  const auto reason_of = [&](const std::function<void(CmReq&)>& damage) -> unsigned {
    CmWire wire;
    wire.b.answers = false;
    CmReq req = right;
    damage(req);
    Mad mad;
    cm_encode({.transaction = 1, .body = req}, mad);
    (void)wire.b.cm.received({kSecond, kFirst}, mad, wire.now);
    EXPECT_EQ(wire.b.cm.conns(), wire.sent.empty() && req.local_id != 0 ? 1u : 0u);
    return wire.sent.empty() ? 0 : std::get<CmRej>(cm_decode(wire.sent.at(0))->body).reason;
  };
  EXPECT_EQ(reason_of([](CmReq&) {}), 0u);
  EXPECT_EQ(reason_of([](CmReq& req) { req.local_id = 0; }), 0u);
  EXPECT_EQ(reason_of([](CmReq& req) { req.transport = 1; }), unsigned(RejReason::kUnsupported));
  EXPECT_EQ(reason_of([](CmReq& req) { req.qpn = 1; }), unsigned(RejReason::kUnsupported));
  EXPECT_EQ(reason_of([](CmReq& req) { req.mtu = 0; }), unsigned(RejReason::kInvalidMtu));
  EXPECT_EQ(reason_of([](CmReq& req) { req.mtu = 6; }), unsigned(RejReason::kInvalidMtu));
  EXPECT_EQ(reason_of([](CmReq& req) { req.local_gid = kStranger; }), unsigned(RejReason::kInvalidGid));
  EXPECT_EQ(reason_of([](CmReq& req) { req.remote_gid = kStranger; }), unsigned(RejReason::kInvalidGid));
}

// Goal: requests without end have a bound, for one address and for all. Others are dropped: their senders repeat them.
TEST(RoceCmCtl, requests_have_a_bound) {
  CmWire wire;
  wire.b.answers = false;
  const auto ask = [&](uint32_t from, uint32_t number) {
    const rc::IpAddress address = rc::IpAddress::of_v4(0x0B000000 + from);
    Mad mad;
    const CmReq req{.local_id = number, .qpn = 100 + number, .mtu = 3, .local_gid = address, .remote_gid = kSecond};
    cm_encode({.transaction = number, .body = req}, mad);
    return wire.b.cm.received({kSecond, address}, mad, wire.now);
  };
  for (uint32_t number = 1; number <= kCmRequestsOfOneMax + 5; ++number)
    EXPECT_EQ(ask(0, number), number <= kCmRequestsOfOneMax);
  for (uint32_t from = 1; from <= kCmRequestsMax; ++from)
    EXPECT_EQ(ask(from, 1), from <= kCmRequestsMax - kCmRequestsOfOneMax);
  EXPECT_EQ(wire.b.cm.conns(), kCmRequestsMax);
  EXPECT_TRUE(wire.sent.empty());
  wire.b.cm.reject(wire.b.asked.at(0), RejReason::kConsumer, {});
  EXPECT_TRUE(ask(0, 1000));
  EXPECT_FALSE(ask(kCmRequestsMax, 1));
  for (size_t i = 1; i < wire.b.asked.size(); ++i) wire.b.cm.close(wire.b.asked[i], wire.now);
  EXPECT_EQ(wire.b.cm.conns(), 0u) << "nothing is kept for a peer that was never heard";
}

// Goal: a connection that is only leaving makes room for a new one.
TEST(RoceCmCtl, leaving_connections_give_way) {
  CmWire wire;
  const CmId id = wire.a.dial(wire.now);
  wire.run();
  wire.loses = [](const Mad&) { return true; };
  wire.a.cm.close(id, wire.now);
  ASSERT_TRUE(wire.a.cm.has(id));
  for (uint32_t i = 0; i < kCmConnsMax; ++i) ASSERT_TRUE(wire.a.cm.open({kFirst, kSecond})) << i;
  EXPECT_FALSE(wire.a.cm.has(id));
  EXPECT_FALSE(wire.a.cm.open({kFirst, kSecond}));
}

// Goal: any MADs in any order leave the tables whole.
TEST(RoceCmCtl, random_messages) {
  Rng rng(5);
  for (int round = 0; round < 200; ++round) {
    CmWire wire(uint64_t(round) + 1);
    wire.b.answers = round % 2 == 0;
    wire.lose_one_in = 3;
    (void)wire.a.dial(wire.now, wire.now + 20s);
    for (int i = 0; i < 200; ++i) {
      if (!wire.sent.empty() && rng.one_in(2)) {
        Mad mad = wire.sent[size_t(rng.below(wire.sent.size()))];
        if (rng.one_in(2)) mad[size_t(rng.below(80))] ^= std::byte(1u << rng.below(8));
        CmNode& node = rng.one_in(2) ? wire.a : wire.b;
        (void)node.cm.received({node.address, node.address == kFirst ? kSecond : kFirst}, mad, wire.now);
      }
      wire.step();
    }
    for (CmNode* node : {&wire.a, &wire.b}) {
      for (const CmId id : node->up)
        if (!node->ended.contains(id)) node->cm.close(id, wire.now);
      for (const CmId id : node->asked)
        if (!node->ended.contains(id) && std::find(node->up.begin(), node->up.end(), id) == node->up.end())
          node->cm.close(id, wire.now);
    }
    wire.run(200s);
    EXPECT_EQ(wire.a.cm.conns() + wire.b.cm.conns(), 0u) << round;
  }
}

}  // namespace
}  // namespace ulnet::test
