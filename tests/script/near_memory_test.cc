// Connections lie in the memory of the worker that serves them.
#include "dataplane/base/nid_text.h"
#include "lnd/socklnd/conn.h"
#include "tests/counting_memory.h"
#include "tests/script/sock_rig.h"

namespace ulnet::test {
namespace {

// Goal: connections and their sets, dialled and accepted, are made in their worker's memory. All of it is given back
// when a peer leaves, and when the node ends.
TEST(SockNear, connections_and_sets) {
  CountingMemory memories[2];
  {
    SockRig rig;
    SockNode& us = rig.add({.nids = {"10.0.0.1@tcp"}, .workers = 2, .memory = {&memories[0], &memories[1]}});
    SockNode& dialled = rig.add({.nids = {"10.0.0.2@tcp"}});
    SockNode& accepted = rig.add({.nids = {"10.0.0.3@tcp"}});
    const size_t pools[] = {memories[0].out.size(), memories[1].out.size()};
    EXPECT_EQ(pools[0], 3u) << "slots, and two tables of the driver";
    us.put("10.0.0.2@tcp", 100);
    accepted.put("10.0.0.1@tcp", 100);
    ASSERT_TRUE(rig.run_until([&] { return dialled.received.size() == 1 && us.received.size() == 1; }, 10s));
    for (const char* peer : {"10.0.0.2@tcp", "10.0.0.3@tcp"}) {
      const CountingMemory& memory = memories[us.places.at(nid_parse(peer).value()).worker.value];
      EXPECT_GE(memory.count(sizeof(socklnd::Conn)), 1u);
      EXPECT_GE(memory.count(sizeof(socklnd::ConnSet)), 1u);
    }
    dialled.stop();
    accepted.stop();
    EXPECT_TRUE(
        rig.run_until([&] { return memories[0].out.size() == pools[0] && memories[1].out.size() == pools[1]; }, 300s));
    EXPECT_TRUE(rig.shut_down());
  }
}

// Goal: with no room there, connections are on the heap and work.
TEST(SockNear, no_room) {
  CountingMemory memory;
  memory.full = true;
  SockRig rig;
  SockNode& us = rig.add({.nids = {"10.0.0.1@tcp"}, .memory = {&memory}});
  SockNode& them = rig.add({.nids = {"10.0.0.2@tcp"}});
  us.put("10.0.0.2@tcp", 100);
  EXPECT_TRUE(rig.run_until([&] { return them.received.size() == 1; }, 10s));
  EXPECT_TRUE(rig.shut_down());
  EXPECT_EQ(memory.taken, 0u);
}

}  // namespace
}  // namespace ulnet::test
