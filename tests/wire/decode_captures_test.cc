// Every capture of real LNet over TCP decodes to its last byte, and every structure in it encodes to its original
// bytes.
// Method: decode each side of each conversation in pieces of several sizes, and compare message counts with the known
// content of the captures. Each crafted capture (g3) must end in exactly the verdict for its wrong bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "dataplane/base/nid_text.h"
#include "dataplane/wire/ping_info.h"
#include "lnd/socklnd/proto/zc.h"
#include "tests/wire/decode.h"
#include "tests/wire/hex.h"
#include "tests/wire/roce.h"

namespace ulnet::test {
namespace {

using namespace socklnd;

struct Expected {
  const char* name;
  unsigned frames;       ///< of any protocol
  const char* messages;  ///< over TCP
  bool mid;              ///< connections are open at the beginning
};

constexpr Expected kCaptures[] = {
    {"a1-tcp-ping-1to2", 32, "HELLO 6, GET 1, REPLY 1", false},
    {"a2-tcp-ping-2to1", 32, "HELLO 6, GET 1, REPLY 1", false},
    {"b1-tcp-mr-discover-push", 91, "HELLO 12, GET 9, REPLY 9, PUT 2, ACK 2", false},
    {"b2-tcp-mr-net-del-push", 13, "PUT 1, ACK 1", true},
    {"b3-tcp-mr-net-add-push", 30, "HELLO 6, PUT 1, ACK 1", false},  // the open connections are silent
    {"b4-tcp-mr-lst-brw-write-64k-both-rails", 738, "HELLO 6, GET 12, REPLY 12, PUT 36, NOOP 12", true},
    {"c1-tcp-lst-ping", 63, "HELLO 6, GET 1, REPLY 1, PUT 20, ACK 2", false},
    {"c2-tcp-lst-brw-write-4k", 83, "HELLO 6, GET 4, REPLY 4, PUT 20, ACK 2", false},
    {"c3-tcp-lst-brw-read-4k", 75, "HELLO 6, GET 1, REPLY 1, PUT 23, ACK 2", false},
    {"c4-tcp-lst-brw-write-1m", 894, "HELLO 6, GET 2, REPLY 2, PUT 16, ACK 2, NOOP 1", false},
    {"c5-tcp-lst-brw-read-1m", 827, "HELLO 6, GET 1, REPLY 1, PUT 17, ACK 2, NOOP 1", false},
    {"c6-tcp-lst-brw-write-64k-conc2", 282, "HELLO 6, GET 5, REPLY 5, PUT 22, ACK 2, NOOP 4", false},
    {"d1-routed-ping-tcp1side", 87, "HELLO 6, GET 9, REPLY 9, PUT 10, ACK 10", false},
    {"d2-routed-lst-ping-tcp1side", 38, "GET 2, REPLY 2, PUT 19, ACK 3", true},
    {"d3-routed-lst-brw-write-4k-tcp1side", 49, "GET 4, REPLY 4, PUT 19, ACK 3", true},
    {"d4-routed-lst-brw-read-4k-tcp1side", 43, "GET 2, REPLY 2, PUT 21, ACK 3", true},
    {"d5-routed-lst-brw-write-1m-tcp1side", 810, "GET 2, REPLY 2, PUT 16, ACK 2, NOOP 1", true},
    {"d6-routed-lst-brw-read-1m-tcp1side", 832, "GET 2, REPLY 2, PUT 18, ACK 3, NOOP 1", true},
    {"d1-routed-ping-tcp2side", 88, "HELLO 6, GET 9, REPLY 9, PUT 10, ACK 10", false},
    {"d2-routed-lst-ping-tcp2side", 40, "GET 2, REPLY 2, PUT 19, ACK 3", true},
    {"d3-routed-lst-brw-write-4k-tcp2side", 54, "GET 4, REPLY 4, PUT 19, ACK 3", true},
    {"d4-routed-lst-brw-read-4k-tcp2side", 54, "GET 2, REPLY 2, PUT 21, ACK 3", true},
    {"d5-routed-lst-brw-write-1m-tcp2side", 909, "GET 3, REPLY 3, PUT 17, ACK 3, NOOP 1", true},
    {"d6-routed-lst-brw-read-1m-tcp2side", 840, "GET 2, REPLY 2, PUT 18, ACK 3, NOOP 1", true},
    {"d7-routed-o2ib-tcp-ping-discover-tcpside", 16, "GET 3, REPLY 3, PUT 2, ACK 2", true},
    {"d8-routed-o2ib-tcp-lst-brw-write-64k-tcpside", 148, "GET 3, REPLY 3, PUT 17, ACK 1, NOOP 2", true},
    {"d9-routed-o2ib-tcp-lst-brw-read-64k-tcpside", 140, "GET 1, REPLY 1, PUT 19, ACK 1, NOOP 2", true},
    {"g1-tcp-peer-frozen-then-resumed", 166, "HELLO 12, GET 14, REPLY 14", false},
    {"g1b-tcp-peer-killed-and-rebooted", 120, "HELLO 6, GET 23, REPLY 22", true},
    {"g2-tcp-mr-rail-failure-health-recovery", 227, "HELLO 12, GET 41, REPLY 40", true},
    {"g4-tcp-connection-race", 61, "HELLO 10, GET 2, REPLY 2", false},
    {"g5-tcp-mr-link-down-up-push", 160, "HELLO 22, GET 5, REPLY 4, PUT 3, ACK 3", true},
    {"g6-tcp-mr-injected-drops-health-recovery", 87, "HELLO 12, GET 10, REPLY 10", true},
    {"h1-tcp-ipv6-large-nid-ping-discover", 45, "HELLO 6, GET 2, REPLY 2, PUT 2, ACK 2", false},
    {"h2-tcp-ipv4-and-ipv6-nid-discover", 82, "HELLO 12, GET 3, REPLY 3, PUT 2, ACK 2", false},
    {"i1-tcp-csum-enabled-lst-brw-write-4k", 74, "HELLO 6, GET 3, REPLY 3, PUT 18, ACK 2", false},
    {"i2-tcp-conns-per-peer-4-ping", 86, "HELLO 18, GET 1, REPLY 1", false},
    {"i3-tcp-untyped-conns-ping", 19, "HELLO 2", false},
    {"j1-mr-mixed-tcp-o2ib-discover-ping", 64, "HELLO 6, GET 4, REPLY 4, PUT 1, ACK 1", false},
};

/// The verdicts on the script's side of a g3 file, and the messages of both sides.
struct Crafted {
  const char* name;
  AcceptStatus accept;
  HelloStatus hello;
  FrameStatus frame;
  size_t left_over;      ///< bytes of the script that are rubbish or incomplete
  const char* messages;  ///< both sides
};

constexpr auto kOk = AcceptStatus::kRequest;
constexpr auto kGreeted = HelloStatus::kHello;
constexpr auto kEnd = FrameStatus::kMore;
constexpr Crafted kCrafted[] = {
    {"accmagic", AcceptStatus::kClose, HelloStatus::kMore, kEnd, 16, ""},
    {"accnid", kOk, HelloStatus::kMore, kEnd, 0, ""},
    {"accver", AcceptStatus::kAnswerAndClose, HelloStatus::kMore, kEnd, 16, ""},
    {"badtype", kOk, kGreeted, FrameStatus::kBadType, 24, "HELLO 2"},
    {"hbe", kOk, kGreeted, FrameStatus::kBadHeader, 96, "HELLO 2"},
    {"hctype", kOk, HelloStatus::kBadType, kEnd, 56, ""},
    {"hdst", kOk, kGreeted, kEnd, 0, "HELLO 2"},
    {"hmagic", kOk, HelloStatus::kBadMagic, kEnd, 56, ""},
    {"hsrc", kOk, kGreeted, kEnd, 0, "HELLO 2"},
    {"hv4", kOk, HelloStatus::kMore, kEnd, 56, ""},
    {"hver", kOk, HelloStatus::kUnknownVersion, kEnd, 56, "HELLO 1"},
    {"hver1", kOk, kGreeted, kEnd, 0, "HELLO 2"},
    {"hver2", kOk, kGreeted, kEnd, 0, "HELLO 2, GET 1, REPLY 1"},
    {"noop", kOk, kGreeted, kEnd, 0, "HELLO 2, NOOP 1"},
    {"ping", kOk, kGreeted, kEnd, 0, "HELLO 2, GET 1, REPLY 1"},
    {"unpriv", kOk, kGreeted, kEnd, 0, "HELLO 1"},
};

Capture read(const std::string& name) {
  Capture capture = pcap_read(capture_path(name));
  EXPECT_EQ(capture.error, "");
  return capture;
}

bool is_ping(const wire::Header& header) {
  if (header.type == wire::MsgType::kGet) return header.get().portal == 0;
  return header.type == wire::MsgType::kPut && header.put().portal == 0;
}

void expect_ping_info(const std::vector<std::byte>& payload) {
  const auto decoded = wire::ping_info_decode(payload, 4096);
  ASSERT_TRUE(decoded) << decoded.error().what;
  EXPECT_FALSE(decoded->truncated);
  EXPECT_GE(decoded->info.nis.size(), 1u);
  EXPECT_EQ(hex_text(wire::ping_info_encode(decoded->info)), hex_text(payload));
}

/// Checks all ping infos in what was decoded: payloads of PUTs to portal 0 and of REPLYs to GETs from there.
unsigned check_ping_infos(const std::vector<DecodedSide>& sides) {
  std::set<std::pair<uint64_t, uint64_t>> asked;
  for (const DecodedSide& side : sides)
    for (const DecodedFrame& frame : side.frames) {
      if (!frame.header || frame.header->type != wire::MsgType::kGet || !is_ping(*frame.header)) continue;
      EXPECT_EQ(frame.header->get().match_bits, wire::kPingMatchBits);
      const wire::WireHandle handle = frame.header->get().return_wmd;
      asked.insert({handle.interface_cookie, handle.object_cookie});
    }
  unsigned count = 0;
  for (const DecodedSide& side : sides)
    for (const DecodedFrame& frame : side.frames) {
      if (!frame.header) continue;
      const wire::WireHandle handle = frame.header->reply().dst_wmd;
      const bool reply = frame.header->type == wire::MsgType::kReply &&
                         asked.contains({handle.interface_cookie, handle.object_cookie});
      const bool push = frame.header->type == wire::MsgType::kPut && is_ping(*frame.header);
      if (!reply && !push) continue;
      expect_ping_info(frame.payload);
      ++count;
    }
  return count;
}

/// Both sides of all conversations, whole and good.
std::vector<DecodedSide> decode_all(const Capture& capture, size_t piece) {
  std::vector<DecodedSide> sides;
  for (const TcpConversation& conversation : capture.conversations) {
    SCOPED_TRACE(conversation.dialler.text() + " -> " + conversation.passive.text());
    EXPECT_FALSE(conversation.gap);
    EXPECT_EQ(conversation.passive.port, 988);
    EXPECT_LT(conversation.dialler.port, 1024);
    for (Side side : {Side::kDialler, Side::kPassive}) {
      DecodedSide decoded = decode_side(conversation, side, piece);
      EXPECT_EQ(decoded.mismatch, "");
      EXPECT_EQ(decoded.left_over, 0u);
      if (conversation.established && !conversation.stream(side).empty()) {
        EXPECT_EQ(decoded.hello_status, kGreeted);
      }
      sides.push_back(std::move(decoded));
    }
    const DecodedSide& dialler = sides[sides.size() - 2];
    if (dialler.dialled && dialler.hello) {
      EXPECT_EQ(dialler.request.target, conversation.passive.nid(dialler.request.target.net()));
      EXPECT_EQ(dialler.hello->src_nid, conversation.dialler.nid(dialler.request.target.net()));
      EXPECT_EQ(dialler.hello->dst_nid, dialler.request.target);
      EXPECT_EQ(dialler.hello->version, hello_best_version(dialler.request.target));
    }
  }
  return sides;
}

class Captures : public testing::TestWithParam<Expected> {};

TEST_P(Captures, decode_whole_and_encode_back) {
  const Capture capture = read(GetParam().name);
  EXPECT_EQ(capture.frame_count, GetParam().frames);
  EXPECT_EQ(std::any_of(capture.conversations.begin(), capture.conversations.end(),
                        [](const TcpConversation& c) { return c.opened_mid; }),
            GetParam().mid);
  for (size_t piece : {size_t{1}, size_t{1448}, size_t{1} << 20}) {
    MessageCount count;
    const auto sides = decode_all(capture, piece);
    for (const DecodedSide& side : sides) count.add(side);
    EXPECT_EQ(count.text(), GetParam().messages);
    if (piece == 1) check_ping_infos(sides);
  }
}

// Goal: the answer to a HELLO has the inverse type or NONE, and echoes the dialler's dst fields (docs/wire/socklnd.md
// §2.4).
TEST_P(Captures, hello_answers_are_what_we_would_answer) {
  for (const TcpConversation& conversation : read(GetParam().name).conversations) {
    const DecodedSide asked = decode_side(conversation, Side::kDialler, 1448);
    const DecodedSide answered = decode_side(conversation, Side::kPassive, 1448);
    if (!asked.hello || !answered.hello) continue;
    const bool refused = answered.hello->ctype == ConnType::kNone;
    const Hello ours = hello_answer(*asked.hello, asked.request.target, answered.hello->src_incarnation, refused);
    std::array<std::byte, kHelloMaxBytes> theirs_out, ours_out;
    const size_t bytes = hello_encode(*answered.hello, theirs_out);
    ASSERT_EQ(hello_encode(ours, ours_out), bytes);
    EXPECT_EQ(hex_text(std::span(ours_out).first(bytes)), hex_text(std::span(theirs_out).first(bytes)));
    const auto verdict = hello_answer_check(*asked.hello, {asked.request.target, kLnetPid}, *answered.hello);
    EXPECT_EQ(verdict, refused ? AnswerVerdict::kRetry : AnswerVerdict::kAccepted);
  }
}

// Goal: each message is on a connection that our rule allows and prefers (§5): every capture uses the best-fitting
// type. Each zero-copy cookie is acknowledged once.
TEST_P(Captures, connection_choice_and_cookies_follow_the_rules) {
  std::multiset<std::pair<std::string, uint64_t>> requested, acknowledged;
  for (const TcpConversation& conversation : read(GetParam().name).conversations)
    for (Side side : {Side::kDialler, Side::kPassive}) {
      const DecodedSide decoded = decode_side(conversation, side, 1448);
      const auto pair_of = [&](Side from) {
        TcpAddress a = conversation.address(from), b = conversation.address(other(from));
        a.port = b.port = 0;
        return a.text() + b.text();
      };
      for (const DecodedFrame& frame : decoded.frames) {
        EXPECT_EQ(frame.frame.csum, 0u);
        if (frame.frame.type == FrameType::kLnet && frame.frame.cookie0 != 0) {
          requested.insert({pair_of(side), frame.frame.cookie0});
        }
        const ZcAck ack = zc_ack_of(frame.frame, kVersion3);
        if (ack.kind == ZcAck::Kind::kRange) acknowledged.insert({pair_of(other(side)), ack.first});
        if (!decoded.hello) continue;
        const TxShape shape{!frame.header, true, uint32_t(frame.payload.size())};
        EXPECT_EQ(conn_fit(decoded.hello->ctype, decoded.hello->version, shape, 1024), Fit::kYes);
      }
    }
  EXPECT_EQ(requested, acknowledged);
}

INSTANTIATE_TEST_SUITE_P(All, Captures, testing::ValuesIn(kCaptures), [](const auto& of) {
  std::string name = of.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

class CraftedCaptures : public testing::TestWithParam<Crafted> {};

TEST_P(CraftedCaptures, end_in_the_exact_verdict) {
  const Crafted& expected = GetParam();
  const Capture capture = read(std::string("g3-tcp-crafted-") + expected.name);
  ASSERT_EQ(capture.conversations.size(), 1u);
  const TcpConversation& conversation = capture.conversations.front();
  for (size_t piece : {size_t{1}, size_t{7}, size_t{1448}}) {
    const DecodedSide script = decode_side(conversation, Side::kDialler, piece);
    EXPECT_EQ(script.accept, expected.accept);
    EXPECT_EQ(script.hello_status, expected.hello);
    EXPECT_EQ(script.frame_status, expected.frame);
    EXPECT_EQ(script.left_over, expected.left_over);
    const DecodedSide kernel = decode_side(conversation, Side::kPassive, piece);
    EXPECT_EQ(kernel.mismatch, "");
    EXPECT_EQ(kernel.left_over, expected.accept == AcceptStatus::kAnswerAndClose ? kAcceptorAnswerBytes : 0);
    MessageCount count;
    count.add(script);
    count.add(kernel);
    EXPECT_EQ(count.text(), expected.messages);
    check_ping_infos({script, kernel});
    EXPECT_EQ(script.mismatch.empty(), std::string_view(expected.name) != "hbe");  // there, mangled NIDs
  }
}

INSTANTIATE_TEST_SUITE_P(All, CraftedCaptures, testing::ValuesIn(kCrafted),
                         [](const auto& of) { return std::string(of.param.name); });

/// Bytes that the kernel answered in a crafted capture.
std::string kernel_said(const char* name) {
  return hex_text(read(std::string("g3-tcp-crafted-") + name).conversations.at(0).stream(Side::kPassive));
}

// Goal: our answers to the script equal the kernel's answers, byte for byte (its incarnation aside).
TEST(CraftedAnswers, are_ours) {
  std::array<std::byte, kAcceptorAnswerBytes> answer;
  acceptor_answer_encode(answer);
  EXPECT_EQ(kernel_said("accver"), hex_text(answer));
  for (const char* silent : {"accmagic", "accnid", "hctype", "hmagic", "hv4", "unpriv"})
    EXPECT_EQ(kernel_said(silent), "");

  const Nid kernel_nid = nid_parse("10.10.0.2@tcp").value();
  for (const char* name : {"hver", "hver1", "hver2", "hbe", "hdst", "hsrc", "badtype", "noop", "ping"}) {
    const TcpConversation conversation = read(std::string("g3-tcp-crafted-") + name).conversations.at(0);
    const DecodedSide script = decode_side(conversation, Side::kDialler, 1448);
    const DecodedSide kernel = decode_side(conversation, Side::kPassive, 1448);
    ASSERT_TRUE(kernel.hello) << name;
    const uint64_t incarnation = kernel.hello->src_incarnation;
    const Hello ours = script.hello ? hello_answer(*script.hello, kernel_nid, incarnation, false)
                                    : hello_answer_unknown_version(kernel_nid, incarnation);
    std::array<std::byte, kHelloMaxBytes> out;
    const size_t bytes = hello_encode(ours, out);
    const auto stream = conversation.stream(Side::kPassive);
    ASSERT_GE(stream.size(), bytes) << name;
    EXPECT_EQ(hex_text(std::span(stream).first(bytes)), hex_text(std::span(out).first(bytes))) << name;
  }
}

// Goal: how the kernel closes is what docs/wire/socklnd.md §2.5 says: RST where bytes stayed unread, else FIN.
TEST(CraftedAnswers, closed_as_documented) {
  using Kind = TcpEvent::Kind;
  for (const char* name : {"unpriv", "accmagic", "accver", "hmagic", "hver"}) {
    EXPECT_TRUE(read(std::string("g3-tcp-crafted-") + name).conversations.at(0).has(Side::kPassive, Kind::kRst))
        << name;
  }
  for (const char* name : {"accnid", "hctype", "hv4", "badtype", "noop"}) {
    EXPECT_TRUE(read(std::string("g3-tcp-crafted-") + name).conversations.at(0).has(Side::kPassive, Kind::kFin))
        << name;
  }
}

// Goal: the check of ping infos above finds them: nine REPLYs and two pushes in b1, as many with large NIDs in h1.
TEST(PingInfos, are_found) {
  EXPECT_EQ(check_ping_infos(decode_all(read("b1-tcp-mr-discover-push"), 1448)), 11u);
  EXPECT_EQ(check_ping_infos(decode_all(read("h1-tcp-ipv6-large-nid-ping-discover"), 1448)), 4u);
}

// Goal: no capture is forgotten by the tables above.
TEST(AllCaptures, are_in_a_table) {
  std::set<std::string> known;
  for (const Expected& expected : kCaptures) known.insert(expected.name);
  for (const std::string& name : o2ib_capture_names()) known.insert(name);  // tests/wire/o2iblnd_captures_test.cc
  for (const Crafted& crafted : kCrafted) known.insert(std::string("g3-tcp-crafted-") + crafted.name);
  const auto names = capture_names();
  EXPECT_EQ(known, std::set<std::string>(names.begin(), names.end()));
}

}  // namespace
}  // namespace ulnet::test
