// Failures at a worker: the interfaces that they are charged to, and messages that leave a rail that failed.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "dataplane/state/failures.h"
#include "tests/unit/core/core_rig.h"

namespace ulnet::test {
namespace {

using wire::MsgType;

struct CoreHealth : CoreTest {
  explicit CoreHealth(const BenchOptions& options = {}) : CoreTest(options) {
    bench.join(tcp(2), tcp(2));
    bench.join(tcp(2), tcp(3));
    bench.publish();
    Segment segment{memory.data(), 64};
    md = *submitter->md_bind({.segments = {&segment, 1}, .eq = eq});
  }
  void put(int count) {
    for (int i = 0; i < count; ++i)
      EXPECT_TRUE(submitter->put({.md = md, .target = {tcp(2), kLnetPid}, .portal = 1, .ack = false}));
    bench.settle();
  }
  void fail(Tx& tx, Completion how) {
    bench.lnd().complete_tx(tx, how);
    bench.settle();
  }
  /// The charges that control hears of: "ni 1, peer 100".
  std::string charged() {
    std::set<std::string> all;
    for (const WorkerMsg& msg : bench.take_control_items())
      if (const auto* one = std::get_if<ChargedMsg>(&msg))
        all.insert((one->of_peer ? "peer " : "ni ") + std::to_string(one->id));
    std::string text;
    for (const std::string& one : all) text += (text.empty() ? "" : ", ") + one;
    return text;
  }
  MdHandle md;
};

// Goal: each class of failures is charged to the interfaces that docs/wire/lnet.md §9 names, and to no others.
TEST_F(CoreHealth, each_class_is_charged_to_those_at_fault) {
  bench.node.retry_count = 0;
  bench.publish();
  for (unsigned i = 0; i < kLndStatuses; ++i) {
    const auto status = LndStatus(i);
    put(1);
    Tx& tx = *bench.lnd().sent.at(0);
    const std::string ni = "ni " + std::to_string(tx.ni.value), peer = "peer " + std::to_string(tx.peer_ni.value);
    NiSlice& slice = *tx.ni_slice;
    PeerLocal& local = *tx.peer->locals[0];
    fail(tx, {status == LndStatus::kOk ? -ECANCELED : -EIO, status});
    const FailureClass& failure = failure_class(status);
    std::string meant;
    if (failure.ni_at_fault) meant = ni;
    if (failure.peer_at_fault) meant += (meant.empty() ? "" : ", ") + peer;
    EXPECT_EQ(charged(), meant) << failure.name;
    (void)slice.charges.read();
    (void)local.charges.read();
  }
  (void)events();
}

// Goal: peer NIs that are gone are pinged for ever, and this node's own NI stays whole.
TEST_F(CoreHealth, a_recovery_ping_without_an_answer_is_not_charged_to_the_own_ni) {
  for (const LndStatus status : {LndStatus::kNetworkTimeout, LndStatus::kLocalDropped}) {
    ASSERT_TRUE(submitter->get({.md = md, .target = {tcp(2), kLnetPid}, .portal = 0, .recovery = true}));
    bench.settle();
    Tx& tx = *bench.lnd().sent.at(0);
    const bool own = status == LndStatus::kLocalDropped;
    const std::string meant = own ? "ni " + std::to_string(tx.ni.value) : "peer " + std::to_string(tx.peer_ni.value);
    fail(tx, {-EHOSTUNREACH, status});
    EXPECT_EQ(charged(), meant);
  }
  (void)events();
}

// Goal: control hears once of failures that it has not read, however many there are, and the number is exact.
TEST_F(CoreHealth, control_hears_once_until_it_reads) {
  bench.node.retry_count = 0;
  bench.publish();
  put(8);
  Charges& charges = bench.lnd().sent.at(0)->ni_slice->charges;
  while (!bench.lnd().sent.empty()) bench.lnd().complete_tx(*bench.lnd().sent[0], {-EIO, LndStatus::kLocalError});
  bench.settle();
  EXPECT_EQ(charged(), "ni " + std::to_string(charges.id()));
  EXPECT_EQ(charges.read(), 8u);
  put(1);
  fail(*bench.lnd().sent.at(0), {-EIO, LndStatus::kLocalError});
  EXPECT_EQ(charged(), "ni " + std::to_string(charges.id()));
  EXPECT_EQ(charges.read(), 9u);
  (void)events();
}

TEST_F(CoreHealth, a_late_message_is_charged_to_nobody) {
  bench.node.retry_count = 0;
  bench.publish();
  put(1);
  Tx& tx = *bench.lnd().sent.at(0);
  bench.now = tx.deadline;
  bench.lnd().complete_tx(tx, {-ETIMEDOUT, LndStatus::kNetworkTimeout});
  bench.settle();
  EXPECT_EQ(charged(), "");
  (void)events();
}

struct FewCredits : CoreHealth {
  FewCredits() : CoreHealth({.peer_credits = 2}) {}
};

// Goal: a peer NI is avoided. Messages that wait for its credits take the other rail at once. A message that the driver
// has not begun does so when the driver gives it back. All others stay.
TEST_F(FewCredits, messages_leave_a_peer_ni_that_is_avoided) {
  put(8);
  ASSERT_EQ(bench.lnd().sent.size(), 4u) << "two credits for each peer NI";
  PeerSlice& avoided = bench.slice(tcp(2));
  bench.set_health(tcp(2), 0);
  bench.publish();
  bench.tell(WorkerId{0}, AvoidPeerMsg{&avoided, true});
  bench.settle();
  EXPECT_EQ(bench.lnd().cancelled.size(), 2u);
  EXPECT_EQ(avoided.tx_count, 2u) << "those that the driver has";
  EXPECT_EQ(bench.slice(tcp(3)).tx_count, 6u);
  for (const auto& [tx, force] : bench.lnd().cancelled) EXPECT_FALSE(force);
  fail(*bench.lnd().cancelled[0].first, {-ECANCELED, LndStatus::kOk});
  EXPECT_EQ(avoided.tx_count, 1u);
  EXPECT_EQ(bench.slice(tcp(3)).tx_count, 7u);
  EXPECT_EQ(bench.worker().counters[Stat::kResendCount].get(), 0u) << "nothing has failed";
  EXPECT_EQ(charged(), "");
  while (!bench.lnd().sent.empty()) fail(*bench.lnd().sent[0], {});
  const auto seen = events();
  EXPECT_EQ(seen.size(), 8u);
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](const Event& event) { return event.status == 0; }));
  bench.set_health(tcp(2), 1000);
  bench.publish();
  bench.tell(WorkerId{0}, AvoidPeerMsg{&avoided, false});
  put(2);
  EXPECT_EQ(avoided.tx_count, 1u) << "used again";
  while (!bench.lnd().sent.empty()) fail(*bench.lnd().sent[0], {});
  (void)events();
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: the only NI of this node is avoided. Messages still go over it, and none of them moves without end.
TEST_F(FewCredits, messages_stay_where_there_is_no_other_path) {
  put(8);
  NiSlice& only = *bench.lnd().sent.at(0)->ni_slice;
  bench.tell(WorkerId{0}, AvoidNiMsg{&only, true});
  bench.settle();
  EXPECT_EQ(only.tx_count.get(), 8);
  put(2);
  EXPECT_EQ(only.tx_count.get(), 10);
  while (!bench.lnd().sent.empty()) fail(*bench.lnd().sent[0], {});
  EXPECT_EQ(events().size(), 10u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: both peer NIs fail, so messages stay where they are. When one of the two is back, messages that have not begun
// leave the other, also after many failures in a row.
TEST_F(FewCredits, messages_that_stayed_take_a_rail_that_is_back) {
  put(8);
  PeerSlice& dead = bench.slice(tcp(2));
  PeerSlice& returns = bench.slice(tcp(3));
  const auto avoid = [&](PeerSlice& slice, const Nid& nid, bool avoided) {
    bench.set_health(nid, avoided ? 0 : 1000);
    bench.publish();
    bench.tell(WorkerId{0}, AvoidPeerMsg{&slice, avoided});
    bench.settle();
  };
  avoid(dead, tcp(2), true);
  for (int flaps = 0; flaps < 300; ++flaps) {
    avoid(returns, tcp(3), true);
    avoid(returns, tcp(3), false);
    ASSERT_EQ(dead.tx_count, 2u) << "only those that the driver has, after " << flaps << " flaps";
    ASSERT_EQ(returns.tx_count, 6u);
  }
  while (!bench.lnd().sent.empty()) fail(*bench.lnd().sent[0], {});
  EXPECT_EQ(events().size(), 8u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: a message stays at a rail that has failed, as there is no other. One is there later, and no rail returned at
// the worker that holds the message. The message goes home from time to time, and takes it.
TEST_F(FewCredits, messages_that_stay_are_moved_later) {
  put(8);
  PeerSlice& one = bench.slice(tcp(2));
  PeerSlice& other = bench.slice(tcp(3));
  for (const Nid& nid : {tcp(2), tcp(3)}) bench.set_health(nid, 0);
  bench.publish();
  bench.tell(WorkerId{0}, AvoidPeerMsg{&one, true});
  bench.tell(WorkerId{0}, AvoidPeerMsg{&other, true});
  bench.settle();
  ASSERT_EQ(one.tx_count + other.tx_count, 8u);
  bench.add_peer(tcp(4));
  bench.join(tcp(2), tcp(4));
  bench.publish();
  bench.settle();
  EXPECT_EQ(bench.slice(tcp(4)).tx_count, 0u);
  bench.advance(kStaysLook);
  bench.settle();
  EXPECT_EQ(bench.slice(tcp(4)).tx_count, 4u) << "those that the driver has not begun";
  while (!bench.lnd().sent.empty()) fail(*bench.lnd().sent[0], {});
  EXPECT_EQ(events().size(), 8u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: an ACK that stays on a failed rail is not sent home again and again. Otherwise, no ACK would ever have waited
// for long enough to be given up.
TEST_F(FewCredits, an_ack_that_stays_goes_home_once) {
  (void)sink(64, kMdPut);
  bench.inject(put_header(tcp(1), tcp(2), 9, 77, 64), tcp(2));
  bench.settle();
  bench.lnd().complete_rx(*bench.lnd().receiving.at(0), 0);
  bench.settle();
  Tx& ack = *bench.lnd().sent.at(0);
  NiSlice& only = *ack.ni_slice;
  bench.tell(WorkerId{0}, AvoidNiMsg{&only, true});
  bench.settle();
  ASSERT_EQ(bench.lnd().cancelled.size(), 1u);
  fail(ack, {-ECANCELED, LndStatus::kOk});
  ASSERT_EQ(bench.lnd().sent.size(), 1u);
  for (int i = 0; i < 20; ++i) {
    bench.advance(kStaysLook);
    bench.settle();
  }
  EXPECT_EQ(bench.lnd().cancelled.size(), 1u);
  fail(*bench.lnd().sent[0], {});
  (void)events();
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: a REPLY that has to leave its rail does so, also if its MD was unlinked meanwhile.
TEST_F(FewCredits, a_reply_moves_after_its_md_was_unlinked) {
  const MdHandle from = sink(64, kMdGet);
  bench.inject(get_header(tcp(1), tcp(2), 9, 77, 64), tcp(2));
  bench.settle();
  Tx& reply = *bench.lnd().sent.at(0);
  EXPECT_TRUE(submitter->unlink(from));
  bench.tell(WorkerId{0}, AvoidNiMsg{reply.ni_slice, true});
  bench.settle();
  ASSERT_EQ(bench.lnd().cancelled.size(), 1u);
  fail(reply, {-ECANCELED, LndStatus::kOk});
  ASSERT_EQ(bench.lnd().sent.size(), 1u);
  fail(*bench.lnd().sent[0], {});
  const auto seen = events();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].kind, EventKind::kGet);
  EXPECT_EQ(seen[0].status, 0);
  EXPECT_EQ(seen[1].kind, EventKind::kUnlink);
  EXPECT_EQ(bench.not_at_rest(), "");
}

struct Unconnected : CoreHealth {
  Unconnected() {
    bench.node.fast_detection = true;
    bench.publish();
  }
  /// There is no connection for the only Tx. Returns it if the worker cancels it within `time`.
  Tx* cancelled_after(Duration time) {
    Tx& tx = *bench.lnd().sent.at(0);
    bench.calls().tx_waits(tx, bench.now);
    bench.lnd().cancelled.clear();
    bench.advance(time);
    bench.settle();
    if (bench.lnd().cancelled.empty()) return nullptr;
    EXPECT_EQ(bench.lnd().cancelled, (std::vector<std::pair<Tx*, bool>>{{&tx, false}}));
    return &tx;
  }
  void all_end_well() {
    while (!bench.lnd().sent.empty()) fail(*bench.lnd().sent[0], {});
    EXPECT_EQ(events().at(0).status, 0);
    EXPECT_EQ(bench.not_at_rest(), "");
  }
};

// Goal: a request waits for a connection for a moment only, if another rail could carry it. Nobody is charged.
TEST_F(Unconnected, a_request_takes_another_rail) {
  put(1);
  Tx* tx = cancelled_after(kNoConnectionMove);
  ASSERT_NE(tx, nullptr);
  const PeerNiId first = tx->peer_ni;
  const Instant deadline = tx->deadline;
  fail(*tx, {-ECANCELED, LndStatus::kOk});
  ASSERT_EQ(bench.lnd().sent.size(), 1u);
  EXPECT_NE(bench.lnd().sent[0]->peer_ni, first);
  EXPECT_EQ(bench.lnd().sent[0]->deadline, deadline);
  EXPECT_EQ(charged(), "");
  all_end_well();
}

TEST_F(Unconnected, a_request_whose_connection_comes_up_stays) {
  put(1);
  Tx& tx = *bench.lnd().sent.at(0);
  bench.calls().tx_waits(tx, bench.now);
  bench.calls().tx_connected(tx, bench.now);
  bench.advance(10 * kNoConnectionMove);
  bench.settle();
  EXPECT_TRUE(bench.lnd().cancelled.empty());
  all_end_well();
}

TEST_F(Unconnected, a_request_that_has_begun_stays) {
  put(1);
  Tx* tx = cancelled_after(kNoConnectionMove);
  ASSERT_NE(tx, nullptr);
  all_end_well();  // the driver does not give it back
}

// Goal: after each rail was tried, a request waits where it is until its deadline.
TEST_F(Unconnected, a_request_does_not_move_without_end) {
  put(1);
  unsigned moves = 0;
  for (Tx* tx; moves < 10 && (tx = cancelled_after(kNoConnectionMove)) != nullptr; ++moves)
    fail(*tx, {-ECANCELED, LndStatus::kOk});
  EXPECT_EQ(moves, 2u) << "from each of the two peer NIs";
  Tx& tx = *bench.lnd().sent.at(0);
  bench.lnd().cancelled.clear();
  bench.now = tx.deadline;
  bench.settle();
  EXPECT_EQ(bench.lnd().cancelled, (std::vector<std::pair<Tx*, bool>>{{&tx, true}}));
  all_end_well();
}

TEST_F(Unconnected, a_request_stays_without_fast_detection) {
  bench.node.fast_detection = false;
  bench.publish();
  put(1);
  EXPECT_EQ(cancelled_after(10 * kNoConnectionMove), nullptr);
  all_end_well();
}

// Goal: a message fails over each of four pairs of NIs. If as many resends are allowed, it takes each pair once, and
// none twice.
TEST_F(CoreHealth, each_pair_is_tried_once) {
  bench.add_ni(tcp(100));
  bench.node.retry_count = 9;
  bench.publish();
  put(1);
  std::set<std::pair<uint32_t, uint32_t>> pairs;
  unsigned attempts = 0;
  while (!bench.lnd().sent.empty()) {
    Tx& tx = *bench.lnd().sent[0];
    EXPECT_TRUE(pairs.insert({tx.ni.value, tx.peer_ni.value}).second);
    ++attempts;
    fail(tx, {-ECONNRESET, LndStatus::kRemoteDropped});
  }
  EXPECT_EQ(attempts, 4u);
  EXPECT_EQ(events().at(0).status, -ECONNRESET);
}

// Goal: all attempts share the deadline of the first.
TEST_F(CoreHealth, a_resend_keeps_the_deadline) {
  put(1);
  const Instant deadline = bench.lnd().sent.at(0)->deadline;
  bench.now += 10s;
  fail(*bench.lnd().sent.at(0), {-ECONNRESET, LndStatus::kRemoteDropped});
  EXPECT_EQ(bench.lnd().sent.at(0)->deadline, deadline);
  bench.now = deadline;
  fail(*bench.lnd().sent.at(0), {-ECONNRESET, LndStatus::kRemoteDropped});
  EXPECT_TRUE(bench.lnd().sent.empty());
  (void)events();
}

// Goal: control hears of a pair over which a request waits, once it has waited for kSilenceMin, as long as it waits.
TEST_F(CoreHealth, silent_pairs_are_reported) {
  bench.node.fast_detection = true;
  bench.publish();
  EXPECT_TRUE(submitter->put({.md = md, .target = {tcp(2), kLnetPid}, .portal = 1}));
  bench.settle();
  Tx& tx = *bench.lnd().sent.at(0);
  const NiId ni = tx.ni;
  const PeerNiId peer_ni = tx.peer_ni;
  fail(tx, {});
  const auto silent = [&](Duration later) {
    bench.now += later;
    bench.settle();
    size_t told = 0;
    for (const WorkerMsg& msg : bench.take_control_items())
      if (const auto* one = std::get_if<SilentMsg>(&msg)) {
        EXPECT_TRUE(one->ni == ni && one->peer_ni == peer_ni && one->waited >= kSilenceMin);
        ++told;
      }
    return told;
  };
  EXPECT_EQ(silent(kSilenceMin - 10ms), 0u);
  EXPECT_EQ(silent(kSilenceLook), 1u);
  EXPECT_EQ(silent(kSilenceLook / 2), 0u) << "not looked at so soon";
  EXPECT_EQ(silent(kSilenceLook), 1u);
  (void)submitter->unlink(md);
  EXPECT_EQ(silent(10 * kSilenceLook), 0u);
  (void)events();
}

}  // namespace
}  // namespace ulnet::test
