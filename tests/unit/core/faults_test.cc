// Fault rules on one node: lost receives, sends that fail, delayed messages, and each way in which a delay ends. An LND
// does each step when the test says so.
#include <map>

#include "dataplane/stages/fault.h"
#include "dataplane/state/failures.h"
#include "dataplane/state/fault_rules.h"
#include "tests/unit/core/core_rig.h"

namespace ulnet::test {
namespace {

constexpr uint16_t failure(LndStatus status) {
  return uint16_t(1u << unsigned(status));
}

struct Faults : CoreTest {
  explicit Faults(const BenchOptions& options = {}) : CoreTest(options) {}

  /// Replaces all rules.
  void rules(const std::vector<FaultSpec>& specs) {
    FaultTable& table = *tables.emplace_back(std::make_unique<FaultTable>());
    for (const FaultSpec& spec : specs) {
      auto& locals = memory_of_rules.emplace_back(std::make_unique<FaultLocal[]>(bench.mesh->worker_count));
      table.rules.push_back({++last_id, spec, locals.get()});
    }
    bench.faults = specs.empty() ? nullptr : &table;
    bench.publish();
    for (uint16_t w = 0; w < bench.mesh->worker_count; ++w) bench.tell(WorkerId{w}, FaultsGoneMsg{});
    bench.settle();
  }
  /// Of the newest rules.
  [[nodiscard]] const FaultLocal& local(size_t rule, WorkerId worker = {}) const {
    return tables.back()->rules.at(rule).locals[worker.value];
  }
  [[nodiscard]] static FaultSpec delay(Duration latency) {
    return {.kind = FaultKind::kDelay, .rate = 1, .latency = latency};
  }
  MdHandle source() {
    const Segment segment{memory.data(), 64};
    return *submitter->md_bind({.segments = {&segment, 1}, .eq = eq});
  }
  void put(MdHandle md, bool ack = false) {
    ASSERT_TRUE(submitter->put({.md = md, .target = {tcp(2), kLnetPid}, .portal = 1, .ack = ack}));
    bench.settle();
  }
  void expect_rest() { EXPECT_EQ(bench.not_at_rest(), ""); }

