// The contract of lnd/rc/rc.h: how connections end, or do not come about. Each end has one broken() and one drained(),
// and the other side learns of it.
#include "tests/unit/rc/world.h"

namespace ulnet::test {
namespace {

class RcEnd : public RcTest {
 protected:
  void expect_failed(const std::string& why) {
    until([&] { return seen.find("0 failed") != std::string::npos; });
    EXPECT_NE(seen.find(why), std::string::npos) << seen;
  }
};

TEST_F(RcEnd, a_reject_has_private_data) {
  listen();
  dial(spec());
  until([&] {  // a request that is repeated, because its answer was lost, is a new one
    if (conns[1] != 0) control(1).reject(std::exchange(conns[1], 0), data_of("no"), world->now);
    return seen.find("0 failed") != std::string::npos;
  });
  expect_failed("0 failed no (rejected by the peer)");
}

TEST_F(RcEnd, nobody_listens) {
  dial(spec());
  expect_failed("0 failed (nobody listens at the peer)");
}

TEST_F(RcEnd, no_such_machine) {
  listen();
  rc::DialSpec nobody = spec();
  nobody.remote.address = world->nobody();
  nobody.answer_max = 2s;
  nobody.resolve_max = 1s;
  dial(nobody);
  until([&] { return seen.find("0 failed") != std::string::npos; });
  const bool known = seen.find("no way to the peer's address") != std::string::npos ||
                     seen.find("the peer does not answer") != std::string::npos;
  EXPECT_TRUE(known) << seen;
}

TEST_F(RcEnd, the_peer_does_not_answer) {
  listen();
  rc::DialSpec impatient = spec();
  impatient.answer_max = 2s;
  dial(impatient);
  until([&] { return conns[1] != 0; });  // and says neither yes nor no
  expect_failed("0 failed (the peer does not answer)");
  // The kernel's CM says nothing of it to a passive side that has not answered.
}

TEST_F(RcEnd, the_reply_has_no_answer) {
  if (!world->can_cut()) GTEST_SKIP() << "both nodes are at one port";
  listen();
  hold_answer = true;
  dial(spec());
  accept();
  until([&] { return seen.find("1 ready") != std::string::npos; });
  world->cut();
  control(1).proceed(conns[1], data_of("welcome"), world->now);
  until([&] { return seen.find("1 failed (the peer does not answer)") != std::string::npos; });
}

// Goal: a peer whose REQ has come goes away without a word. The passive side gives up by itself.
TEST_F(RcEnd, a_peer_that_goes_after_its_request) {
  listen();
  world->silent_request();
  accept();
  until([&] { return seen.find("1 ready") != std::string::npos; });
  until([&] { return seen.find("1 failed (the peer does not answer)") != std::string::npos; });
  until([&] { return passive().is_broken; });
  EXPECT_EQ(passive().cause, rc::Cause::kNoAnswer);
}

TEST_F(RcEnd, no_device_has_the_address) {
  rc::DialSpec elsewhere = spec();
  elsewhere.local = rc::IpAddress::of_v4(0x0A090909);
  const auto dialled = control(0).dial(elsewhere, world->now);
  ASSERT_FALSE(dialled);
  EXPECT_EQ(dialled.error().code, -EADDRNOTAVAIL);
  const auto opened = control(0).listen({rc::IpAddress::of_v4(0x0A090909), kPort});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, -ENODEV);
}

TEST_F(RcEnd, two_listeners_at_one_port) {
  listen();
  const auto second = control(1).listen({world->address(1), kPort});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, -EADDRINUSE);
  control(1).unlisten(std::exchange(listener, 0));
  listen();
}

TEST_F(RcEnd, each_side_can_close) {
  for (const unsigned who : {0u, 1u}) {
    SCOPED_TRACE(who);
    connect();
    control(who).disconnect(conns[who], world->now);
    until([&] { return sides[who]->is_drained && sides[1 - who]->is_broken; });
    EXPECT_EQ(sides[who]->cause, rc::Cause::kClosed);
    EXPECT_EQ(sides[1 - who]->cause, rc::Cause::kPeerClosed);
    until([&] { return seen.find(std::to_string(1 - who) + " closed (closed by the peer); ") != std::string::npos; });
    EXPECT_FALSE(sides[1 - who]->is_drained) << "not before disconnect()";
    start_again();
  }
}

// Goal: at any moment of the set-up, the active side may give up. Everything ends, on both sides.
TEST_F(RcEnd, closed_at_any_moment_of_the_setup) {
  for (unsigned steps = 0; steps < 12; ++steps) {
    SCOPED_TRACE(steps);
    for (const unsigned who : {0u, 1u}) {
      listen();
      dial(spec());
      bool asked = false;
      for (unsigned i = 0; i < steps; ++i) {
        step();
        if (conns[1] != 0 && !std::exchange(asked, true)) control(1).prepare(conns[1], usual_needs(), world->now);
      }
      if (conns[who] != 0) control(who).disconnect(conns[who], world->now);
      for (unsigned i = 0; i < 100; ++i) step();
      for (const unsigned node : {who, 1 - who}) finish(node);
      for (unsigned i = 0; i < 100; ++i) step();
      start_again();
    }
  }
}

// Goal: the peer vanishes without a word. The sender learns of it by its own operation.
TEST_F(RcEnd, nobody_acknowledges) {
  if (!world->can_cut()) GTEST_SKIP() << "both nodes are at one port";
  connect();
  world->cut();
  active().send("lost", 1);
  until([&] { return active().is_broken; });
  EXPECT_EQ(active().cause, rc::Cause::kRetryExceeded);
  EXPECT_TRUE(active().tokens.empty());
  EXPECT_TRUE(passive().messages.empty());
  EXPECT_FALSE(passive().is_broken) << "it has sent nothing";
}

TEST_F(RcEnd, no_receive_buffer) {
  passive().post_receives = false;
  connect();
  active().send("nowhere", 1);
  until([&] { return active().is_broken; });
  EXPECT_EQ(active().cause, rc::Cause::kRnrExceeded);
  EXPECT_TRUE(active().tokens.empty());
}

// Goal: operations that were posted and not reported have failed, and their memory is the caller's after drained().
TEST_F(RcEnd, operations_under_way_fail) {
  if (!world->can_cut()) GTEST_SKIP() << "both nodes are at one port";
  connect();
  active().send("comes", 1);
  until([&] { return active().tokens.size() == 1; });
  world->cut();
  for (uint64_t token = 2; token < 6; ++token) active().send("lost", token);
  until([&] { return active().is_broken; });
  finish(0);
  EXPECT_TRUE(active().is_drained);
  EXPECT_EQ(active().tokens, std::vector<uint64_t>{1});
  EXPECT_EQ(passive().messages, std::vector<std::string>{"comes"});
}

}  // namespace
}  // namespace ulnet::test
