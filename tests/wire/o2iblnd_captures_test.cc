// Every message of o2iblnd in the captures decodes, and encodes to its original bytes. So does the private data of each
// CM message. The credits of each captured connection follow the rules.
// Method: compare message counts with the known content of the captures. Verdicts and reactions of connect.h must agree
// with the kernel's. Replay the credits of each connection through the class Credits, as both sides.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "lnd/o2iblnd/proto/connect.h"
#include "lnd/o2iblnd/proto/credits.h"
#include "tests/wire/hex.h"
#include "tests/wire/o2iblnd_encode.h"
#include "tests/wire/roce.h"

namespace ulnet::test {
namespace {

using namespace o2iblnd;

struct Expected {
  const char* name;
  const char* cm;
  const char* messages;  ///< without those that were sent again
};
constexpr Expected kCaptures[] = {
    {"d7-routed-o2ib-tcp-ping-discover-o2ibside", "", "IMMEDIATE 14"},
    {"d8-routed-o2ib-tcp-lst-brw-write-64k-o2ibside", "", "IMMEDIATE 22, PUT_ACK 2, PUT_DONE 2, PUT_REQ 2, WRITE 2"},
    {"d9-routed-o2ib-tcp-lst-brw-read-64k-o2ibside", "", "IMMEDIATE 20, PUT_ACK 2, PUT_DONE 2, PUT_REQ 2, WRITE 2"},
    {"e1-o2ib-ping-discover-mtu9000", "REP 1, REQ 1, RTU 1", "IMMEDIATE 8"},
    {"e1-o2ib-ping-discover", "REP 1, REQ 1, RTU 1", "IMMEDIATE 8"},
    {"e2-o2ib-lst-ping-mtu9000", "REP 1, REQ 1, RTU 1", "IMMEDIATE 24"},
    {"e2-o2ib-lst-ping", "REP 1, REQ 1, RTU 1", "IMMEDIATE 24"},
    {"e3-o2ib-lst-brw-write-4k-mtu9000", "REP 1, REQ 1, RTU 1", "GET_DONE 3, GET_REQ 3, IMMEDIATE 24, WRITE 3"},
    {"e3-o2ib-lst-brw-write-4k", "REP 1, REQ 1, RTU 1", "GET_DONE 3, GET_REQ 3, IMMEDIATE 24, WRITE 3"},
    {"e4-o2ib-lst-brw-read-4k-mtu9000", "REP 1, REQ 1, RTU 1",
     "IMMEDIATE 24, PUT_ACK 3, PUT_DONE 3, PUT_REQ 3, WRITE 3"},
    {"e4-o2ib-lst-brw-read-4k", "REP 1, REQ 1, RTU 1", "IMMEDIATE 24, PUT_ACK 3, PUT_DONE 3, PUT_REQ 3, WRITE 3"},
    {"e5-o2ib-lst-brw-write-1m-mtu9000", "REP 1, REQ 1, RTU 1", "GET_DONE 1, GET_REQ 1, IMMEDIATE 20, WRITE 1"},
    {"e5-o2ib-lst-brw-write-1m", "REP 1, REQ 1, RTU 1", "GET_DONE 1, GET_REQ 1, IMMEDIATE 20, WRITE 1"},
    {"e6-o2ib-lst-brw-read-1m-mtu9000", "REP 1, REQ 1, RTU 1",
     "IMMEDIATE 20, PUT_ACK 1, PUT_DONE 1, PUT_REQ 1, WRITE 1"},
    {"e6-o2ib-lst-brw-read-1m", "REP 1, REQ 1, RTU 1", "IMMEDIATE 20, PUT_ACK 1, PUT_DONE 1, PUT_REQ 1, WRITE 1"},
    {"e7-o2ib-mr-discover", "REP 2, REQ 2, RTU 2", "IMMEDIATE 22"},
    {"e8-o2ib-mr-lst-brw-write-64k", "REJ 6, REP 6, REQ 12, RTU 6", "GET_DONE 8, GET_REQ 8, IMMEDIATE 58, WRITE 8"},
    {"e9-o2ib-mr-net-del-push", "DREP 2, DREQ 2", "IMMEDIATE 4"},
    {"g10-o2ib-reject-wrong-net", "REJ 1, REQ 1", ""},
    {"g11-o2ib-peer-frozen-then-resumed", "DREP 2, DREQ 2, REJ 3, REP 2, REQ 4, RTU 2", "IMMEDIATE 30"},
    {"g12-o2ib-loss3pct-lst-brw-64k", "REP 1, REQ 1, RTU 1", "GET_DONE 3, GET_REQ 3, IMMEDIATE 24, WRITE 3"},
    {"g14-o2ib-peer-killed-and-rebooted", "DREP 1, DREQ 2, REJ 1, REP 1, REQ 2, RTU 1", "IMMEDIATE 41"},
    {"g7-o2ib-reject-queue-depth-renegotiate", "REJ 1, REP 1, REQ 2, RTU 1", "IMMEDIATE 2"},
    {"g8-o2ib-no-listener", "REJ 1, REQ 1", ""},
    {"g9-o2ib-connection-race", "REJ 2, REP 1, REQ 3, RTU 1", "IMMEDIATE 4"},
    {"j1-mr-mixed-tcp-o2ib-discover-ping", "REP 1, REQ 1, RTU 1", "IMMEDIATE 8"},
};

const char* cm_name(CmMessage::Kind kind) {
  switch (kind) {
    case CmMessage::Kind::kReq: return "REQ";
    case CmMessage::Kind::kRej: return "REJ";
    case CmMessage::Kind::kRep: return "REP";
    case CmMessage::Kind::kRtu: return "RTU";
    case CmMessage::Kind::kDreq: return "DREQ";
    case CmMessage::Kind::kDrep: return "DREP";
  }
  return "?";
}

/// Counts as "IMMEDIATE 8, WRITE 1", sorted by name.
std::string text_of(const std::map<std::string, unsigned>& counts) {
  std::string text;
  for (const auto& [name, count] : counts) text += (text.empty() ? "" : ", ") + name + " " + std::to_string(count);
  return text;
}

O2ibCapture read(const std::string& name) {
  O2ibCapture capture = o2ib_read(capture_path(name));
  EXPECT_EQ(capture.error, "");
  return capture;
}

Message decoded(const std::vector<std::byte>& bytes) {
  Message message;
  EXPECT_EQ(message_decode(bytes, message), MessageFault::kNone);
  return message;
}

// Goal: the table has each capture with o2ib in it, so that no capture is forgotten.
TEST(O2iblndCaptures, are_all_in_the_table) {
  std::set<std::string> known;
  for (const Expected& expected : kCaptures) known.insert(expected.name);
  const auto names = o2ib_capture_names();
  EXPECT_EQ(known, std::set<std::string>(names.begin(), names.end()));
}

TEST(O2iblndCaptures, have_the_expected_messages) {
  for (const Expected& expected : kCaptures) {
    const O2ibCapture capture = read(expected.name);
    std::map<std::string, unsigned> cm, messages;
    for (const CmMessage& one : capture.cm) ++cm[cm_name(one.kind)];
    for (const O2ibSend& one : capture.sends) ++messages[message_type_text(decoded(one.bytes).type)];
    for (const O2ibConnection& one : capture.connections)
      if (one.writes != 0) messages["WRITE"] += one.writes;
    EXPECT_EQ(text_of(cm), expected.cm) << expected.name;
    EXPECT_EQ(text_of(messages), expected.messages) << expected.name;
  }
}

// Goal: every message encodes to its bytes, and has the ends of its connection.
TEST(O2iblndCaptures, messages_encode_to_their_bytes) {
  for (const Expected& expected : kCaptures) {
    const O2ibCapture capture = read(expected.name);
    std::map<std::pair<size_t, Side>, Ends> ends;
    for (const O2ibSend& one : capture.sends) {
      const Message message = decoded(one.bytes);
      EXPECT_EQ(hex_text(o2iblnd_encode(message)), hex_text(one.bytes)) << expected.name;
      const auto [first, fresh] = ends.try_emplace({one.connection, one.from}, message.ends);
      EXPECT_EQ(message.ends, first->second);
      if (const auto back = ends.find({one.connection, other(one.from)}); back != ends.end()) {
        EXPECT_EQ(check_ends(message.ends, back->second), MessageFault::kNone);
      }
      EXPECT_LE(message.sink.count(), 1u);
    }
  }
}

/// The private data is the message and zeroes.
void expect_same(const std::vector<std::byte>& encoded, const std::vector<std::byte>& private_data) {
  std::vector<std::byte> padded = encoded;
  padded.resize(private_data.size());
  EXPECT_EQ(hex_text(padded), hex_text(private_data));
}

// Goal: all private data of the CM encodes to its bytes.
TEST(O2iblndCaptures, private_data_encodes_to_its_bytes) {
  unsigned blocks = 0;
  for (const Expected& expected : kCaptures)
    for (const CmMessage& one : read(expected.name).cm) {
      if (one.kind == CmMessage::Kind::kReq || one.kind == CmMessage::Kind::kRep) {
        const Message message = decoded(one.private_data);
        EXPECT_EQ(message.type, one.kind == CmMessage::Kind::kReq ? MessageType::kConnReq : MessageType::kConnAck);
        expect_same(o2iblnd_encode(message), one.private_data);
      }
      if (one.kind != CmMessage::Kind::kRej) continue;
      Reject reject;
      EXPECT_EQ(reject_decode(one.private_data, reject), one.reason == kCmConsumer);
      if (one.reason != kCmConsumer) continue;
      ++blocks;
      std::vector<std::byte> out(kRejectBytes);
      reject_encode(reject, std::span(out).first<kRejectBytes>());
      expect_same(out, one.private_data);
    }
  EXPECT_EQ(blocks, 12u);
}

// ---- connection setup ----------------------------------------------------------------------------------------------

/// The answer to a REQ: a REP or REJ with its number as remote id.
const CmMessage* answer_to(const O2ibCapture& capture, const CmMessage& request) {
  for (const CmMessage& one : capture.cm)
    if ((one.kind == CmMessage::Kind::kRep || one.kind == CmMessage::Kind::kRej) && one.from == request.to &&
        one.remote_id == request.local_id)
      return &one;
  return nullptr;
}

/// The passive side as the answer shows it.
PassiveSide side_of(const Message& request, const CmMessage& answer) {
  PassiveSide here{.ni_found = true, .ni_ready = true, .params = {8, 257, 4096}};
  Reject reject;
  if (answer.kind == CmMessage::Kind::kRep)
    here.stamp = decoded(answer.private_data).ends.src_stamp;
  else if (reject_decode(answer.private_data, reject)) {
    here.stamp = reject.stamp;
    here.ni_found = reject.stamp != 0;
    here.connecting = reject.reason == RejectReason::kConnRace;
  }
  EXPECT_TRUE(request.ends.dst_stamp == 0 || request.ends.dst_stamp == here.stamp);
  return here;
}

// Goal: on each captured CONNREQ our verdict is the kernel's, and our CONNACK or reject block has the same bytes.
TEST(O2iblndCaptures, verdicts_on_requests_are_those_of_the_kernel) {
  std::map<RejectReason, unsigned> verdicts;
  for (const Expected& expected : kCaptures) {
    const O2ibCapture capture = read(expected.name);
    for (const CmMessage& one : capture.cm) {
      const CmMessage* answer = one.kind == CmMessage::Kind::kReq ? answer_to(capture, one) : nullptr;
      if (answer == nullptr || (answer->kind == CmMessage::Kind::kRej && answer->reason != kCmConsumer)) continue;
      Message request;
      const MessageFault fault = message_decode(one.private_data, request);
      const PassiveSide here = side_of(request, *answer);
      const PassiveVerdict verdict = judge_request(one.private_data, request, fault, here);
      ++verdicts[verdict.reject.reason];
      ASSERT_EQ(verdict.accepted(), answer->kind == CmMessage::Kind::kRep) << expected.name << ": " << verdict.why;
      if (!verdict.accepted()) {
        std::vector<std::byte> out(kRejectBytes);
        reject_encode(verdict.reject, std::span(out).first<kRejectBytes>());
        expect_same(out, answer->private_data);
        continue;
      }
      const Ends ends = ends_of_answer(request, here.stamp);
      std::array<std::byte, kMessageMax> out{};
      const size_t bytes = encode_connect(MessageBuffer(out), MessageType::kConnAck, ends, verdict.params);
      expect_same({out.begin(), out.begin() + std::ptrdiff_t(bytes)}, answer->private_data);
      const Message acknowledged = decoded(answer->private_data);
      EXPECT_EQ(judge_answer(acknowledged, MessageFault::kNone, request.ends, request.params), AnswerFault::kNone);
    }
  }
  using R = RejectReason;
  EXPECT_EQ(verdicts,
            (std::map<R, unsigned>{{R::kNone, 27}, {R::kConnRace, 10}, {R::kFatal, 1}, {R::kMsgQueueSize, 1}}));
}

// Goal: the next CONNREQ of a node after a reject is what our reaction says (e8, g7, g9, g11).
TEST(O2iblndCaptures, requests_after_a_reject_are_as_the_reaction_says) {
  unsigned reconnects = 0;
  for (const Expected& expected : kCaptures) {
    const O2ibCapture capture = read(expected.name);
    for (const CmMessage& one : capture.cm) {
      const CmMessage* answer = one.kind == CmMessage::Kind::kReq ? answer_to(capture, one) : nullptr;
      if (answer == nullptr || answer->kind != CmMessage::Kind::kRej || answer->reason != kCmConsumer) continue;
      const Message request = decoded(one.private_data);
      const Reaction reaction = react(answer->reason, answer->private_data, {request.params, true, false});
      for (const CmMessage* next = answer + 1; next != capture.cm.data() + capture.cm.size(); ++next) {
        if (next->kind != CmMessage::Kind::kReq || next->from != one.from || next->to != one.to) continue;
        EXPECT_EQ(reaction.kind, Reaction::Kind::kReconnect);
        const Message again = decoded(next->private_data);
        EXPECT_EQ(again.params, reaction.params);
        EXPECT_EQ(again.ends.dst_stamp, reaction.stamp);
        ++reconnects;
        break;
      }
    }
  }
  EXPECT_EQ(reconnects, 5u);
}

// ---- credits -------------------------------------------------------------------------------------------------------

/// One side of a connection. The kernel may return less than it owes (§5), so the rest is owed further on.
class SideReplay {
 public:
  /// `used`: credits that this side had used before the file begins; `owed`: credits that it owed then.
  SideReplay(unsigned used, unsigned owed) {
    for (unsigned i = 0; i < used; ++i) (void)credits_.send(MessageType::kImmediate);
    for (unsigned i = 0; i < owed; ++i) (void)credits_.repost(MessageType::kImmediate);
  }
  void sent(const Message& message) {
    if (!credits_.may_send(message.type)) return fail("sent without a credit");
    unsigned owed = credits_.send(message.type);
    owed_most_ = std::max(owed_most_, owed);
    if (message.credits > owed) return fail("returned more than it owed");
    for (; owed > message.credits; --owed) (void)credits_.repost(MessageType::kImmediate);
  }
  void received(const Message& message) {
    if (!credits_.receive(message.type, message.credits)) return fail("got more than it had used");
    if (!credits_.repost(message.type)) return fail("got a message without a credit");
  }
  [[nodiscard]] const std::string& wrong() const { return wrong_; }
  [[nodiscard]] unsigned owed_most() const { return owed_most_; }

