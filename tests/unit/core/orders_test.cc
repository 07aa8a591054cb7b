// Goal: whatever the order of unlink, arrival, timeout, lease and close, an operation ends in exactly one final event,
// its MD in exactly one kUnlink, and nothing is left behind (docs/architecture.md, what must stay true: 5). Method: the
// steps of one operation are put into every order that causality allows, on one worker and with home and connection on
// different workers, letting the workers settle after each step or not.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/unit/core/bench.h"

namespace ulnet::test {
namespace {

using wire::MsgType;

enum class Step {
  kLeaseOk,
  kLeaseFails,
  kResponse,
  kPayloadOk,
  kPayloadLost,
  kUnlink,
  kTimeout,
  kSecondResponse,
  kGetDone,  ///< the peer has filled the sink
  kGetRefused,
  kConnClose,      ///< whatever is under way on the connection fails
  kSubmitterClose  ///< the application goes: no event comes any more
};

const char* name(Step step) {
  switch (step) {
    case Step::kLeaseOk: return "lease ok";
    case Step::kLeaseFails: return "lease fails";
    case Step::kResponse: return "response";
    case Step::kPayloadOk: return "payload ok";
    case Step::kPayloadLost: return "payload lost";
    case Step::kUnlink: return "unlink";
    case Step::kTimeout: return "timeout";
    case Step::kSecondResponse: return "second response";
    case Step::kGetDone: return "get done";
    case Step::kGetRefused: return "get refused";
    case Step::kConnClose: return "connection closes";
    case Step::kSubmitterClose: return "submitter closes";
  }
  return "?";
}

struct Tally {
  int finals = 0, unlinks = 0;
  int32_t final_status = 1;
  EventKind final_kind = EventKind::kUnlink;
};

class Orders {
 public:
  Orders(unsigned workers, bool settle_each, bool get, bool ack)
      : bench_({.workers = workers}), settle_each_(settle_each), get_(get), ack_(ack) {
    server_ = WorkerId{uint16_t(workers - 1)};
    bench_.add_peer(tcp(2), server_);
    bench_.publish();
    submitter_ = &bench_.submitter(WorkerId{0});
    eq_ = *submitter_->eq_open(16);
    Segment segment{memory_.data(), uint32_t(memory_.size())};
    md_ = *submitter_->md_bind({.segments = {&segment, 1}, .eq = eq_});
    PutSpec spec{.md = md_, .target = {tcp(2), kLnetPid}, .portal = 5, .ack = ack};
    EXPECT_TRUE(get ? submitter_->get(spec) : submitter_->put(spec));
    bench_.settle();
    tx_ = bench_.lnd(server_).sent.at(0);
    request_ = tx_->header;
  }

  void run(Step step) {
    ScriptLnd& lnd = bench_.lnd(server_);
    switch (step) {
      case Step::kLeaseOk: end_lease({}); break;
      case Step::kLeaseFails: end_lease({-ECONNRESET, LndStatus::kRemoteDropped}); break;
      case Step::kGetDone: end_get(uint32_t(memory_.size()), 0); break;
      case Step::kGetRefused: end_get(0, -ENODATA); break;
      case Step::kConnClose:
        end_lease({-ECONNRESET, LndStatus::kRemoteDropped});
        while (!lnd.receiving.empty()) lnd.complete_rx(*lnd.receiving[0], -ECONNRESET);
        break;
      case Step::kSubmitterClose: close_submitter(); break;
      case Step::kResponse:
      case Step::kSecondResponse: respond(); break;
      case Step::kPayloadOk:
        if (!lnd.receiving.empty()) lnd.complete_rx(*lnd.receiving[0], 0, 0x5A);
        break;
      case Step::kPayloadLost:
        if (!lnd.receiving.empty()) lnd.complete_rx(*lnd.receiving[0], -ECONNRESET);
        break;
      case Step::kUnlink:
        if (!closed_) (void)submitter_->unlink(md_);
        break;
      case Step::kTimeout: bench_.advance(151s + 1ms); break;
    }
    if (settle_each_) {
      bench_.settle();
    } else {
      for (unsigned i = 0; i < bench_.mesh->worker_count; ++i) bench_.turn(WorkerId{uint16_t(i)});
    }
    observe();
  }