  std::vector<std::unique_ptr<FaultTable>> tables;
  std::vector<std::unique_ptr<FaultLocal[]>> memory_of_rules;
  uint32_t last_id = 0;
};

// --- drop rules
// --------------------------------------------------------------------------------------------------------

TEST_F(Faults, a_receive_is_lost_with_its_payload_and_counts) {
  sink(64);
  rules({{.types = 1 << 1, .rate = 1}});
  bench.inject(put_header(tcp(1), tcp(2), 9, 77, 64), tcp(2));
  bench.inject(get_header(tcp(1), tcp(2), 9, 77, 64), tcp(2));
  bench.settle();
  ASSERT_EQ(bench.lnd().receiving.size(), 1u) << "the payload is read, and nobody gets it";
  EXPECT_EQ(bench.lnd().receiving[0]->into.length, 0u);
  arrive_all();
  EXPECT_EQ(events().size(), 0u);
  EXPECT_EQ(drops(Drop::kFault), 1u);
  EXPECT_EQ(drops(Drop::kNoMatch), 1u) << "the GET is not of this type";
  EXPECT_EQ(bench.worker().counters[Stat::kDropLength].get(), 64u);
  EXPECT_EQ(bench.slice(tcp(2)).counters[NiTraffic::kDropped][1].get(), 1u);
  EXPECT_EQ(local(0).matched.get(), 1u);
  EXPECT_EQ(local(0).hit[1].get(), 1u);
  EXPECT_EQ(local(0).hit[2].get(), 0u);
  expect_rest();
}

TEST_F(Faults, a_lost_receive_is_no_sign_of_life) {
  rules({{.rate = 1}});
  bench.inject(put_header(tcp(1), tcp(2), 9, 77, 0), tcp(2));
  bench.settle();
  EXPECT_EQ(bench.slice(tcp(2)).last_alive_ns.get(), 0);
  EXPECT_EQ(drops(Drop::kFault), 1u);
}

TEST_F(Faults, a_rule_for_one_ni_leaves_the_others_alone) {
  sink(64);
  rules({{.local = {tcp1(1), kAnyNet}, .rate = 1}});
  bench.inject(put_header(tcp(1), tcp(2), 9, 77, 0), tcp(2));
  bench.settle();
  EXPECT_EQ(events().size(), 1u);
  bench.inject(put_header(tcp1(1), tcp(2), 9, 77, 0), tcp(2), tcp1(1));
  bench.settle();
  EXPECT_EQ(events().size(), 0u);
  EXPECT_EQ(drops(Drop::kFault), 1u);
  send_all();
  expect_rest();
}

TEST_F(Faults, a_request_with_a_token_is_refused) {
  rules({{.rate = 1}});
  RxSlot& slot = bench.inject(get_header(tcp(1), tcp(2), 9, 77, 64), tcp(2));
  slot.rdma_request = true;
  slot.token = 5;
  bench.settle();
  EXPECT_EQ(bench.lnd().answered, (std::vector<std::pair<uint64_t, int32_t>>{{5, -ENODATA}}));
  expect_rest();
}

// Goal: the first rule that hits decides, and rules behind it do not count the message.
TEST_F(Faults, rules_are_looked_at_in_their_order) {
  rules({{.source = {{}, kTcp1}, .rate = 1}, {.rate = 2}, {.all = true}});
  for (int i = 0; i < 10; ++i) bench.inject(put_header(tcp(1), tcp(2), 9, 77, 0), tcp(2));
  bench.settle();
  EXPECT_EQ(drops(Drop::kFault), 10u);
  EXPECT_EQ(local(0).matched.get(), 0u);
  EXPECT_EQ(local(1).matched.get(), 10u);
  EXPECT_EQ(local(1).hit[1].get(), 5u);
  EXPECT_EQ(local(2).matched.get(), 5u);
}

// Goal: a rule with one status lets the send fail with it. The failure counts as those of the driver do, and the driver
// never gets the Tx. Method: each status once, on a node with two NIs on different nets.
TEST_F(Faults, a_send_fails_with_the_status_of_the_rule) {
  std::map<int32_t, unsigned> errors;
  for (unsigned i = 1; i < kLndStatuses; ++i) {
    const auto status = LndStatus(i);
    const FailureClass& row = failure_class(status);
    rules({{.source = {tcp(1), kAnyNet}, .all = true, .failures = failure(status)}});
    const auto node_before = bench.worker().counters[*row.at_node].get();
    bench.node.retry_count = 0;
    bench.publish();
    put(source());
    const auto seen = events();
    ASSERT_EQ(seen.size(), 1u) << row.name;
    EXPECT_EQ(seen[0].status, fault_completion(status).error) << row.name;
    EXPECT_LT(seen[0].status, 0);
    EXPECT_EQ(fault_completion(status).health, status);
    EXPECT_TRUE(bench.lnd().sent.empty()) << row.name;
    EXPECT_EQ(bench.worker().counters[*row.at_node].get(), node_before + 1) << row.name;
    NiSlice& ni = *bench.mesh->view.load()->local->nis[0].slices[0];
    if (row.at_ni) {
      EXPECT_EQ(ni.counters[*row.at_ni].get(), 1u) << row.name;
    }
    if (row.at_peer) {
      EXPECT_EQ(bench.slice(tcp(2)).counters[*row.at_peer].get(), 1u) << row.name;
    }
    EXPECT_EQ(local(0).hit[1].get(), 1u);
    expect_rest();
  }
}

TEST_F(Faults, several_statuses_take_turns_by_chance) {
  const uint16_t both = failure(LndStatus::kRemoteError) | failure(LndStatus::kLocalError);
  rules({{.all = true, .failures = both}});
  for (int i = 0; i < 40; ++i) put(source());
  (void)events();
  const uint64_t remote = bench.worker().counters[Stat::kRemoteErrorCount].get();
  const uint64_t local_errors = bench.worker().counters[Stat::kLocalErrorCount].get();
  EXPECT_EQ(remote + local_errors, 40u);
  EXPECT_GT(remote, 5u);
  EXPECT_GT(local_errors, 5u);
}

TEST_F(Faults, a_rule_for_sends_loses_no_receive_and_the_other_way_round) {
  sink(64);
  rules({{.all = true, .failures = failure(LndStatus::kLocalError)}});
  bench.inject(put_header(tcp(1), tcp(2), 9, 77, 0, 0, false), tcp(2));
  EXPECT_EQ(events().size(), 1u);
  rules({{.all = true}});
  put(source());
  EXPECT_EQ(bench.lnd().sent.size(), 1u);
  send_all();
  expect_rest();
}

// --- delay rules
// -------------------------------------------------------------------------------------------------------

TEST_F(Faults, a_delayed_send_goes_to_the_driver_when_its_time_is_over) {
  rules({delay(2s)});
  put(source());
  EXPECT_TRUE(bench.lnd().sent.empty());
  EXPECT_EQ(bench.worker().next_deadline(), bench.now + 2s);
  EXPECT_EQ(bench.slice(tcp(2)).credits.held(), 1) << "it keeps its credits";
  bench.advance(2s - 1ns);
  bench.settle();
  EXPECT_TRUE(bench.lnd().sent.empty());
  bench.advance(1ns);
  bench.settle();
  ASSERT_EQ(bench.lnd().sent.size(), 1u) << "once: it is not delayed again";
  EXPECT_EQ(bench.worker().delays_due, kForever);
  send_all();
  EXPECT_EQ(events().at(0).status, 0);
  EXPECT_EQ(local(0).hit[1].get(), 1u);
  expect_rest();
}

// Goal: after a delay, the rules for sends apply: a message can be late and fail.
TEST_F(Faults, a_delayed_send_can_fail_afterwards) {
  rules({delay(1s), {.all = true, .failures = failure(LndStatus::kRemoteError)}});
  put(source());
  EXPECT_EQ(events().size(), 0u);
  bench.advance(1s);
  EXPECT_EQ(events().at(0).status, -ECONNRESET);
  expect_rest();
}

TEST_F(Faults, delayed_sends_go_on_at_once_when_their_rule_is_gone) {
  rules({delay(100s), delay(200s)});
  for (int i = 0; i < 3; ++i) put(source());
  // The second rule stays. The first rule held all messages.
  const FaultRule kept = tables.back()->rules[1];
  FaultTable& table = *tables.emplace_back(std::make_unique<FaultTable>());
  table.rules.push_back(kept);
  bench.faults = &table;
  bench.publish();
  bench.tell(WorkerId{0}, FaultsGoneMsg{});
  bench.settle();
  EXPECT_EQ(bench.lnd().sent.size(), 3u);
  send_all();
  expect_rest();
}

TEST_F(Faults, a_delayed_send_expires_at_its_deadline) {
  rules({delay(1000s)});
  put(source());
  bench.advance(152s);  // message_timeout of the bench's NIs
  const auto seen = events();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].status, -ETIMEDOUT);
  bench.advance(1000s);
  bench.settle();
  EXPECT_TRUE(bench.lnd().sent.empty());
  expect_rest();
}

