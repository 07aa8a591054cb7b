// Goal: each access of a driver that needs registered memory finds its memory registered. The memory stays registered
// as long as it is used, and no longer. Method: the fabric in its rdma mode refuses all other accesses, helpers take
// virtual time, and devices refuse memory. Each node has two drivers that need regions.
#include "tests/sim/regions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace ulnet::test {
namespace {

// Goal: an MD outside each region has a region per segment with bytes, from before its first use to its kUnlink.
TEST_F(SimRegions, segments_are_registered_while_their_md_is_bound) {
  SimNode& node = add("10.0.0.1@tcp");
  Application app(node);
  begin();
  const Segment segments[] = {app.piece(0, 5000), {app.memory.data(), 0}, app.piece(9000, 1)};
  const MdHandle md = app.bind(segments);
  sim.run_for(1s);
  EXPECT_EQ(more(), 2u);
  ASSERT_TRUE(app.submitter->unlink(md));
  while (app.events().empty()) sim.step(sim.now() + 1s);
  EXPECT_EQ(more(), 0u);
}

// Goal: MDs in a region of the application are bound at once, however many; at its edges, too. One byte beyond the
// region makes it useless for an MD.
TEST_F(SimRegions, mds_in_a_region_need_no_registration) {
  SimNode& node = add("10.0.0.1@tcp");
  Application app(node);
  begin();
  const Answer region = region_add(node, {app.memory.data() + 1000, 100'000});
  ASSERT_GT(region.value, 0);
  EXPECT_EQ(more(), 1u);
  const Segment both_ends[] = {app.piece(1000, 5000), app.piece(96'000, 5000)};
  for (int i = 0; i < 50; ++i) (void)app.bind(both_ends);
  sim.run_for(1s);
  EXPECT_EQ(more(), 1u);
  (void)app.bind(app.piece(999, 5000));
  (void)app.bind(app.piece(96'001, 5000));
  sim.run_for(1s);
  EXPECT_EQ(more(), 3u);
}

// Goal: the memory of a short MD is not registered, as the driver copies short payloads. An MD that truncates PUTs is
// registered, as the peer writes the part of a long PUT there.
TEST_F(SimRegions, short_mds_are_registered_only_if_they_truncate) {
  SimNode& node = add("10.0.0.1@tcp");
  Application app(node);
  begin();
  (void)app.bind(app.piece(0, kRdmaAbove), kMdPut | kMdGet);
  (void)app.bind(app.piece(0, kRdmaAbove), kMdTruncate);
  (void)app.bind(app.piece(0, 100), kMdGet | kMdTruncate);
  sim.run_for(1s);
  EXPECT_EQ(more(), 0u);
  (void)app.bind(app.piece(0, 100), kMdPut | kMdTruncate);
  (void)app.bind(app.piece(0, kRdmaAbove + 1));
  sim.run_for(1s);
  EXPECT_EQ(more(), 2u);
}

// Goal: long messages into and out of short MDs that truncate find registered memory.
TEST_F(SimRegions, a_long_message_is_truncated_in_registered_memory) {
  SimNode &a = add("10.0.0.1@tcp"), &b = add("10.0.0.2@tcp");
  Application from(a), to(b);
  ASSERT_TRUE(b.node().portal_open(PortalIndex{20}, WorkerId{0}, PortalMode::kSingle, false));
  const MdHandle target = to.bind(to.piece(0, 100), kMdPut | kMdGet | kMdTruncate | kMdManageRemote);
  ASSERT_TRUE(to.submitter->me_attach(PortalIndex{20}, {}, 0, ~0ull, MePosition::kTail, target));
  const PutSpec spec{.md = from.bind(from.piece(0, 50'000)), .target = {b.nid(), kLnetPid}, .portal = 20};
  ASSERT_TRUE(from.submitter->put(spec));
  ASSERT_TRUE(from.submitter->get(spec));
  sim.run_for(1s);
  const std::vector<Event> events = from.events();
  ASSERT_EQ(events.size(), 2u);
  for (const Event& event : events) {
    EXPECT_EQ(event.status, 0);
    EXPECT_EQ(event.mlength, 100u);
  }
  EXPECT_EQ(sim.fabric().counts().unregistered, 0u);
}

// Goal: calls wait behind the call that binds an MD outside each region, in their order, and are carried out after it.
TEST_F(SimRegions, calls_wait_behind_a_registration_in_their_order) {
  SimNode &a = add("10.0.0.1@tcp"), &b = add("10.0.0.2@tcp");
  Application app(a);
  (void)a.put(b);
  sim.run_for(1s);
  const MdHandle in_time = app.bind(app.piece(0, 100));
  const MdHandle slow = app.bind(app.piece(0, 5000));
  // An unlink does not overtake the put before it.
  ASSERT_TRUE(app.submitter->put({.md = in_time, .target = {b.nid(), kLnetPid}, .portal = 0, .ack = false}));
  ASSERT_TRUE(app.submitter->unlink(in_time));
  ASSERT_TRUE(app.submitter->unlink(slow));
  sim.run_for(1s);
  const std::vector<Event> events = app.events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].kind, EventKind::kSend);
  EXPECT_EQ(events[0].status, 0);
  EXPECT_EQ(events[1].md, in_time);
  EXPECT_EQ(events[2].md, slow);
}

// Goal: an MD whose memory a device refuses ends with the errno of the device in its one event. A put on the MD ends in
// one event, too. No driver keeps any of its segments. Method: the second driver refuses the third segment.
TEST_F(SimRegions, memory_that_a_device_refuses_ends_the_md) {
  SimNode& node = add("10.0.0.1@tcp");
  Application app(node);
  const Answer region = region_add(node, {app.memory.data() + 500'000, 10'000});
  begin();
  int asked = 0;
  sim.fabric().refuse_region = [&](std::span<std::byte> memory) { return memory.size() == 2000 && ++asked == 2; };
  const Segment segments[] = {app.piece(0, 5000), app.piece(500'000, 5000), app.piece(9000, 2000),
                              app.piece(20'000, 9)};
  const MdHandle md = app.bind(segments);
  ASSERT_TRUE(app.submitter->put({.md = md, .target = {node.nid(), kLnetPid}, .portal = 20, .length = 10}));
  sim.run_for(1s);
  EXPECT_EQ(asked, 2);
  const std::vector<Event> events = app.events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, EventKind::kUnlink);
  EXPECT_EQ(events[0].status, -ENOMEM);
  EXPECT_EQ(events[1].status, -ENOENT);
  EXPECT_TRUE(events[1].final);
  EXPECT_EQ(more(), 0u);
  EXPECT_EQ(app.submitter->mds_in_use(), 0u);
  EXPECT_GT(region_remove(node, region.id()).value, 0);  // no MD is counted in it
  own -= 1;

  sim.fabric().refuse_region = [](std::span<std::byte> memory) { return memory.size() == 4096; };
  const Answer refused = region_add(node, {app.memory.data(), 4096});
  EXPECT_EQ(refused.value, -ENOMEM);
  EXPECT_TRUE(refused.text.starts_with("cannot register 4096 bytes at 0x")) << refused.text;
  EXPECT_TRUE(refused.text.ends_with(": sim-tcp: the device has no room for the region")) << refused.text;
  sim.fabric().refuse_region = nullptr;
  EXPECT_GT(region_add(node, {app.memory.data(), 4096}).value, 0);
  EXPECT_EQ(more(), 1u);
}

// Goal: an unlink still overtakes a put that waits for an operation, if both came behind a registration. Method: puts
// on one MD take all operations, as their target is a lazy portal without entries; the unlink of that MD frees them.
TEST_F(SimRegions, an_unlink_behind_a_registration_frees_operations) {
  SimNode& b = add("10.0.0.1@tcp");
  ASSERT_TRUE(b.node().portal_open(PortalIndex{20}, WorkerId{0}, PortalMode::kSingle, true));
  size_t most = 0;
  for (const bool measured : {false, true}) {
    SimNode& a = add(measured ? "10.0.0.3@tcp" : "10.0.0.2@tcp");
    (void)a.put(b);  // discovery is over
    sim.run_for(1s);
    Application app(a);
    const MdHandle held = app.bind(app.piece(0, 100)), other = app.bind(app.piece(0, 100));
    const auto put = [&](MdHandle md) {
      const auto sent = app.submitter->put({.md = md, .target = {b.nid(), kLnetPid}, .portal = 20});
      ASSERT_TRUE(sent) << sent.error().what;
      sim.run_for(1ms);
    };
    sim.run_for(1ms);
    size_t puts = 0;
    for (; measured ? puts < most : app.submitter->calls().empty() && puts < 1000; ++puts) put(held);
    if (!measured) {
      most = puts - 1;
      continue;
    }
    ASSERT_TRUE(app.submitter->calls().empty());
    (void)app.bind(app.piece(0, 5000));
    ASSERT_TRUE(app.submitter->put({.md = other, .target = {b.nid(), kLnetPid}, .portal = 20}));
    ASSERT_TRUE(app.submitter->unlink(held));
    sim.run_for(100ms);
    EXPECT_TRUE(app.submitter->calls().empty());
    const std::vector<Event> events = app.events();
    EXPECT_EQ(events.size(), most + 1);
    for (const Event& event : events) EXPECT_EQ(event.md, held);
  }
}

TEST_F(SimRegions, a_region_that_cannot_be_is_refused_with_the_reason) {
  SimNode& node = add("10.0.0.1@tcp");
  Application app(node);
  std::byte* const base = app.memory.data();
  const Answer region = region_add(node, {base + 1000, 1000});
  begin();
  const auto refused = [&](std::byte* from, size_t bytes, int code, const std::string& part) {
    const Answer answer = region_add(node, {from, bytes});
    EXPECT_EQ(answer.value, code);
    EXPECT_NE(answer.text.find(part), std::string::npos) << answer.text;
  };
  refused(nullptr, 100, -EINVAL, "needs an address and at least 1 byte");
  refused(base, 0, -EINVAL, "needs an address and at least 1 byte");
  refused(base, SIZE_MAX, -EINVAL, "beyond the end of the address space");
  const std::string names = "overlap region " + std::to_string(region.value) + " (1000 bytes at 0x";
  refused(base + 1000, 1000, -EEXIST, names);
  refused(base, 1001, -EEXIST, names);
  refused(base + 1999, 1, -EEXIST, names);
  refused(base + 1500, 10, -EEXIST, names);
  refused(base, 5000, -EEXIST, names);
  EXPECT_EQ(more(), 0u);
  EXPECT_GT(region_add(node, {base, 1000}).value, 0);
  EXPECT_GT(region_add(node, {base + 2000, 1}).value, 0);
  EXPECT_EQ(more(), 2u);

  Answer first, second;  // also against one that is being registered
  node.node().region_add({base + 5000, 10}, first.done());
  node.node().region_add({base + 5009, 10}, second.done());
  EXPECT_EQ(second.value, -EEXIST);
  EXPECT_EQ(first.value, 0);
  sim.run_for(1s);
  EXPECT_GT(first.value, 0);
}

// Goal: a region is removed when no MD lies in it, and not before. The number of a removed
// region is refused, and that of the node's own region.
TEST_F(SimRegions, a_region_in_use_stays) {
  SimNode& node = add("10.0.0.1@tcp");
  Application app(node);
  begin();
  const Answer region = region_add(node, app.memory);
  const Segment segments[] = {app.piece(0, 5000), app.piece(9000, 5000)};
  const MdHandle md = app.bind(segments);
  sim.run_for(1s);
  const Answer busy = region_remove(node, region.id());
  EXPECT_EQ(busy.value, -EBUSY);
  EXPECT_EQ(busy.text, "2 segments of MDs lie in region " + std::to_string(region.value) +
                           ": unlink these MDs, and wait for their end");
  const MdHandle other = app.bind(segments);
  sim.run_for(1s);
  EXPECT_EQ(more(), 1u);
  for (const MdHandle one : {md, other}) ASSERT_TRUE(app.submitter->unlink(one));
  sim.run_for(1s);
  Answer removed, again;
  node.node().region_remove(region.id(), removed.done());
  node.node().region_remove(region.id(), again.done());
  EXPECT_EQ(again.value, -EALREADY);
  EXPECT_EQ(again.text, "another call removes region " + std::to_string(region.value) + ": wait for its end");
  sim.run_for(1s);
  EXPECT_EQ(removed.value, region.value);
  EXPECT_EQ(more(), 0u);
  const Answer next = region_add(node, app.memory);
  EXPECT_NE(next.value, region.value);
  const RegionId of_node = node.node().control().regions->view()->regions.front().id.value == next.id().value
                               ? node.node().control().regions->view()->regions.back().id
                               : node.node().control().regions->view()->regions.front().id;
  for (const RegionId unknown : {region.id(), RegionId{}, RegionId{UINT32_MAX}, of_node}) {
    const Answer answer = region_remove(node, unknown);
    EXPECT_EQ(answer.value, -ENOENT);
    EXPECT_EQ(answer.text, "there is no region " + std::to_string(unknown.value) + ": it was removed, or never added");
  }
  EXPECT_EQ(more(), 1u);
}

// Goal: drivers keep a removed region as long as a worker may use a view with it, also at the second try of a removal.
// Method: control turns alone, so that no worker takes the new view.
TEST_F(SimRegions, a_region_stays_while_a_worker_may_use_an_older_view) {
  SimNode& node = add("10.0.0.1@tcp");
  Application app(node);
  begin();
  const Answer region = region_add(node, app.memory);
  const MdHandle md = app.bind(app.piece(0, 5000));
  sim.run_for(1s);
  EXPECT_EQ(region_remove(node, region.id()).value, -EBUSY);
  ASSERT_TRUE(app.submitter->unlink(md));
  sim.run_for(1s);
  Answer removed;
  node.node().region_remove(region.id(), removed.done());
  for (int turn = 0; turn < 5; ++turn) {
    (void)node.node().turn_control(sim.now());
    EXPECT_EQ(registrar(node).next_deadline(), kForever) << "nothing is to be taken from the drivers yet";
  }
  EXPECT_EQ(more(), 1u);
  sim.run_for(1s);
  EXPECT_EQ(removed.value, region.value);
  EXPECT_EQ(more(), 0u);
}

// Goal: an MD that is bound at the moment at which its region is removed either keeps the region, or has its own.
TEST_F(SimRegions, an_md_and_the_removal_of_its_region_meet) {
  SimNode& node = add("10.0.0.1@tcp");
  Application app(node);
  begin();
  int stayed = 0, stayed_late = 0;  // MDs bound before the removal, or after it
  for (int i = 0; i < 60; ++i) {
    const Answer region = region_add(node, app.memory);
    Answer removed;
    const int steps = i / 2 % 6;
    const bool bind_first = i % 2 == 0;
    MdHandle md;
    if (bind_first) md = app.bind(app.piece(0, 5000));
    for (int s = 0; s < steps; ++s) sim.step(sim.now());
    node.node().region_remove(region.id(), removed.done());
    for (int s = 0; s < steps; ++s) sim.step(sim.now());
    if (!bind_first) md = app.bind(app.piece(0, 5000));
    sim.run_for(1s);
    ASSERT_NE(removed.value, 0);
    EXPECT_EQ(more(), 1u) << "the region, or that of the MD";
    (bind_first ? stayed : stayed_late) += removed.value == -EBUSY;
    EXPECT_TRUE(removed.value == -EBUSY || !bind_first || steps == 0);
    ASSERT_TRUE(app.submitter->unlink(md));
    sim.run_for(1s);
    if (removed.value == -EBUSY) {
      EXPECT_GT(region_remove(node, region.id()).value, 0);
    }
    EXPECT_EQ(more(), 0u);
  }
  EXPECT_GE(stayed, 25);
  EXPECT_GT(stayed_late, 0) << "a worker still had the view with the region";
  EXPECT_LT(stayed_late, 30);
}

TEST_F(SimRegions, regions_and_segments_outside_them_have_a_bound) {
  SimNode& node = add("10.0.0.1@tcp");
  Application app(node);
  begin();
  const size_t fit_still = kRegionsMax - node.node().control().regions->view()->regions.size();
  for (size_t i = 0; i < fit_still; ++i) ASSERT_GT(region_add(node, {app.memory.data() + 2 * i, 1}).value, 0);
  const Answer full = region_add(node, {app.memory.data() + 10'000, 1});
  EXPECT_EQ(full.value, -ENOSPC);
  EXPECT_EQ(full.text, "the node has 1024 regions: remove some, or add larger ones");
  EXPECT_GT(region_remove(node, RegionId{7}).value, 0);
  EXPECT_EQ(region_add(node, {app.memory.data() + 10'000, 1}).id(), RegionId{7 + kRegionSlots});
  own += fit_still;

  std::vector<Segment> segments(kMaxSegments);
  for (size_t i = 0; i < segments.size(); ++i) segments[i] = app.piece(20'000 + 100 * i, 100);
  const uint32_t fit = (kRegionSlots - 1 - kRegionsMax) / kMaxSegments;
  for (uint32_t i = 0; i < fit; ++i) (void)app.bind(segments);
  sim.run_for(1s);
  EXPECT_EQ(more(), fit * kMaxSegments);
  EXPECT_TRUE(app.events().empty());
  (void)app.bind(segments);
  sim.run_for(1s);
  const std::vector<Event> events = app.events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].status, -ENOSPC);
  EXPECT_EQ(more(), fit * kMaxSegments);
  (void)app.bind(app.piece(0, 5000));  // the numbers that the refused MD had taken are free
  sim.run_for(1s);
  EXPECT_TRUE(app.events().empty());
  EXPECT_EQ(more(), fit * kMaxSegments + 1);
  app.close({});
  sim.run_for(1s);
  EXPECT_EQ(more(), 0u);
}

// Goal: a closed submitter ends when no driver has its memory. Method: the close comes while the memory of its MD is
// being registered, or being taken back.
TEST_F(SimRegions, a_submitter_that_is_closed_ends_after_its_registrations) {
  SimNode& node = add("10.0.0.1@tcp");
  begin();
  for (int steps = 0; steps < 12; ++steps) {
    Application app(node);
    sim.run_for(1s);
    const MdHandle md = app.bind(app.piece(0, 5000));
    if (steps >= 6) {
      sim.run_for(1s);
      ASSERT_TRUE(app.submitter->unlink(md));
    }
    for (int s = 0; s < steps % 6; ++s) sim.step(sim.now());
    bool freed = false;
    app.close([&] { freed = true; });
    ASSERT_TRUE(sim.run_until([&] { return freed; }, 10s)) << steps;
    EXPECT_EQ(more(), 0u) << steps;
  }
}

// Goal: a node that stops takes all memory from its drivers, also what its applications have not removed, and what is
// being registered. Each call is answered.
TEST_F(SimRegions, a_node_that_stops_gives_all_memory_back) {
  for (int steps = 0; steps < 6; ++steps) {
    SimNode& node = add("10.0.0." + std::to_string(1 + steps) + "@tcp");
    Application app(node);
    const Answer region = region_add(node, {app.memory.data(), 5000});
    Answer late, leaving, refused, last;
    node.node().region_add({app.memory.data() + 10'000, 5000}, late.done());
    (void)app.bind(app.piece(20'000, 5000));
    if (steps % 2 == 0) node.node().region_remove(region.id(), leaving.done());
    for (int s = 0; s < steps; ++s) sim.step(sim.now());
    node.node().stop(sim.now());
    node.node().region_add({app.memory.data() + 30'000, 5000}, refused.done());
    EXPECT_EQ(refused.value, -ESHUTDOWN);
    for (int s = 0; s < 3 * steps; ++s) sim.step(sim.now());
    node.node().region_remove(region.id(), last.done());  // perhaps the node does that already
    ASSERT_TRUE(sim.run_until([&] { return node.node().stopped(); }, 60s));
    EXPECT_TRUE(last.value == region.value || last.value == -ENOENT || last.value == -EALREADY) << last.value;
    EXPECT_EQ(node.node().stop_leftovers(), "");
    EXPECT_EQ(registrar(node).registered(), 0u);
    EXPECT_NE(late.value, 0);
    EXPECT_EQ(leaving.value != 0, steps % 2 == 0);
    node.kill();
    EXPECT_EQ(sim.fabric().regions(), 0u);
  }
}

// Goal: a node that is killed in the middle of registrations answers each call, with ESHUTDOWN.
TEST_F(SimRegions, a_killed_node_answers_each_call) {
  SimNode& node = add("10.0.0.1@tcp");
  Application app(node);
  const Answer region = region_add(node, {app.memory.data(), 5000});
  Answer late, leaving;
  node.node().region_add({app.memory.data() + 10'000, 5000}, late.done());
  node.node().region_remove(region.id(), leaving.done());
  node.kill();
  EXPECT_EQ(late.value, -ESHUTDOWN);
  EXPECT_EQ(leaving.value, -ESHUTDOWN);
}

// Goal: a worker gets a block of router buffers once it is registered. A block that a device refuses is named in the
// journal.
TEST_F(SimRegions, router_buffers_are_registered_before_a_worker_has_them) {
  SimNode& router = sim.add_node({.nis = {"10.0.0.1@tcp"}, .workers = 2, .routing = true});
  sim.run_for(1s);
  begin();
  Routing& routing = *router.node().control().routing;
  const auto free_in = [&](unsigned pool) { return router.node().worker(WorkerId{0}).pools[pool].credits.get(); };
  EXPECT_GT(free_in(2), 0);
  const int64_t before = free_in(2);
  ASSERT_TRUE(routing.set_buffers({.tiny = 16, .small = 16, .large = 64}));
  EXPECT_EQ(more(), 0u);
  sim.run_for(1s);
  EXPECT_EQ(more(), 2u);
  EXPECT_EQ(free_in(2), 32);
  ASSERT_TRUE(routing.set_buffers({.tiny = 16, .small = 16, .large = 4}));
  sim.run_for(1s);
  EXPECT_LE(more(), 2u);
  EXPECT_EQ(free_in(2), before);

  sim.fabric().refuse_region = [](std::span<std::byte> memory) { return memory.size() > (10u << 20); };
  ASSERT_TRUE(routing.set_buffers({.tiny = 16, .small = 16, .large = 64}));
  sim.run_for(1s);
  EXPECT_EQ(free_in(2), before);
  const auto warnings = [&] {
    return std::count_if(router.journal().begin(), router.journal().end(), [](const std::string& line) {
      return line.starts_with("warning: this router has too few buffers: cannot register ") &&
             line.ends_with("; set fewer (large_buffers)");
    });
  };
  EXPECT_EQ(warnings(), 1);
  sim.run_for(10s);
  EXPECT_EQ(warnings(), 1);
  sim.fabric().refuse_region = nullptr;  // the device has room again
  sim.run_for(2s);
  EXPECT_EQ(free_in(2), 32);

  ASSERT_TRUE(routing.set_buffers({.tiny = 16, .small = 16, .large = 4}));
  sim.run_for(1s);
  EXPECT_EQ(free_in(2), before);
  ASSERT_TRUE(routing.set_buffers({.tiny = 16, .small = 16, .large = 64}));  // withdrawn while it is registered
  ASSERT_TRUE(routing.set_buffers({.tiny = 16, .small = 16, .large = 4}));
  sim.run_for(1s);
  EXPECT_EQ(free_in(2), before);
}

// Goal: a router reports itself to its peers when it has its buffers, and not before. Then it forwards. Routing that is
// switched off while a device refuses the buffers ends, and leaves nothing registered.
TEST_F(SimRegions, a_router_begins_when_its_buffers_are_registered) {
  sim.fabric().refuse_region = [](std::span<std::byte> memory) { return memory.size() > (1u << 20); };
  SimNode& router = sim.add_node({.nis = {"10.0.0.1@tcp", "10.1.0.1@o2ib"}, .workers = 2, .routing = true});
  Routing& routing = *router.node().control().routing;
  sim.run_for(5s);
  EXPECT_EQ(routing.state(), RoutingState::kStarting);
  EXPECT_FALSE(routing.advertised());
  sim.fabric().refuse_region = nullptr;
  sim.run_for(2s);
  EXPECT_EQ(routing.state(), RoutingState::kEnabled);
  SimNode& a = add("10.0.0.2@tcp", {{"o2ib", "10.0.0.1@tcp"}});
  SimNode& b = add("10.1.0.2@o2ib", {{"tcp", "10.1.0.1@o2ib"}});
  (void)a.put(b);
  sim.run_for(5s);
  EXPECT_EQ(a.ended(true), 1u);

  routing.abort();
  ASSERT_TRUE(sim.run_until([&] { return routing.empty(); }, 10s));
  begin();
  sim.fabric().refuse_region = [](std::span<std::byte>) { return true; };
  ASSERT_TRUE(routing.enable(true, sim.now()));
  sim.run_for(1s);
  EXPECT_FALSE(routing.empty());
  routing.abort();
  ASSERT_TRUE(sim.run_until([&] { return routing.empty(); }, 10s));
  EXPECT_EQ(more(), 0u);
}

// Goal: a device that refuses the memory for pushes of ping info costs one try per second, and the journal says so.
// When the device has room again, pushes come. Method: it refuses ranges of the push targets' sizes.
TEST_F(SimRegions, push_targets_come_when_the_device_has_room) {
  unsigned asked = 0;
  sim.fabric().refuse_region = [&](std::span<std::byte> memory) {
    const bool of_pushes = memory.size() % PingTarget::kPushBytes == 0;
    return asked += of_pushes, of_pushes;
  };
  SimNode& node = add("10.0.0.1@tcp");
  EXPECT_EQ(std::count_if(node.journal().begin(), node.journal().end(),
                          [](const std::string& line) {
                            return line.starts_with("warning: pushes of ping info come later: cannot register ");
                          }),
            1);
  sim.run_for(10s);
  EXPECT_GT(asked, 5 * PingTarget::kPushTargets);
  EXPECT_LT(asked, 15 * PingTarget::kPushTargets);
  const auto registered = [&] { return registrar(node).registered(); };
  EXPECT_EQ(registered(), 0u);
  sim.fabric().refuse_region = nullptr;
  sim.run_for(2s);
  EXPECT_EQ(registered(), PingTarget::kPushTargets);
}

// Goal: without a driver that needs it nothing is registered and no call waits. A region that such a driver would
// refuse is refused here, too.
TEST(SimRegionsNone, without_such_a_driver_nothing_waits) {
  for (const Transport transport : {Transport::kFabric, Transport::kSockTcp}) {
    SimNet sim{{.seed = 42, .transport = transport}};
    SimNode& node = sim.add_node({.nis = {"10.0.0.1@tcp"}});
    sim.run_for(1s);
    Application app(node);
    sim.run_for(1s);
    Worker& worker = node.node().worker(WorkerId{0});
    const MdHandle md = app.bind(app.piece(0, 500'000), kMdPut | kMdTruncate);
    (void)worker.turn(sim.now());  // without control
    EXPECT_TRUE(app.submitter->md_slot(md.index).bound);
    EXPECT_EQ(app.submitter->md_slot(md.index).memory, MdMemory::kNone);
    ASSERT_TRUE(app.submitter->unlink(md));
    (void)worker.turn(sim.now());
    EXPECT_EQ(app.events().size(), 1u);
    Answer region, overlap, removed, again;
    node.node().region_add(app.memory, region.done());
    EXPECT_GT(region.value, 0);
    node.node().region_add(app.memory, overlap.done());
    EXPECT_EQ(overlap.value, -EEXIST);
    node.node().region_remove(region.id(), removed.done());
    EXPECT_EQ(removed.value, region.value);
    node.node().region_remove(region.id(), again.done());
    EXPECT_EQ(again.value, -ENOENT);
    EXPECT_EQ(node.node().control().registrar->registered(), 0u);
  }
}

}  // namespace
}  // namespace ulnet::test
