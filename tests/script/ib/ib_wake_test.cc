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
  const auto send = [&](wire::MsgType type, const auto& body, unsigned from = 0) {
    end.on_put = [&](wire::Header& header) {
      header.type = type;
      header.src_nid = ib_nid(from);
      header.set(body);
    };
    end.put(1, 1, 10);
    pass();
    EXPECT_EQ(raw.next().message.type, MessageType::kImmediate);
    raw.send_noop(1);
    pass();
    return quiet();
  };
  wire::PutBody acknowledged;
  acknowledged.ack_wmd = {1, 2};
  EXPECT_EQ(send(wire::MsgType::kPut, acknowledged), 1u) << "the ACK comes later";
  EXPECT_EQ(send(wire::MsgType::kPut, wire::PutBody{}), 0u) << "its end is the end of the operation";
  EXPECT_EQ(send(wire::MsgType::kPut, acknowledged, 9), 0u) << "from another node: a router buffer waits for its end";
  EXPECT_EQ(send(wire::MsgType::kAck, wire::AckBody{}), 1u);
  EXPECT_EQ(send(wire::MsgType::kReply, wire::ReplyBody{}), 0u) << "its end is the end of the GET";
  end.on_put = [&](wire::Header& header) { header.set(acknowledged); };
  for (int i = 0; i < 3; ++i) end.put(1, 1, 10);
  pass();
  for (int i = 0; i < 3; ++i) (void)raw.next();
  EXPECT_EQ(quiet(), 0u) << "another message may wait for what they hold";
}

}  // namespace
}  // namespace ulnet::test