TEST_F(Faults, a_delayed_send_comes_back_when_its_md_is_unlinked) {
  rules({delay(1000s)});
  const MdHandle md = source();
  put(md, true);
  ASSERT_TRUE(submitter->unlink(md));
  const auto seen = events();
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen[0].status, -ECANCELED);
  EXPECT_TRUE(bench.lnd().sent.empty());
  expect_rest();
}

// Goal: an NI that closes waits for no delay, in either direction, and reports that it is drained.
TEST_F(Faults, a_closing_ni_waits_for_no_delay) {
  sink(64);
  rules({delay(1000s)});
  put(source());
  bench.inject(put_header(tcp(1), tcp(2), 9, 77, 0, 0, false), tcp(2));
  bench.settle();
  ASSERT_EQ(bench.lnd().held.size(), 1u);
  NiSlice& ni = *bench.mesh->view.load()->local->nis[0].slices[0];
  bench.tell(WorkerId{0}, NiCloseMsg{&ni});
  bench.settle();
  const auto items = bench.take_control_items();
  ASSERT_EQ(items.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<NiDrainedMsg>(items[0]));
  EXPECT_TRUE(bench.lnd().sent.empty() && bench.lnd().held.empty());
  unsigned failed = 0, come = 0;
  for (const Event& event : events()) event.kind == EventKind::kPut ? ++come : failed += event.status == -ENETDOWN;
  EXPECT_EQ(come, 1u);
  EXPECT_EQ(failed, 1u);
  expect_rest();
}

// Goal: a delayed message that holds the NI's only credit passes it on after kNiCreditHeldMax, as one in the driver
// does.
struct OneCredit : Faults {
  OneCredit() : Faults({.ni_credits = 1}) {}
};
TEST_F(OneCredit, a_delayed_send_passes_its_ni_credit_on) {
  rules({{.kind = FaultKind::kDelay, .dest = {tcp(2), kAnyNet}, .rate = 1, .latency = 1000s}});
  put(source());
  ASSERT_TRUE(submitter->put({.md = source(), .target = {tcp(3), kLnetPid}, .portal = 1, .ack = false}));
  bench.settle();
  EXPECT_TRUE(bench.lnd().sent.empty());
  bench.advance(kNiCreditHeldMax);
  bench.settle();
  ASSERT_EQ(bench.lnd().sent.size(), 1u);
  send_all();
  rules({});
  send_all();
  EXPECT_EQ(events().size(), 2u);
  expect_rest();
}

