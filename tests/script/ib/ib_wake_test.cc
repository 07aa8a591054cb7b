// Which messages wake a worker that sleeps when they have been sent (conn_tx.cc).
#include "tests/script/ib/ib_script.h"

namespace ulnet::test {
namespace {

using namespace o2iblnd;

// Goal: the end of a message wakes the worker unless the message is alone and its end holds nothing up.
TEST_F(IbScript, messages_whose_end_nobody_waits_for) {
  connect();
  uint64_t before = net.counts.quiet;
  const auto quiet = [&] { return net.counts.quiet - std::exchange(before, net.counts.quiet); };
  const auto send = [&](wire::MsgType type, const auto& body, auto change) {
    end.on_put = [&](Tx& tx) {
      tx.header.type = type;
      tx.header.set(body);
      change(tx);
    };
    end.put(1, 1, 10);
    pass();
    EXPECT_EQ(raw.next().message.type, MessageType::kImmediate);
    raw.send_noop(1);
    pass();
    return quiet();
  };
  const auto as_it_is = [](Tx&) {};
  wire::PutBody acknowledged;
  acknowledged.ack_wmd = {1, 2};
  EXPECT_EQ(send(wire::MsgType::kPut, acknowledged, as_it_is), 1u) << "the ACK comes later";
  EXPECT_EQ(send(wire::MsgType::kAck, wire::AckBody{}, as_it_is), 1u);
  EXPECT_EQ(send(wire::MsgType::kPut, wire::PutBody{}, as_it_is), 0u) << "its end is the end of the operation";
  EXPECT_EQ(send(wire::MsgType::kReply, wire::ReplyBody{}, as_it_is), 0u) << "its end is the end of the GET";
  EXPECT_EQ(send(wire::MsgType::kPut, acknowledged, [](Tx& tx) { tx.header.src_nid = ib_nid(9); }), 0u)
      << "from another node: a router buffer waits for its end";
  EXPECT_EQ(send(wire::MsgType::kPut, acknowledged, [](Tx& tx) { tx.home = 1; }), 0u)
      << "the ACK wakes another worker, which then waits for this end";
  EXPECT_EQ(send(wire::MsgType::kAck, wire::AckBody{}, [](Tx& tx) { tx.last_credit = true; }), 0u)
      << "another message may wait for its credit";
  end.on_put = [&](Tx& tx) { tx.header.set(acknowledged); };
  for (int i = 0; i < 3; ++i) end.put(1, 1, 10);
  pass();
  for (int i = 0; i < 3; ++i) (void)raw.next();
  EXPECT_EQ(quiet(), 0u) << "another message may wait for what they hold";
}

}  // namespace
}  // namespace ulnet::test
