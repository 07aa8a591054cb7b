// Set-up of o2iblnd connections (docs/wire/o2iblnd.md §6). Each check of a request stands in its place. Each check of
// an answer, each reaction to a refusal, races and pauses have a case.
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <set>

#include "lnd/o2iblnd/proto/connect.h"
#include "lnd/o2iblnd/proto/credits.h"
#include "tests/nid_of.h"
#include "tests/wire/o2iblnd_encode.h"

namespace ulnet::o2iblnd {
namespace {

using test::nid;

/// A request and the side that judges it. The hash of the peer is the smaller one.
struct Case {
  Message request;
  PassiveSide here;
  size_t bytes = 56;
  MessageFault fault = MessageFault::kNone;
  [[nodiscard]] PassiveVerdict verdict() const {
    const std::vector<std::byte> data(bytes);
    return judge_request(data, request, fault, here);
  }
};
Case acceptable() {
  Case one;
  one.request.type = MessageType::kConnReq;
  one.request.ends = {nid("10.0.0.5@o2ib"), nid("10.0.0.6@o2ib"), 55, 66};
  one.request.params = {8, 257, 4096};
  one.here = {.privileged_required = true,
              .privileged = true,
              .ni_found = true,
              .ni_ready = true,
              .stamp = 66,
              .params = {8, 257, 4096},
              .peer_stamp = 55};
  return one;
}

struct Check {
  const char* name;
  RejectReason reason;
  std::function<void(Case&)> spoil;
};
/// In the order of §6.3.
const std::vector<Check>& checks() {
  using R = RejectReason;
  static const std::vector<Check> all = {
      {"1 privileged port", R::kFatal, [](Case& c) { c.here.privileged = false; }},
      {"2 too short", R::kFatal, [](Case& c) { c.bytes = 5; }},
      {"3 4 not a message", R::kFatal, [](Case& c) { c.fault = MessageFault::kBadVersion; }},
      {"4 no source", R::kFatal, [](Case& c) { c.request.ends.src = kAnyNid; }},
      {"4 no target", R::kFatal, [](Case& c) { c.request.ends.dst = kAnyNid; }},
      {"5 no NI", R::kFatal, [](Case& c) { c.here.ni_found = false; }},
      {"5 not ready", R::kEarly, [](Case& c) { c.here.ni_ready = false; }},
      {"6 stale", R::kConnStale, [](Case& c) { c.request.ends.dst_stamp = 67; }},
      {"7 type", R::kFatal, [](Case& c) { c.request.type = MessageType::kConnAck; }},
      {"8 queue depth", R::kMsgQueueSize, [](Case& c) { c.request.params.queue_depth = 9; }},
      {"9 fragments", R::kRdmaFrags, [](Case& c) { c.request.params.fragments = 258; }},
      {"10 size", R::kFatal, [](Case& c) { c.request.params.message_max = 4097; }},
      {"11 other life", R::kConnStale, [](Case& c) { c.here.peer_stamp = 54; }},
      {"12 race", R::kConnRace, [](Case& c) { c.here.connecting = true; }},
  };
  return all;
}

TEST(O2iblndRequest, is_accepted) {
  Case one = acceptable();
  EXPECT_TRUE(one.verdict().accepted()) << one.verdict().why;
  EXPECT_EQ(one.verdict().params, (ConnParams{8, 257, 4096}));
  EXPECT_FALSE(one.verdict().close_old);
  EXPECT_STREQ(one.verdict().why, "");
  one.request.params = {3, 1, 1000};
  EXPECT_EQ(one.verdict().params, (ConnParams{3, 1, 4096}));
  one.request.ends.dst_stamp = 0;
  one.here.peer_stamp = 0;
  one.here.privileged_required = one.here.privileged = false;
  EXPECT_TRUE(one.verdict().accepted());
}

// Goal: each check refuses with its own reason and sentence.
TEST(O2iblndRequest, each_check_refuses) {
  std::set<std::string> sentences;
  for (const Check& check : checks()) {
    Case one = acceptable();
    check.spoil(one);
    const PassiveVerdict verdict = one.verdict();
    EXPECT_EQ(verdict.reject.reason, check.reason) << check.name;
    EXPECT_EQ(verdict.close_old, check.name == std::string("11 other life")) << check.name;
    EXPECT_EQ(verdict.reject.version, 0x12) << check.name;
    sentences.insert(verdict.why);
  }
  EXPECT_EQ(sentences.size(), checks().size() - 1);  // one sentence for no source and no target
}

// Goal: of two things that are wrong, the earlier check in §6.3 decides.
TEST(O2iblndRequest, the_first_check_decides) {
  for (size_t first = 0; first < checks().size(); ++first)
    for (size_t second = first + 1; second < checks().size(); ++second) {
      Case alone = acceptable(), both = acceptable();
      checks()[first].spoil(alone);
      checks()[first].spoil(both);
      checks()[second].spoil(both);
      EXPECT_STREQ(both.verdict().why, alone.verdict().why)
          << checks()[first].name << " before " << checks()[second].name;
    }
}

// Goal: the block says what this NI offers; nothing where no NI was found, or the request could not be read (§6.2).
TEST(O2iblndRequest, block_has_the_parameters_of_the_ni) {
  for (const Check& check : checks()) {
    Case one = acceptable();
    check.spoil(one);
    const bool known = one.here.ni_found && one.fault == MessageFault::kNone;
    EXPECT_EQ(one.verdict().reject.stamp, known ? 66u : 0u) << check.name;
    EXPECT_EQ(one.verdict().reject.params, known ? one.here.params : (ConnParams{0, 0, 4096})) << check.name;
  }
}

TEST(O2iblndRequest, limits) {
  const auto reason = [](auto spoil) {
    Case one = acceptable();
    spoil(one);
    return one.verdict().reject.reason;
  };
  using R = RejectReason;
  EXPECT_EQ(reason([](Case& c) { c.bytes = 6; }), R::kNone);
  EXPECT_EQ(reason([](Case& c) { c.here.params.queue_depth = 7; }), R::kMsgQueueSize);
  EXPECT_EQ(reason([](Case& c) { c.request.params.queue_depth = kDepthLeast - 1; }), R::kFatal);
  EXPECT_EQ(reason([](Case& c) { c.request.params.queue_depth = 0; }), R::kFatal);
  EXPECT_EQ(reason([](Case& c) { c.request.params.fragments = 0; }), R::kRdmaFrags);
  EXPECT_EQ(reason([](Case& c) { c.request.params.fragments = 256; }), R::kNone);
  EXPECT_EQ(reason([](Case& c) {
              c.request.params.fragments = 256;
              c.here.joins_fragments = false;
            }),
            R::kRdmaFrags);
  EXPECT_EQ(reason([](Case& c) { c.here.joins_fragments = false; }), R::kNone);
  EXPECT_EQ(reason([](Case& c) { c.here.privileged_required = c.here.privileged = false; }), R::kNone);
}

// ---- races ---------------------------------------------------------------------------------------------------------

// Goal: the vectors of §6.4. The smaller hash loses, not the smaller NID.
TEST(O2iblndRace, hashes) {
  EXPECT_EQ(race_hash(nid("10.0.0.5@o2ib")), 0x0505000Au);
  EXPECT_EQ(race_hash(nid("10.0.1.1@o2ib")), 0x0104000Au);
  EXPECT_EQ(race_hash(nid("10.0.0.5@o2ib3")), 0x05050009u);
  EXPECT_TRUE(loses_race(nid("10.0.1.1@o2ib"), nid("10.0.0.5@o2ib")));
  EXPECT_FALSE(loses_race(nid("10.0.0.5@o2ib"), nid("10.0.1.1@o2ib")));
  EXPECT_FALSE(loses_race(nid("10.0.0.5@o2ib"), nid("10.0.0.5@o2ib")));
}

// Goal: exactly one side refuses; after 20 refusals it accepts.
TEST(O2iblndRace, one_side_wins_at_most_20_times) {
  Case one = acceptable();
  one.here.connecting = true;
  unsigned refused = 0;
  for (; refused < 100 && one.verdict().reject.reason == RejectReason::kConnRace; ++refused) ++one.here.races;
  EXPECT_EQ(refused, 20u);
  EXPECT_TRUE(one.verdict().accepted());
  one.here.races = 0;
  std::swap(one.request.ends.src, one.request.ends.dst);
  EXPECT_TRUE(one.verdict().accepted());
}

// ---- the active side -----------------------------------------------------------------------------------------------

TEST(O2iblndAnswer, each_check) {
  const Ends sent{nid("10.0.0.5@o2ib"), nid("10.0.0.6@o2ib"), 55, 0};
  const ConnParams offered{8, 257, 4096};
  const auto judge = [&](auto spoil, MessageFault fault = MessageFault::kNone) {
    Message answer;
    answer.type = MessageType::kConnAck;
    answer.ends = {sent.dst, sent.src, 66, 55};
    answer.params = offered;
    spoil(answer);
    return judge_answer(answer, fault, sent, offered);
  };
  using F = AnswerFault;
  const auto nothing = [](Message&) {};
  EXPECT_EQ(judge(nothing), F::kNone);
  EXPECT_EQ(judge(nothing, MessageFault::kBadMagic), F::kMessage);
  EXPECT_EQ(judge([](Message& m) { m.type = MessageType::kConnReq; }), F::kType);
  EXPECT_EQ(judge([](Message& m) { m.params.queue_depth = 9; }), F::kQueueSize);
  EXPECT_EQ(judge([](Message& m) { m.params.queue_depth = 2; }), F::kQueueSize);
  EXPECT_EQ(judge([](Message& m) { m.params.queue_depth = 3; }), F::kNone);
  EXPECT_EQ(judge([](Message& m) { m.params.fragments = 258; }), F::kFragments);
  EXPECT_EQ(judge([](Message& m) { m.params.fragments = 0; }), F::kFragments);
  EXPECT_EQ(judge([](Message& m) { m.params.fragments = 1; }), F::kNone);
  EXPECT_EQ(judge([](Message& m) { m.params.message_max = 4095; }), F::kSize);
  EXPECT_EQ(judge([](Message& m) { m.params.message_max = 4097; }), F::kSize);
  EXPECT_EQ(judge([&](Message& m) { m.ends.dst = sent.dst; }), F::kTarget);
  EXPECT_EQ(judge([](Message& m) { m.ends.dst_stamp = 54; }), F::kTarget);
  EXPECT_EQ(judge([&](Message& m) { m.ends.src = sent.src; }), F::kSource);
  std::set<std::string> sentences;
  for (unsigned i = 0; i <= unsigned(F::kSource); ++i) sentences.insert(answer_fault_text(F(i)));
  EXPECT_EQ(sentences.size(), unsigned(F::kSource) + 1);
}

TEST(O2iblndAnswer, has_the_ends_of_the_request_the_other_way_round) {
  const Case one = acceptable();
  EXPECT_EQ(ends_of_answer(one.request, 66), (Ends{nid("10.0.0.6@o2ib"), nid("10.0.0.5@o2ib"), 66, 55}));
}

Reaction react_to(const Reject& reject, ActiveSide here = {{8, 257, 4096}, true, false}) {
  std::vector<std::byte> bytes(148);
  reject_encode(reject, std::span(bytes).first<kRejectBytes>());
  return react(kCmConsumer, bytes, here);
}

// Goal: the table of §6.2.
TEST(O2iblndReaction, to_each_reason) {
  using K = Reaction::Kind;
  const std::tuple<RejectReason, K, const char*> table[] = {
      {RejectReason::kConnRace, K::kReconnect, "CONN_RACE"},
      {RejectReason::kNoResources, K::kFail, "NO_RESOURCES"},
      {RejectReason::kFatal, K::kFail, "FATAL"},
      {RejectReason::kConnUncompat, K::kReconnect, "CONN_UNCOMPAT"},
      {RejectReason::kConnStale, K::kReconnect, "CONN_STALE"},
      {RejectReason::kRdmaFrags, K::kFail, "RDMA_FRAGS"},  // not lower than offered
      {RejectReason::kMsgQueueSize, K::kFail, "MSG_QUEUE_SIZE"},
      {RejectReason::kInvalidSrvId, K::kFail, "INVALID_SRV_ID"},
      {RejectReason::kEarly, K::kFail, "EARLY"},
      {RejectReason(10), K::kFail, "?"},
      {RejectReason::kNone, K::kFail, "?"},
  };
  for (const auto& [reason, kind, name] : table) {
    const Reaction reaction = react_to({reason, 0x12, 77, {8, 257, 4096}});
    EXPECT_EQ(reaction.kind, kind) << name;
    EXPECT_EQ(reaction.error, kind == K::kFail ? -ECONNREFUSED : 0) << name;
    EXPECT_EQ(reaction.stamp, 77u) << name;
    EXPECT_EQ(reaction.reason, reason);
    EXPECT_STREQ(reject_reason_text(reason), name);
    if (kind == K::kReconnect) {
      EXPECT_EQ(reaction.params, (ConnParams{8, 257, 4096})) << name;
    }
  }
}

// Goal: a peer that has version 1 only is not tried again, since this node does not speak version 1.
TEST(O2iblndReaction, to_another_version) {
  EXPECT_EQ(react_to({RejectReason::kConnUncompat, kVersion1}).kind, Reaction::Kind::kFail);
  EXPECT_EQ(react_to({RejectReason::kFatal, kVersion1}).kind, Reaction::Kind::kFail);
}

// Goal: a lower limit of the peer is taken over, and the other one stays; a limit that no connection can have fails.
TEST(O2iblndReaction, to_lower_limits) {
  const auto fragments = [](uint16_t theirs) {
    return react_to({RejectReason::kRdmaFrags, 0x12, 77, {4, theirs, 4096}});
  };
  EXPECT_EQ(fragments(256).kind, Reaction::Kind::kReconnect);
  EXPECT_EQ(fragments(256).params, (ConnParams{8, 256, 4096}));
  EXPECT_EQ(fragments(1).kind, Reaction::Kind::kReconnect);
  EXPECT_EQ(fragments(0).kind, Reaction::Kind::kFail);
  EXPECT_EQ(fragments(257).kind, Reaction::Kind::kFail);
  const auto depth = [](uint16_t theirs) {
    return react_to({RejectReason::kMsgQueueSize, 0x12, 77, {theirs, 1, 4096}});
  };
  EXPECT_EQ(depth(7).kind, Reaction::Kind::kReconnect);
  EXPECT_EQ(depth(7).params, (ConnParams{7, 257, 4096}));
  EXPECT_EQ(depth(3).kind, Reaction::Kind::kReconnect);
  EXPECT_EQ(depth(2).kind, Reaction::Kind::kFail);
  EXPECT_EQ(depth(8).kind, Reaction::Kind::kFail);
}

TEST(O2iblndReaction, only_while_messages_wait_and_the_peer_does_not_connect) {
  const Reject race{.reason = RejectReason::kConnRace, .stamp = 77}, fatal{.reason = RejectReason::kFatal};
  for (const bool wait : {false, true})
    for (const bool passive : {false, true}) {
      const ActiveSide here{{8, 257, 4096}, wait, passive};
      const bool again = wait && !passive;
      EXPECT_EQ(react_to(race, here).kind, again ? Reaction::Kind::kReconnect : Reaction::Kind::kNothing);
      EXPECT_EQ(react_to(race, here).error, 0);
      EXPECT_EQ(react_to(race, here).stamp, 77u);
      EXPECT_EQ(react_to(fatal, here).kind, Reaction::Kind::kFail);
    }
}

// Goal: refusals by the CM itself, and private data that is no reject block (§6.2).
TEST(O2iblndReaction, to_the_cm) {
  const ActiveSide here{{8, 257, 4096}, true, false};
  std::vector<std::byte> bytes(148);
  for (uint16_t reason = 0; reason < 40; ++reason) {
    const Reaction reaction = react(reason, bytes, here);
    EXPECT_EQ(reaction.reason, RejectReason::kNone);
    EXPECT_EQ(reaction.stamp, 0u);
    EXPECT_EQ(reaction.params, here.offered);
    if (reason == 10) {
      EXPECT_EQ(reaction.kind, Reaction::Kind::kReconnect);
      continue;
    }
    EXPECT_EQ(reaction.kind, Reaction::Kind::kFail) << reason;
    EXPECT_EQ(reaction.error, reason == 8 ? -EHOSTUNREACH : -ECONNREFUSED) << reason;
  }
  EXPECT_EQ(react(10, bytes, {{8, 257, 4096}, false, false}).kind, Reaction::Kind::kNothing);
  // A block counts only with reason 28.
  reject_encode({.reason = RejectReason::kConnRace, .stamp = 77}, std::span(bytes).first<kRejectBytes>());
  EXPECT_EQ(react(28, bytes, here).kind, Reaction::Kind::kReconnect);
  EXPECT_EQ(react(4, bytes, here).kind, Reaction::Kind::kFail);
}

TEST(O2iblndReaction, ten_reconnects_have_no_pause) {
  for (unsigned i = 0; i < 10; ++i) EXPECT_EQ(reconnect_pause(i), 0s);
  for (unsigned i = 10; i < 100; ++i) EXPECT_EQ(reconnect_pause(i), 1s);
}

}  // namespace
}  // namespace ulnet::o2iblnd