  /// What a real LND does in the end: lets go of everything.
  Tally finish() {
    bench_.settle();
    ScriptLnd& lnd = bench_.lnd(server_);
    for (int round = 0; round < 3; ++round) {
      while (!lnd.receiving.empty()) lnd.complete_rx(*lnd.receiving[0], -ECANCELED);
      while (!lnd.sent.empty()) lnd.complete_tx(*lnd.sent[0], {-ECONNRESET, LndStatus::kRemoteDropped});
      bench_.settle();
      if (!closed_) (void)submitter_->unlink(md_);
      bench_.advance(200s);
      bench_.settle();
    }
    observe();
    if (closed_) {
      int told = 0;
      for (const WorkerMsg& msg : bench_.take_control_items()) told += std::holds_alternative<SubmitterClosedMsg>(msg);
      EXPECT_EQ(told, 1) << "control hears once that the submitter is done";
    } else {
      EXPECT_EQ(submitter_->mds_in_use(), 0u);
    }
    EXPECT_EQ(bench_.not_at_rest(), "");
    return tally_;
  }

  /// Takes the events that are there. None may end the operation, or the MD, while the LND still holds its memory.
  void observe() {
    Event events[16];
    const unsigned count = submitter_->eq_poll(eq_, events);
    const ScriptLnd& lnd = bench_.lnd(server_);
    EXPECT_TRUE(!close_seen_ || count == 0) << "an event after the submitter was closed";
    close_seen_ = closed_;
    for (unsigned i = 0; i < count; ++i) {
      EXPECT_TRUE(lnd.sent.empty()) << "an event while the message is still on lease";
      for (const RxSlot* slot : lnd.receiving)
        EXPECT_EQ(slot->into.length, 0u) << "an event while its memory is still received into";
      if (events[i].kind == EventKind::kUnlink) {
        ++tally_.unlinks;
        EXPECT_EQ(tally_.finals, 1) << "the MD ended before its operation";
      } else if (events[i].final) {
        ++tally_.finals;
        tally_.final_status = events[i].status;
        tally_.final_kind = events[i].kind;
      }
    }
  }

  /// Once unlinked or timed out, a receive under way is asked to let go.
  void expect_diverted_if_ended(const std::vector<Step>& done) {
    const auto has = [&](Step s) { return std::find(done.begin(), done.end(), s) != done.end(); };
    bench_.settle();
    const ScriptLnd& lnd = bench_.lnd(server_);
    const bool held =
        std::any_of(lnd.receiving.begin(), lnd.receiving.end(), [](const RxSlot* s) { return s->into.length > 0; });
    EXPECT_TRUE(!held || !(has(Step::kUnlink) || has(Step::kTimeout)) || !lnd.diverted.empty());
  }

  [[nodiscard]] bool memory_filled() const {
    return std::all_of(memory_.begin(), memory_.end(), [](std::byte b) { return b == std::byte{0x5A}; });
  }

  [[nodiscard]] bool closed() const { return closed_; }

 private:
  /// Once: the connection may have been closed before.
  void end_lease(const Completion& how) {
    ScriptLnd& lnd = bench_.lnd(server_);
    if (std::find(lnd.sent.begin(), lnd.sent.end(), tx_) != lnd.sent.end()) lnd.complete_tx(*tx_, how);
  }
  void end_get(uint32_t bytes, int32_t error) {
    ScriptLnd& lnd = bench_.lnd(server_);
    if (std::find(lnd.sent.begin(), lnd.sent.end(), tx_) != lnd.sent.end()) lnd.complete_get(*tx_, bytes, error, 0x5A);
  }
  void close_submitter() {
    closed_ = true;
    bench_.tell(WorkerId{0}, SubmitterCloseMsg{submitter_});
  }
  void respond() {
    wire::Header h;
    h.dest_nid = request_.src_nid;
    h.src_nid = request_.dest_nid;
    if (get_) {
      h.type = MsgType::kReply;
      h.payload_length = uint32_t(memory_.size());
      h.set(wire::ReplyBody{request_.get().return_wmd});
    } else {
      h.type = MsgType::kAck;
      h.set(wire::AckBody{request_.put().ack_wmd, request_.put().match_bits, request_.payload_length});
    }
    bench_.inject(h, tcp(2));
  }