TEST_F(Faults, a_delayed_receive_is_held_and_then_decided) {
  sink(64);
  rules({delay(2s)});
  bench.inject(put_header(tcp(1), tcp(2), 9, 77, 64, 0, false), tcp(2));
  bench.settle();
  ASSERT_EQ(bench.lnd().held.size(), 1u);
  EXPECT_EQ(events().size(), 0u);
  EXPECT_EQ(bench.worker().next_deadline(), bench.now + 2s);
  bench.advance(2s);
  bench.settle();
  EXPECT_EQ(bench.lnd().resumed.size(), 1u);
  arrive_all();
  EXPECT_EQ(events().size(), 1u);
  EXPECT_EQ(local(0).hit[1].get(), 1u);
  expect_rest();
}

TEST_F(Faults, a_delayed_receive_that_is_malformed_closes_the_connection_afterwards) {
  rules({delay(1s)});
  bench.inject(put_header(tcp(9), tcp(2), 9, 77, 0), tcp(2));  // should have gone direct
  bench.settle();
  EXPECT_TRUE(bench.lnd().refused.empty());
  bench.advance(1s);
  bench.settle();
  EXPECT_EQ(bench.lnd().refused.size(), 1u);
  expect_rest();
}

TEST_F(Faults, a_delayed_answer_fulfils_the_operation) {
  rules({{.kind = FaultKind::kDelay, .types = 1 << 3, .rate = 1, .latency = 1s}});
  const MdHandle md = source();
  ASSERT_TRUE(submitter->get({.md = md, .target = {tcp(2), kLnetPid}, .portal = 1}));
  bench.settle();
  wire::Header reply;
  reply.type = wire::MsgType::kReply;
  reply.dest_nid = tcp(1);
  reply.src_nid = tcp(2);
  reply.payload_length = 64;
  reply.set(wire::ReplyBody{bench.lnd().sent.at(0)->header.get().return_wmd});
  send_all();
  bench.inject(reply, tcp(2));
  bench.settle();
  EXPECT_EQ(events().size(), 0u);
  bench.advance(1s);
  arrive_all();
  EXPECT_EQ(events().at(0).status, 0);
  expect_rest();
}

// Goal: at most kTimerBudget messages go on in one stage, and none waits longer than the next turns.
TEST_F(Faults, many_delayed_receives_go_on_within_the_budget) {
  sink(64);
  rules({delay(1s)});
  for (unsigned i = 0; i < 3 * kTimerBudget; ++i) bench.inject(put_header(tcp(1), tcp(2), 9, 77, 0, 0, false), tcp(2));
  bench.settle();
  ASSERT_EQ(bench.worker().delayed_receives.size(), 3 * kTimerBudget);
  bench.advance(1s);
  bench.turn(WorkerId{0});
  EXPECT_EQ(bench.worker().delayed_receives.size(), 2 * kTimerBudget);
  EXPECT_LE(bench.worker().next_deadline(), bench.now) << "the worker does not sleep";
  bench.turn(WorkerId{0});
  bench.turn(WorkerId{0});
  EXPECT_EQ(bench.worker().delayed_receives.size(), 0u);
  bench.settle();
  EXPECT_EQ(drops(Drop::kNoMessage), 0u);
}

// --- a router, and several workers
// -------------------------------------------------------------------------------------

struct RouterFaults : Faults {
  RouterFaults() : Faults({.routing = RoutingState::kEnabled}) {
    bench.add_peer(tcp1(2));
    bench.publish();
    bench.add_router_buffers(WorkerId{0}, {4, 4, 4});
    bench.settle();
  }
};

TEST_F(RouterFaults, a_message_between_other_nodes_is_lost_on_receive) {
  rules({{.dest = {tcp1(2), kAnyNet}, .rate = 1}});
  bench.inject(put_header(tcp1(2), tcp(2), 9, 1, 0), tcp(2));
  bench.settle();
  EXPECT_TRUE(bench.lnd().sent.empty());
  EXPECT_EQ(drops(Drop::kFault), 1u);
  expect_rest();
}

TEST_F(RouterFaults, a_message_between_other_nodes_is_delayed_on_receive_and_before_its_send) {
  rules({delay(1s)});
  bench.inject(put_header(tcp1(2), tcp(2), 9, 1, 0), tcp(2));
  bench.settle();
  EXPECT_EQ(bench.worker().delayed_receives.size(), 1u);
  bench.advance(1s);
  bench.settle();
  EXPECT_EQ(bench.worker().delayed_receives.size(), 0u);
  EXPECT_EQ(bench.worker().delayed_sends.size(), 1u);
  EXPECT_TRUE(bench.lnd().sent.empty());
  bench.advance(1s);
  send_all();
  EXPECT_EQ(bench.worker().counters[Stat::kRouteCount].get(), 1u);
  EXPECT_EQ(local(0).matched.get(), 2u);
  expect_rest();
}