 private:
  void fail(const char* what) {
    if (wrong_.empty()) wrong_ = what;
  }
  Credits credits_{8, 4};
  std::string wrong_;
  unsigned owed_most_ = 0;
};

/// Both sides of a connection, with these credits on the way back to each at the beginning.
std::string replay(const O2ibCapture& capture, size_t connection, unsigned to_dialler, unsigned to_passive,
                   unsigned& owed_most) {
  std::map<Side, SideReplay> sides;
  sides.try_emplace(Side::kDialler, to_dialler, to_passive);
  sides.try_emplace(Side::kPassive, to_passive, to_dialler);
  for (const O2ibSend& one : capture.sends) {
    if (one.connection != connection) continue;
    const Message message = decoded(one.bytes);
    sides.at(one.from).sent(message);
    sides.at(other(one.from)).received(message);
  }
  for (const auto& [side, replayed] : sides) {
    owed_most = std::max(owed_most, replayed.owed_most());
    if (!replayed.wrong().empty()) return (side == Side::kDialler ? "dialler: " : "passive: ") + replayed.wrong();
  }
  return "";
}

// Goal: no captured connection breaks a rule of §5. Of a connection that was open before, some number of credits was on
// the way back to each side.
TEST(O2iblndCaptures, credits_follow_the_rules) {
  unsigned whole = 0, mid = 0, owed_most = 0;
  for (const Expected& expected : kCaptures) {
    const O2ibCapture capture = read(expected.name);
    for (size_t i = 0; i < capture.connections.size(); ++i) {
      if (!capture.connections[i].opened_mid) {
        EXPECT_EQ(replay(capture, i, 0, 0, owed_most), "") << expected.name << " connection " << i;
        ++whole;
        continue;
      }
      std::string wrong = "-";
      for (unsigned guess = 0; guess < 25 && !wrong.empty(); ++guess) {
        unsigned ignored = 0;
        wrong = replay(capture, i, guess / 5, guess % 5, ignored);
      }
      EXPECT_EQ(wrong, "") << expected.name << " connection " << i;
      ++mid;
    }
  }
  EXPECT_EQ(whole, 27u);
  EXPECT_EQ(mid, 8u);  // two of them only end, in e9
  EXPECT_EQ(owed_most, 3u);  // below high water: no NOOP is due
}

}  // namespace
}  // namespace ulnet::test