  Bench bench_;
  bool settle_each_;
  bool get_, ack_;
  WorkerId server_;
  Submitter* submitter_;
  EqHandle eq_;
  MdHandle md_;
  Tx* tx_ = nullptr;
  wire::Header request_;
  Tally tally_;
  bool closed_ = false;      ///< the submitter
  bool close_seen_ = false;  ///< and a turn has passed since
  std::array<std::byte, 4096> memory_{};
};

/// Runs every order of `steps` in which each step of `after` comes behind its cause.
int every_order(std::vector<Step> steps, bool get, bool ack) {
  std::sort(steps.begin(), steps.end());
  int orders = 0;
  do {
    const auto at = [&](Step s) { return std::find(steps.begin(), steps.end(), s) - steps.begin(); };
    const auto response = at(Step::kResponse);
    if ((at(Step::kPayloadOk) < response && at(Step::kPayloadOk) < std::ssize(steps)) ||
        (at(Step::kPayloadLost) < response && at(Step::kPayloadLost) < std::ssize(steps)) ||
        (at(Step::kSecondResponse) < response && at(Step::kSecondResponse) < std::ssize(steps)))
      continue;
    for (unsigned workers : {1u, 2u})
      for (bool settle_each : {true, false}) {
        std::string order = std::to_string(workers) + " workers" + (settle_each ? ", settled:" : ":");
        for (Step s : steps) order += std::string(" ") + name(s) + ",";
        SCOPED_TRACE(order);
        Orders run(workers, settle_each, get, ack);
        std::vector<Step> done;
        for (Step s : steps) {
          run.run(s);
          done.push_back(s);
          if (settle_each) run.expect_diverted_if_ended(done);
        }
        const Tally tally = run.finish();
        if (run.closed()) {
          EXPECT_LE(tally.finals, 1);
          EXPECT_LE(tally.unlinks, 1);
          ++orders;
          if (::testing::Test::HasFailure()) return orders;
          continue;
        }
        EXPECT_EQ(tally.finals, 1);
        EXPECT_EQ(tally.unlinks, 1);
        EXPECT_TRUE(!get || tally.final_status != 0 || run.memory_filled()) << "a get succeeded without its data";
        EXPECT_EQ(tally.final_kind, get ? EventKind::kReply : ack ? EventKind::kAck : EventKind::kSend);
        ++orders;
        if (::testing::Test::HasFailure()) return orders;
      }
  } while (std::next_permutation(steps.begin(), steps.end()));
  return orders;
}

TEST(Orders, a_get_ends_once_whatever_happens) {
  int orders = 0;
  for (Step lease : {Step::kLeaseOk, Step::kLeaseFails})
    for (Step payload : {Step::kPayloadOk, Step::kPayloadLost})
      orders += every_order({lease, Step::kResponse, payload, Step::kUnlink, Step::kTimeout}, true, false);
  EXPECT_GT(orders, 900);
}

TEST(Orders, an_operation_whose_connection_closes_ends_once) {
  EXPECT_GT(
      every_order({Step::kLeaseOk, Step::kResponse, Step::kPayloadOk, Step::kUnlink, Step::kTimeout, Step::kConnClose},
                  true, false),
      1000);
  EXPECT_GT(
      every_order({Step::kLeaseOk, Step::kResponse, Step::kUnlink, Step::kTimeout, Step::kConnClose}, false, true),
      400);
}

// Method: the driver has the Tx until the GET is over. A REPLY message may come beside it: an earlier attempt of the
// GET went as a message.
TEST(Orders, a_get_with_a_sink_ends_once_whatever_happens) {
  int orders = 0;
  for (Step end : {Step::kGetDone, Step::kGetRefused, Step::kLeaseFails}) {
    orders += every_order({end, Step::kUnlink, Step::kTimeout, Step::kConnClose}, true, false);
    orders += every_order({end, Step::kUnlink, Step::kTimeout, Step::kSubmitterClose}, true, false);
    for (Step payload : {Step::kPayloadOk, Step::kPayloadLost})
      orders += every_order({end, Step::kResponse, payload, Step::kUnlink, Step::kTimeout}, true, false);
  }
  EXPECT_GT(orders, 1500);
}

TEST(Orders, a_submitter_that_closes_leaves_nothing_behind) {
  int orders = 0;
  for (Step lease : {Step::kLeaseOk, Step::kLeaseFails})
    for (Step payload : {Step::kPayloadOk, Step::kPayloadLost})
      orders += every_order({lease, Step::kResponse, payload, Step::kUnlink, Step::kTimeout, Step::kSubmitterClose},
                            true, false);
  orders +=
      every_order({Step::kLeaseOk, Step::kResponse, Step::kUnlink, Step::kTimeout, Step::kSubmitterClose}, false, true);
  EXPECT_GT(orders, 5000);
}

TEST(Orders, a_get_answered_twice_ends_once) {
  EXPECT_GT(every_order({Step::kLeaseOk, Step::kResponse, Step::kSecondResponse, Step::kPayloadOk, Step::kUnlink}, true,
                        false),
            100);
}

TEST(Orders, an_acknowledged_put_ends_once_whatever_happens) {
  int orders = 0;
  for (Step lease : {Step::kLeaseOk, Step::kLeaseFails})
    orders += every_order({lease, Step::kResponse, Step::kSecondResponse, Step::kUnlink, Step::kTimeout}, false, true);
  EXPECT_GT(orders, 400);
}

TEST(Orders, a_put_without_ack_ends_once_whatever_happens) {
  for (Step lease : {Step::kLeaseOk, Step::kLeaseFails})
    EXPECT_GT(every_order({lease, Step::kUnlink, Step::kTimeout}, false, false), 20);
}

// --- the passive side: a PUT into an MD of mine ---

enum class InStep { kPut, kPayloadOk, kPayloadLost, kUnlink, kAckLeaseOk, kAckLeaseFails, kConnClose };

wire::Header put_of_512() {
  wire::Header h;
  h.type = MsgType::kPut;
  h.dest_nid = tcp(1);
  h.src_nid = tcp(2);
  h.payload_length = 512;
  h.set(wire::PutBody{{1, 2}, 77, 5, 9, 0});
  return h;
}

void lose_connection(ScriptLnd& lnd) {
  while (!lnd.receiving.empty()) lnd.complete_rx(*lnd.receiving[0], -ECONNRESET);
  while (!lnd.sent.empty()) lnd.complete_tx(*lnd.sent[0], {-ECONNRESET, LndStatus::kRemoteDropped});
}

void incoming_put(const std::vector<InStep>& steps, unsigned workers, bool full_queue) {
  Bench bench({.workers = workers});
  const WorkerId server{uint16_t(workers - 1)};
  bench.add_peer(tcp(2), server);
  bench.open_portal(9, WorkerId{0});
  bench.publish();
  Submitter& submitter = bench.submitter(WorkerId{0});
  const EqHandle eq = *submitter.eq_open(2);
  std::array<std::byte, 512> memory{};
  Segment segment{memory.data(), memory.size()};
  const MdHandle md = *submitter.md_bind({.segments = {&segment, 1}, .options = kMdPut, .eq = eq});
  ASSERT_TRUE(submitter.me_attach(PortalIndex{9}, {}, 77, 0, MePosition::kTail, md));
  std::vector<MdHandle> fillers;
  if (full_queue)  // two kUnlink events lie in the queue: what comes next must wait for room
    for (int i = 0; i < 2; ++i) {
      fillers.push_back(*submitter.md_bind({.segments = {&segment, 1}, .eq = eq}));
      ASSERT_TRUE(submitter.unlink(fillers.back()));
    }
  bench.settle();
  ScriptLnd& lnd = bench.lnd(server);
  bool put_sent = false;
  for (InStep step : steps) {
    switch (step) {
      case InStep::kPut: {
        bench.inject(put_of_512(), tcp(2));
        put_sent = true;
        break;
      }
      case InStep::kPayloadOk:
        if (!lnd.receiving.empty()) lnd.complete_rx(*lnd.receiving[0], 0, 1);
        break;
      case InStep::kPayloadLost:
        if (!lnd.receiving.empty()) lnd.complete_rx(*lnd.receiving[0], -EPIPE);
        break;
      case InStep::kUnlink: (void)submitter.unlink(md); break;
      case InStep::kAckLeaseOk:
        if (!lnd.sent.empty()) lnd.complete_tx(*lnd.sent[0], {});
        break;
      case InStep::kConnClose: lose_connection(lnd); break;
      case InStep::kAckLeaseFails:
        if (!lnd.sent.empty()) lnd.complete_tx(*lnd.sent[0], {-EPIPE, LndStatus::kRemoteError});
        break;
    }
    for (unsigned i = 0; i < workers; ++i) bench.turn(WorkerId{uint16_t(i)});
  }
  int puts = 0, unlinks = 0;
  Event events[16];
  (void)submitter.unlink(md);
  for (int round = 0; round < 4; ++round) {
    for (unsigned i = 0, n = submitter.eq_poll(eq, events); i < n; ++i) {
      if (events[i].md != md) continue;
      if (events[i].kind == EventKind::kPut) ++puts;
      if (events[i].kind == EventKind::kUnlink) ++unlinks;
      EXPECT_FALSE(events[i].final) << "nothing was started here that could end";
    }
    for (int turns = 0; turns < 20; ++turns)
      for (unsigned i = 0; i < workers; ++i) bench.turn(WorkerId{uint16_t(i)});
    while (!lnd.receiving.empty()) lnd.complete_rx(*lnd.receiving[0], -ECANCELED);
    while (!lnd.sent.empty()) lnd.complete_tx(*lnd.sent[0], {});
    for (int turns = 0; turns < 20; ++turns)
      for (unsigned i = 0; i < workers; ++i) bench.turn(WorkerId{uint16_t(i)});
  }
  ASSERT_TRUE(put_sent);
  EXPECT_LE(puts, 1);
  const bool matched = bench.worker().counters[Drop::kNoMatch].get() == 0;
  EXPECT_EQ(puts, matched ? 1 : 0);
  EXPECT_EQ(unlinks, 1);
  EXPECT_EQ(submitter.mds_in_use(), 0u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST(Orders, an_incoming_put_ends_once_whatever_happens) {
  for (InStep payload : {InStep::kPayloadOk, InStep::kPayloadLost})
    for (InStep lease : {InStep::kAckLeaseOk, InStep::kAckLeaseFails}) {
      std::vector<InStep> steps{InStep::kPut, payload, InStep::kUnlink, lease, InStep::kConnClose};
      std::sort(steps.begin(), steps.end());
      do {
        for (unsigned workers : {1u, 2u, 3u})
          for (bool full_queue : {false, true}) {
            incoming_put(steps, workers, full_queue);
            if (HasFailure()) {
              std::string order;
              for (InStep s : steps) order += std::to_string(int(s)) + " ";
              FAIL() << "order " << order << "workers " << workers << " full queue " << full_queue;
            }
          }
      } while (std::next_permutation(steps.begin(), steps.end()));
    }
}

}  // namespace
}  // namespace ulnet::test