TEST_F(RouterFaults, the_send_of_a_forwarded_message_fails) {
  rules({{.all = true, .failures = failure(LndStatus::kRemoteError)}});
  bench.inject(put_header(tcp1(2), tcp(2), 9, 1, 0), tcp(2));
  bench.settle();
  EXPECT_TRUE(bench.lnd().sent.empty());
  EXPECT_EQ(drops(Drop::kNextHopDown), 1u);
  expect_rest();
}

struct TwoWorkers : Faults {
  TwoWorkers() : Faults({.workers = 2}) {
    bench.add_peer(tcp(5), WorkerId{1});
    bench.publish();
    bench.settle();
  }
};

// Goal: a message that its home could take along is held after a delay, because the driver has that verdict. The next
// message in the same slot is taken along.
TEST_F(TwoWorkers, a_delayed_movable_receive_is_held_for_its_home) {
  sink(128);
  rules({delay(1s)});
  ScriptLnd& lnd = bench.lnd(WorkerId{1});
  RxSlot& slot = bench.inject(put_header(tcp(1), tcp(5), 9, 77, 64, 0, false), tcp(5));
  lnd.make_movable(slot, 7);
  bench.settle();
  EXPECT_EQ(lnd.held.size(), 1u);
  bench.advance(1s);
  bench.settle();
  EXPECT_TRUE(lnd.taken.empty());
  ASSERT_EQ(lnd.receiving.size(), 1u);
  lnd.complete_rx(slot, 0, 7);
  EXPECT_EQ(events().size(), 1u);
  rules({});
  lnd.actions.emplace_back([&] {
    EXPECT_EQ(bench.calls(WorkerId{1}).rx_header(slot, bench.now), RxVerdict::kTaken);
    lnd.taken.push_back(&slot);
  });
  EXPECT_EQ(events().size(), 1u);
  EXPECT_EQ(memory[0], std::byte{7});
  expect_rest();
}

// Goal: each worker counts by itself, and a Tx is delayed by the worker that serves its peer NI.
TEST_F(TwoWorkers, each_worker_has_its_own_count) {
  rules({{.kind = FaultKind::kDelay, .rate = 2, .latency = 1s}});
  const MdHandle md = source();
  for (int i = 0; i < 4; ++i)
    for (const Nid& to : {tcp(2), tcp(5)})
      ASSERT_TRUE(submitter->put({.md = md, .target = {to, kLnetPid}, .portal = 1, .ack = false}));
  bench.settle();
  for (const WorkerId worker : {WorkerId{0}, WorkerId{1}}) {
    EXPECT_EQ(local(0, worker).matched.get(), 4u);
    EXPECT_EQ(local(0, worker).hit[1].get(), 2u);
    EXPECT_EQ(bench.worker(worker).delayed_sends.size(), 2u);
    EXPECT_EQ(bench.lnd(worker).sent.size(), 2u);
  }
  rules({});
  for (const WorkerId worker : {WorkerId{0}, WorkerId{1}})
    while (!bench.lnd(worker).sent.empty()) {
      bench.lnd(worker).complete_tx(*bench.lnd(worker).sent[0], {});
      bench.settle();
    }
  EXPECT_EQ(events().size(), 8u);
  expect_rest();
}

// --- loopback
// ----------------------------------------------------------------------------------------------------------

TEST_F(Faults, loopback_meets_rules_on_receive_only) {
  sink(64);
  rules({{.local = {kLoNid, kAnyNet}, .types = 1 << 1, .rate = 1}, {.all = true, .failures = 0x7FE}});
  ASSERT_TRUE(
      submitter->put({.md = source(), .target = {tcp(1), kLnetPid}, .portal = 9, .match_bits = 77, .ack = false}));
  const auto seen = events();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].kind, EventKind::kSend);
  EXPECT_EQ(seen[0].status, 0);
  EXPECT_EQ(drops(Drop::kFault), 1u);
  rules({delay(5s)});
  ASSERT_TRUE(
      submitter->put({.md = source(), .target = {tcp(1), kLnetPid}, .portal = 9, .match_bits = 77, .ack = false}));
  EXPECT_EQ(events().size(), 0u);
  bench.advance(5s);
  EXPECT_EQ(events().size(), 2u);
  expect_rest();
}

}  // namespace
}  // namespace ulnet::test
