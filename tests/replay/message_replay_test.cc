// Captures of o2ib, and of tcp and o2ib mixed, replay at the level of LNet's own messages. In the kernel's place, our
// node sends the same messages between the same NIDs, byte for byte. The exceptions are handles and the sequence number
// of ping infos. The driver's messages around them are not compared.
#include <gtest/gtest.h>

#include "dataplane/base/nid_text.h"
#include "tests/replay/message_place.h"
#include "tests/replay/o2ib_capture.h"
#include "tests/wire/pcap.h"

namespace ulnet::test {
namespace {

std::vector<ReplayMessage> o2ib(const std::string& name) {
  return o2ib_messages(capture_path(name));
}

// Node 1 discovers node 2, which pushes over the other rail; pings alternate.
TEST(MessageReplay, e7_discovery_over_o2ib_as_the_passive_node) {
  MessagePlace place({"10.10.0.2@o2ib", "10.10.0.102@o2ib"});
  const auto messages = o2ib("e7-o2ib-mr-discover");
  ASSERT_EQ(messages.size(), 22u);
  place.play(messages);
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
}
TEST(MessageReplay, e7_discovery_over_o2ib_as_the_active_node) {
  MessagePlace place({"10.10.0.1@o2ib", "10.10.0.101@o2ib"});
  auto messages = o2ib("e7-o2ib-mr-discover");
  // The kernel's first ping crossed node 2's push, and left before the ACK of that: here the push waits for it.
  const auto ping = std::find_if(messages.begin(), messages.end(), [](const ReplayMessage& one) {
    return one.decoded.type == wire::MsgType::kGet && one.from == *nid_parse("10.10.0.101@o2ib");
  });
  ASSERT_NE(ping, messages.end());
  ping->began -= 10ms;
  place.play(messages);
  EXPECT_EQ(place.discover_and_wait("10.10.0.2@o2ib"), 0);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(place.ping_and_wait("10.10.0.2@o2ib"), 0) << i;
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
}

// Node 2 deletes one NI, and pushes its new list.
TEST(MessageReplay, e9_net_del_over_o2ib_as_the_node_that_gets_the_push) {
  MessagePlace place({"10.10.0.1@o2ib", "10.10.0.101@o2ib"});
  place.play(o2ib("e7-o2ib-mr-discover"));
  EXPECT_EQ(place.discover_and_wait("10.10.0.2@o2ib"), 0);
  EXPECT_EQ(place.known_nids("10.10.0.2@o2ib"), 2u);
  place.play(o2ib("e9-o2ib-mr-net-del-push"));
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
  EXPECT_EQ(place.known_nids("10.10.0.2@o2ib"), 1u);
}

// The third node, which the kernel had met before, is left out. Whose turn it is at node 1 depends on what was sent
// between the two captures: one ping more puts it right.
TEST(MessageReplay, e9_net_del_over_o2ib_as_the_node_that_deletes) {
  MessagePlace place({"10.10.0.2@o2ib", "10.10.0.102@o2ib"});
  place.play(o2ib("e7-o2ib-mr-discover"));
  place.run_to_the_end();
  const Nid turn = *nid_parse("10.10.0.101@o2ib");
  auto messages = o2ib("e7-o2ib-mr-discover");
  std::erase_if(messages, [&](const ReplayMessage& one) {
    return (one.from != turn || one.decoded.type != wire::MsgType::kGet) &&
           (one.to != turn || one.decoded.type != wire::MsgType::kReply);
  });
  ASSERT_GE(messages.size(), 2u);
  messages.resize(2);
  place.play(messages);
  place.run_to_the_end();
  ASSERT_EQ(place.difference(), "");
  messages = o2ib("e9-o2ib-mr-net-del-push");
  const Nid third = *nid_parse("10.10.0.3@o2ib");
  EXPECT_EQ(std::erase_if(messages, [&](const ReplayMessage& one) { return one.from == third || one.to == third; }),
            2u);
  EXPECT_EQ(messages.size(), 2u);
  place.play(messages);
  place.delete_now("10.10.0.102@o2ib");
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
}

// Two rails, one tcp and one o2ib: discovery goes over tcp, the push over o2ib.
std::vector<ReplayMessage> mixed() {
  const std::string path = capture_path("j1-mr-mixed-tcp-o2ib-discover-ping");
  const Capture over_tcp = pcap_read(path);
  std::vector<ReplayMessage> messages = o2ib_messages(path);
  for (const char* party : {"10.10.0.1", "10.10.0.2"})
    for (ReplayMessage& one : replay_messages(over_tcp, {ip(party)})) messages.push_back(std::move(one));
  return messages;
}
TEST(MessageReplay, j1_tcp_and_o2ib_as_the_passive_node) {
  ASSERT_EQ(mixed().size(), 18u);
  MessagePlace place({"10.10.0.2@tcp", "10.10.0.102@o2ib"});
  place.play(mixed());
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
}
TEST(MessageReplay, j1_tcp_and_o2ib_as_the_active_node) {
  MessagePlace place({"10.10.0.1@tcp", "10.10.0.101@o2ib"});
  place.play(mixed());
  EXPECT_EQ(place.discover_and_wait("10.10.0.2@tcp"), 0);
  place.run_for(1s);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(place.ping_and_wait("10.10.0.2@tcp"), 0) << i;
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
}

// The comparison itself: a message more, and one from another NID, are noticed.
TEST(MessageReplayItself, other_messages_fail) {
  auto messages = o2ib("e7-o2ib-mr-discover");
  MessagePlace place({"10.10.0.2@o2ib", "10.10.0.102@o2ib"});
  place.play(messages);
  place.run_to_the_end();
  ASSERT_EQ(place.difference(), "");
  const auto answer = std::find_if(messages.begin(), messages.end(),
                                   [](const ReplayMessage& one) { return one.decoded.type == wire::MsgType::kReply; });
  ASSERT_NE(answer, messages.end());
  answer->payload[12] = std::byte{9};
  MessagePlace wrong({"10.10.0.2@o2ib", "10.10.0.102@o2ib"});
  wrong.play(messages);
  wrong.run_to_the_end();
  EXPECT_NE(wrong.difference().find("0 REPLY, pi_nnis: kernel 09 00 00 00"), std::string::npos) << wrong.difference();
  messages.erase(answer);
  MessagePlace more({"10.10.0.2@o2ib", "10.10.0.102@o2ib"});
  more.play(messages);
  more.run_to_the_end();
  EXPECT_NE(more.difference(), "");
}

}  // namespace
}  // namespace ulnet::test
