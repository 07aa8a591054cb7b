// Messages that do not fit: unknown cookies, wrong ends, too many credits, more than was offered. Each ends its
// connection.
#include <cstring>

#include "tests/script/ib/ib_script.h"

namespace ulnet::test {
namespace {

using namespace o2iblnd;

struct Bad {
  const char* name;
  PeerFault fault;
  void (*send)(RawPeer& raw);
};
class IbBad : public IbScript, public ::testing::WithParamInterface<Bad> {};

/// Writes a field of a message; the fields of a message lie where they are not aligned.
template <class T>
void put_field(MessageBuffer out, size_t at, T value) {
  std::memcpy(out.data() + at, &value, sizeof value);
}

using Faults = std::vector<std::pair<PeerFault, int>>;

// Goal: such a message ends the connection, and nothing else: later messages go over another one. Control learns the
// fault once, and the error is that of docs/wire/o2iblnd.md §2.
TEST_P(IbBad, ends_the_connection) {
  const Bad& bad = GetParam();
  connect();
  bad.send(raw);
  pass();
  EXPECT_EQ(end.faults, (Faults{{bad.fault, bad.fault == PeerFault::kEnds ? -ESTALE : -EPROTO}}));
  EXPECT_EQ(raw.connections, 1u);
  EXPECT_EQ(raw.qp, nullptr) << "the connection is still there";
  raw.came.clear();
  IbTx& tx = end.put(1, 500, 10);
  pass(5s);
  EXPECT_EQ(raw.connections, 2u);
  EXPECT_TRUE(tx.done);
  EXPECT_EQ(tx.how.error, 0);
}

constexpr Bad kBad[] = {
    {"credits_beyond_the_depth", PeerFault::kCredits, [](RawPeer& raw) { raw.send_noop(1); }},
    {"unknown_put_done", PeerFault::kCookie,
     [](RawPeer& raw) { raw.send_completion(MessageType::kPutDone, 12345, 10); }},
    {"unknown_put_nak", PeerFault::kCookie, [](RawPeer& raw) { raw.send_completion(MessageType::kPutNak, 0, 0); }},
    {"unknown_get_done", PeerFault::kCookie, [](RawPeer& raw) { raw.send_completion(MessageType::kGetDone, 77, 0); }},
    {"unknown_put_ack", PeerFault::kCookie, [](RawPeer& raw) { raw.send_put_ack(9, 9, raw.open(100)); }},
    {"wrong_stamp", PeerFault::kEnds,
     [](RawPeer& raw) {
       raw.ends.src_stamp ^= 1;
       raw.send_noop(0);
       raw.ends = ib_ends(1, 0);
     }},
    {"wrong_nid", PeerFault::kEnds,
     [](RawPeer& raw) {
       raw.ends.src = ib_nid(2);
       raw.send_noop(0);
       raw.ends = ib_ends(1, 0);
     }},
    {"a_connreq", PeerFault::kType,
     [](RawPeer& raw) {
       raw.send([&](MessageBuffer out) { return encode_connect(out, MessageType::kConnReq, raw.ends, {8, 257}); });
     }},
    {"no_message", PeerFault::kUndecodable,
     [](RawPeer& raw) {
       raw.send([&](MessageBuffer out) {
         std::fill(out.begin(), out.end(), std::byte{0x55});
         return size_t{200};
       });
     }},
    {"a_short_message", PeerFault::kUndecodable,
     [](RawPeer& raw) { raw.send([&](MessageBuffer) { return size_t{10}; }); }},
    {"a_get_req_with_a_put", PeerFault::kHeader,
     [](RawPeer& raw) {
       const auto fragments = raw.open_all(100'000, 1 << 20);
       raw.send([&](MessageBuffer out) {
         return encode_get_req(out, raw.ends, raw.header(wire::MsgType::kPut, 1, 100), 1, raw.key.value, fragments);
       });
     }},
    {"a_put_req_with_a_get", PeerFault::kHeader,
     [](RawPeer& raw) {
       raw.send([&](MessageBuffer out) {
         return encode_put_req(out, raw.ends, raw.header(wire::MsgType::kGet, 1, 100), 1);
       });
     }},
    {"a_put_done_before_its_put_ack", PeerFault::kState,
     [](RawPeer& raw) {
       raw.send_put_req(4, 100'000, 1);
       raw.send_completion(MessageType::kPutDone, 0, 100'000);
     }},
    {"a_wrong_checksum", PeerFault::kUndecodable,
     [](RawPeer& raw) {
       raw.send([&](MessageBuffer out) {
         const size_t bytes = encode_noop(out, raw.ends);
         put_field<uint32_t>(out, 12, message_checksum(out.first(bytes), ChecksumBytes::kUnsigned) ^ 0x40);
         return bytes;
       });
     }},
    {"an_unknown_type", PeerFault::kType,
     [](RawPeer& raw) {
       raw.send([&](MessageBuffer out) {
         const size_t bytes = encode_noop(out, raw.ends);
         put_field<uint8_t>(out, 6, 0xD8);
         return bytes;
       });
     }},
    {"an_immediate_longer_than_its_message", PeerFault::kPayload,
     [](RawPeer& raw) {
       raw.send([&](MessageBuffer out) {
         (void)encode_immediate(out, raw.ends, raw.header(wire::MsgType::kPut, 1, 1000));
         put_field<uint32_t>(out, 8, 1119);
         return size_t{1119};
       });
     }},
    {"an_immediate_longer_than_a_buffer", PeerFault::kPayload,
     [](RawPeer& raw) {
       raw.send([&](MessageBuffer out) {
         const size_t bytes = encode_immediate(out, raw.ends, raw.header(wire::MsgType::kPut, 1, 100));
         put_field<uint32_t>(out, kHeaderBytes + 28, 1 << 20);  // payload_length
         return bytes;
       });
     }},
    {"an_unknown_lnet_type", PeerFault::kHeader,
     [](RawPeer& raw) {
       raw.send([&](MessageBuffer out) {
         const size_t bytes = encode_put_req(out, raw.ends, raw.header(wire::MsgType::kPut, 1, 100), 1);
         put_field<uint32_t>(out, kHeaderBytes + 24, 77);  // type
         return bytes;
       });
     }},
    {"a_get_req_without_a_fragment", PeerFault::kSink,
     [](RawPeer& raw) {
       const auto fragments = raw.open(100'000);
       raw.send([&](MessageBuffer out) {
         const size_t bytes =
             encode_get_req(out, raw.ends, raw.header(wire::MsgType::kGet, 1, 100'000), 1, raw.key.value, fragments);
         put_field<uint32_t>(out, 132, 0);
         return bytes;
       });
     }},
    {"a_get_req_with_more_fragments_than_it_has", PeerFault::kSink,
     [](RawPeer& raw) {
       const auto fragments = raw.open(100'000);
       raw.send([&](MessageBuffer out) {
         const size_t bytes =
             encode_get_req(out, raw.ends, raw.header(wire::MsgType::kGet, 1, 100'000), 1, raw.key.value, fragments);
         put_field<uint32_t>(out, 132, 2);
         return bytes;
       });
     }},
    {"too_many_requests", PeerFault::kCredits,
     [](RawPeer& raw) {
       for (unsigned i = 0; i < kDepth + 1; ++i) raw.send_put_req(i, 100'000, i);
     }},
};
INSTANTIATE_TEST_SUITE_P(messages, IbBad, ::testing::ValuesIn(kBad),
                         [](const auto& one) { return std::string(one.param.name); });

// Goal: an answer that comes twice, or says more than was offered.
TEST_F(IbScript, answers_that_are_wrong) {
  for (unsigned which = 0; which < 4; ++which) {
    SCOPED_TRACE(which);
    raw.came.clear();
    IbTx& first = end.put(1, 1, 10);
    pass(1s);
    ASSERT_TRUE(first.done);
    raw.came.clear();
    const unsigned before = raw.connections;
    IbTx& tx = which < 2 ? end.put(1, 6, 100'000) : end.get(1, 6, 100'000);
    pass();
    const Came ask = raw.next();
    switch (which) {
      case 0:
        raw.send_put_ack(ask.message.cookie, 1, raw.open(100'000));
        raw.send_completion(MessageType::kPutNak, ask.message.cookie, 0);
        break;
      case 1: raw.send_completion(MessageType::kGetDone, ask.message.cookie, 0); break;
      case 2: raw.send_completion(MessageType::kGetDone, ask.message.cookie, 100'001); break;
      case 3: raw.send_put_ack(ask.message.cookie, 1, raw.open(100'000)); break;
      default: break;
    }
    pass(1s);
    EXPECT_EQ(raw.qp, nullptr);
    EXPECT_EQ(raw.connections, before);
    EXPECT_TRUE(tx.done);
    if (which > 0) {
      EXPECT_EQ(tx.how.error, -EPROTO);
    }
  }
}

TEST_F(IbScript, a_put_done_that_says_too_much) {
  connect();
  raw.send_put_req(4, 300'000, 8888);
  pass();
  raw.send_completion(MessageType::kPutDone, raw.next().message.sink_cookie, 300'001);
  pass(1s);
  EXPECT_EQ(raw.qp, nullptr);
  EXPECT_EQ(end.faults, (Faults{{PeerFault::kSink, -EPROTO}}));
  ASSERT_EQ(end.broken_receives.size(), 1u);
  EXPECT_EQ(end.broken_receives[0].second.health, LndStatus::kRemoteError);
}

// Goal: less was written than this side has room for. The message counts as broken.
TEST_F(IbScript, a_put_done_that_says_too_little) {
  connect();
  raw.send_put_req(4, 300'000, 8888);
  pass();
  raw.send_completion(MessageType::kPutDone, raw.next().message.sink_cookie, 10);
  pass();
  ASSERT_EQ(end.broken_receives.size(), 1u);
  EXPECT_EQ(end.broken_receives[0].second.error, -EIO);
}

// Goal: a message with a right checksum is accepted, with bytes of either sign (docs/wire/o2iblnd.md §8).
TEST_F(IbScript, right_checksums) {
  connect();
  for (const ChecksumBytes bytes : {ChecksumBytes::kUnsigned, ChecksumBytes::kSigned})
    raw.send([&](MessageBuffer out) {
      const size_t length = encode_noop(out, raw.ends);
      put_field<uint32_t>(out, 12, message_checksum(out.first(length), bytes));
      return length;
    });
  pass();
  EXPECT_NE(raw.qp, nullptr);
  EXPECT_TRUE(end.faults.empty());
}

// Goal: PUT_DONE comes twice, at once or when the first has had its effect. The message ends once.
TEST_F(IbScript, a_put_done_twice) {
  for (const bool late : {false, true}) {
    SCOPED_TRACE(late);
    end.faults.clear();
    end.received.clear();
    raw.came.clear();
    end.put(1, 1, 10);
    pass();
    raw.came.clear();
    raw.send_put_req(4, 300'000, 8888);
    pass();
    const Came ack = raw.next();
    raw.write(ack.message.sink, 4, 300'000);
    raw.send_completion(MessageType::kPutDone, ack.message.sink_cookie, 300'000);
    if (late) pass();
    raw.send_completion(MessageType::kPutDone, ack.message.sink_cookie, 300'000);
    pass(1s);
    EXPECT_EQ(raw.qp, nullptr);
    EXPECT_EQ(end.faults, (Faults{{late ? PeerFault::kCookie : PeerFault::kState, -EPROTO}}));
    EXPECT_EQ(end.received, std::vector<uint64_t>{4}) << "the peer has written all of it";
  }
}

// Goal: the same for GET_DONE.
TEST_F(IbScript, a_get_done_twice) {
  for (const bool late : {false, true}) {
    SCOPED_TRACE(late);
    end.faults.clear();
    raw.came.clear();
    end.put(1, 1, 10);
    pass();
    raw.came.clear();
    IbTx& tx = end.get(1, 6, 100'000);
    pass();
    const Came ask = raw.next();
    raw.write(ask.message.sink, 6, 100'000);
    raw.send_completion(MessageType::kGetDone, ask.message.cookie, 100'000);
    if (late) pass();
    raw.send_completion(MessageType::kGetDone, ask.message.cookie, 100'000);
    pass(1s);
    EXPECT_EQ(raw.qp, nullptr);
    EXPECT_EQ(end.faults, (Faults{{late ? PeerFault::kCookie : PeerFault::kState, -EPROTO}}));
    EXPECT_TRUE(tx.answered);
    EXPECT_EQ(tx.got, 100'000u);
  }
}

// Goal: the core refuses the LNet header in a message of each kind.
TEST_F(IbScript, headers_that_the_core_refuses) {
  for (unsigned kind = 0; kind < 3; ++kind) {
    SCOPED_TRACE(kind);
    end.faults.clear();
    end.on_header = [](RxSlot&) { return RxVerdict::kReceive; };
    end.put(1, 1, 10);
    pass();
    end.on_header = [](RxSlot&) { return RxVerdict::kProtocolError; };
    if (kind == 0) raw.send_immediate(4, 100);
    if (kind == 1) raw.send_put_req(4, 300'000, 1);
    if (kind == 2) raw.send_get_req(200, 200'000, 1, raw.open(200'000));
    pass(1s);
    EXPECT_EQ(raw.qp, nullptr);
    EXPECT_EQ(end.faults, (Faults{{PeerFault::kRefused, -EPROTO}}));
  }
}

// Goal: a sink that has room for more, or for less, is no fault: the writer writes what fits.
TEST_F(IbScript, sinks_of_another_size) {
  connect();
  for (const uint32_t room : {50'000u, 200'000u}) {
    SCOPED_TRACE(room);
    const uint32_t written = std::min(room, 100'000u);
    IbTx& tx = end.put(1, 6, 100'000);
    pass();
    raw.send_put_ack(raw.next().message.cookie, 55, raw.open_all(room, 10'000));
    pass();
    EXPECT_EQ(raw.next().message.status, int32_t(written));
    EXPECT_TRUE(tx.done);
    ASSERT_EQ(raw.worker().key_close(*raw.qp, raw.key), rc::Posted::kYes);
    pass();
    raw.send_get_req(100, 100'000, 7, raw.open_all(room, 10'000));
    pass();
    EXPECT_EQ(raw.next().message.status, int32_t(written));
    ASSERT_EQ(raw.worker().key_close(*raw.qp, raw.key), rc::Posted::kYes);
    pass();
  }
  EXPECT_TRUE(end.faults.empty());
  EXPECT_EQ(raw.connections, 1u);
}

}  // namespace
}  // namespace ulnet::test
