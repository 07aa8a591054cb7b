// PUTs and GETs of which copies come (dataplane/stages/match.cc): each is delivered once, and the answer is repeated.
// The table alone is in requests_seen_test.cc; the senders of copies are in copies_test.cc.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/core/core_rig.h"

namespace ulnet::test {
namespace {

using wire::MsgType;

struct CopiesReceived : CoreTest {
  explicit CopiesReceived(const BenchOptions& options = {}) : CoreTest(options) {}
  void TearDown() override {
    send_all();
    (void)events();
    EXPECT_EQ(bench.not_at_rest(), "");
  }
  RxSlot& put(bool copy, uint32_t slot = 5, const Nid& from = tcp(2)) {
    return arrive(put_header(tcp(1), from, 9, 77, 100), request_handle(slot, 1, copy), from);
  }
  RxSlot& get(bool copy, uint32_t slot = 5, const Nid& from = tcp(2)) {
    return arrive(get_header(tcp(1), from, 9, 77, 100), request_handle(slot, 1, copy), from);
  }
  RxSlot& arrive(const wire::Header& header, const wire::WireHandle& handle, const Nid& from) {
    RxSlot& slot = bench.inject(with_handle(header, handle), from);
    bench.settle();
    return slot;
  }
  /// The same, and its payload is in place.
  void put_whole(bool copy, uint8_t fill, uint32_t slot = 5, const Nid& from = tcp(2)) {
    put(copy, slot, from);
    arrive_all(fill);
  }
  /// ACKs and REPLYs that have left since: "ACK of 60 to 2". Their leases end.
  std::string answers() {
    std::string text;
    bench.settle();
    while (!bench.lnd().sent.empty()) {
      Tx& tx = *bench.lnd().sent[0];
      const wire::Header& h = tx.header;
      text += text.empty() ? "" : ", ";
      if (h.type == MsgType::kAck)
        text += "ACK of " + std::to_string(h.ack().mlength);
      else
        text += "REPLY of " + std::to_string(tx.payload.length) + " at " + std::to_string(tx.payload.offset);
      text += " to " + std::to_string(h.dest_nid.addr[3]);
      bench.lnd().complete_tx(tx, {});
      bench.settle();
    }
    return text;
  }
};

// Goal: a request and a copy of it come in any order. The second one is discarded, and gets the ACK of the first.
TEST_F(CopiesReceived, a_put_is_delivered_once_and_acknowledged_again) {
  const MdHandle md = sink(160, kMdPut | kMdTruncate);
  uint32_t slot = 5;
  for (const bool copy_first : {false, true}) {
    const std::string bytes = copy_first ? "60" : "100";
    put_whole(copy_first, 1, slot);
    EXPECT_EQ(answers(), "ACK of " + bytes + " to 2");
    const size_t filled = size_t(std::count(memory.begin(), memory.end(), std::byte{1}));
    ASSERT_EQ(events().size(), 1u);
    for (const bool copy : {!copy_first, true}) {
      RxSlot& second = put(copy, slot, tcp(3));
      EXPECT_EQ(second.into.length, 0u);
      ASSERT_EQ(bench.lnd().sent.size(), 1u);
      const wire::WireHandle asked = request_handle(slot, 1, copy),
                             answered = bench.lnd().sent[0]->header.ack().dst_wmd;
      EXPECT_EQ(answered.object_cookie, asked.object_cookie);
      EXPECT_EQ(answered.interface_cookie, asked.interface_cookie);
      EXPECT_EQ(answers(), "ACK of " + bytes + " to 3") << "the way that it came";
      arrive_all(2);
    }
    EXPECT_EQ(size_t(std::count(memory.begin(), memory.end(), std::byte{1})), filled);
    EXPECT_TRUE(events().empty());
    ++slot;
  }
  EXPECT_EQ(drops(Drop::kCopy), 4u);
  EXPECT_EQ(bench.worker().counters[Stat::kDropLength].get(), 400u);
  (void)submitter->unlink(md);
  EXPECT_EQ(events().size(), 1u);
  put_whole(true, 3);
  EXPECT_EQ(answers(), "ACK of 100 to 2") << "the MD has ended since";
}

// Goal: a copy comes while the first is received, from which the memory is then taken back. But the first is
// complete, and the copy is not received.
TEST_F(CopiesReceived, a_copy_waits_for_the_end_of_the_first) {
  sink(4096);
  RxSlot& first = put(false);
  RxSlot& second = put(true, 5, tcp(3));
  EXPECT_EQ(bench.lnd().diverted.size(), 1u);
  EXPECT_EQ(drops(Drop::kCopy), 0u) << "it waits";
  EXPECT_EQ(answers(), "");
  bench.lnd().complete_rx(first, 0, 1);
  EXPECT_EQ(answers(), "ACK of 100 to 2, ACK of 100 to 3");
  EXPECT_EQ(second.into.length, 0u);
  EXPECT_EQ(drops(Drop::kCopy), 1u);
  arrive_all(2);
  EXPECT_EQ(events().size(), 1u);
  EXPECT_EQ(std::count(memory.begin(), memory.end(), std::byte{1}), 100);
}

// Goal: the first is broken off. The copy is received in its place: same memory, one event, one use of the match entry.
TEST_F(CopiesReceived, a_copy_is_received_in_place_of_the_first) {
  sink(4096, kMdPut, 77, 0, 2);
  put_whole(false, 1, 6);  // of another slot
  EXPECT_EQ(events().size(), 1u);
  RxSlot& first = put(false, 5, tcp(3));
  const uint32_t offset = first.into.offset;
  RxSlot& second = put(true, 5, tcp(3));
  RxSlot& third = put(true);
  bench.lnd().complete_rx(first, -ECANCELED);
  bench.settle();
  EXPECT_EQ(second.into.length, 0u) << "the newest copy counts";
  EXPECT_EQ(drops(Drop::kCopy), 1u);
  EXPECT_EQ(third.into.length, 100u);
  EXPECT_EQ(third.into.offset, offset);
  EXPECT_TRUE(events().empty());
  bench.lnd().complete_rx(third, 0, 2);
  EXPECT_EQ(answers(), "ACK of 100 to 2, ACK of 100 to 2");
  const std::vector<Event> all = events();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all[0].status, 0);
  EXPECT_EQ(all[0].sender, tcp(2));
  EXPECT_EQ(all[0].offset, offset);
  EXPECT_EQ(drops(Drop::kReceiveFailed), 0u);
  put_whole(true, 3, 5, tcp(3));
  EXPECT_EQ(answers(), "ACK of 100 to 3") << "and further copies are known";
  EXPECT_TRUE(events().empty());
}

// Goal: its sender has taken the first back before all of it was sent, and sends it again without a mark. The end of
// its connection may be known here later, or never.
TEST_F(CopiesReceived, a_put_that_was_taken_back_is_received_in_its_place) {
  sink(4096);
  RxSlot& first = put(false);
  bench.advance(kStuckMax);
  RxSlot& second = put(false, 5, tcp(3));
  EXPECT_EQ(bench.lnd().diverted, std::vector<RxSlot*>{&first});
  bench.lnd().complete_rx(first, -ECANCELED);
  bench.settle();
  bench.lnd().complete_rx(second, 0, 2);
  EXPECT_EQ(answers(), "ACK of 100 to 3");
  const std::vector<Event> all = events();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, 0);
  EXPECT_EQ(std::count(memory.begin(), memory.end(), std::byte{2}), 100);
  EXPECT_EQ(drops(Drop::kCopy), 0u);
}

// Goal: both attempts have no mark. The first waits for a message, because its peer NI holds many, and the second is
// matched before it. Then the first is the one that is dropped.
TEST_F(CopiesReceived, the_first_does_not_replace_the_second_if_it_waits) {
  sink(4096);
  uint32_t slot = 100;
  while (bench.lnd().held.empty()) put(false, slot++);
  bench.advance(1ms);
  put(false);
  EXPECT_EQ(bench.lnd().held.size(), 2u);
  bench.advance(1ms);
  RxSlot& second = put(false, 5, tcp(3));
  EXPECT_EQ(second.into.length, 100u);
  while (bench.lnd().receiving.size() > 1) {
    bench.lnd().complete_rx(*bench.lnd().receiving[bench.lnd().receiving[0] == &second ? 1 : 0], 0, 1);
    bench.settle();
    (void)answers();
  }
  EXPECT_TRUE(bench.lnd().held.empty());
  EXPECT_TRUE(bench.lnd().diverted.empty());
  EXPECT_EQ(drops(Drop::kCopy), 1u);
  bench.lnd().complete_rx(second, 0, 2);
  EXPECT_EQ(events().size(), slot - 100 + 1);
}

// Goal: the header of the first was read after that of the second, because its connection was held. A sender does not
// take a request back so soon, so the receive of the second goes on. The first is received only if the second fails.
TEST_F(CopiesReceived, an_attempt_that_comes_soon_after_another_waits) {
  for (const bool fails : {false, true}) {
    sink(4096, kMdPut, 77, 0, 1);
    const uint32_t number = fails ? 6 : 5;
    RxSlot& second = put(false, number, tcp(3));
    bench.advance(10ms);
    RxSlot& first = put(false, number);
    EXPECT_TRUE(bench.lnd().diverted.empty());
    EXPECT_EQ(first.into.length, 0u);
    if (fails)
      bench.lnd().complete_rx(second, -ECONNRESET);
    else
      bench.lnd().complete_rx(second, 0, 2);
    bench.settle();
    EXPECT_EQ(first.into.length, fails ? 100u : 0u);
    EXPECT_EQ(answers(), fails ? "" : "ACK of 100 to 3, ACK of 100 to 2");
    arrive_all(1);
    EXPECT_EQ(answers(), fails ? "ACK of 100 to 2" : "");
    const std::vector<Event> all = events();
    ASSERT_EQ(all.size(), 2u) << "with the end of the MD";
    EXPECT_EQ(all[0].status, 0);
    EXPECT_EQ(drops(Drop::kCopy), 1u);
  }
}

// Goal: while the first is given back, a copy comes, and then an older attempt. The copy is received.
TEST_F(CopiesReceived, the_attempt_that_was_sent_last_is_received) {
  sink(4096);
  RxSlot& first = put(false);
  bench.advance(kStuckMax);
  RxSlot& last = put(true, 5, tcp(3));
  RxSlot& older = put(false);
  bench.lnd().complete_rx(first, -ECANCELED);
  bench.settle();
  EXPECT_EQ(last.into.length, 100u);
  EXPECT_EQ(older.into.length, 0u);
  EXPECT_EQ(drops(Drop::kCopy), 1u);
  arrive_all(2);
  EXPECT_EQ(answers(), "ACK of 100 to 3");
  EXPECT_EQ(events().size(), 1u);
}

// Goal: a sender marks all that follow a copy. So what has no mark was sent before, and comes late.
TEST_F(CopiesReceived, the_first_does_not_replace_a_copy) {
  sink(4096);
  RxSlot& later = put(true, 5, tcp(3));
  RxSlot& first = put(false);
  EXPECT_TRUE(bench.lnd().diverted.empty());
  EXPECT_EQ(drops(Drop::kCopy), 1u);
  EXPECT_EQ(first.into.length, 0u);
  bench.lnd().complete_rx(later, 0, 2);
  EXPECT_EQ(answers(), "ACK of 100 to 3");
  EXPECT_EQ(events().size(), 1u);
  arrive_all(1);
}

// Goal: the copy that is received in place of the first stands still too, and so does the next.
TEST_F(CopiesReceived, copies_replace_each_other) {
  sink(4096);
  RxSlot* last = &put(false);
  for (const uint8_t from : {3, 2, 3}) {
    RxSlot& copy = put(true, 5, tcp(from));
    bench.lnd().complete_rx(*last, -ECANCELED);
    bench.settle();
    EXPECT_EQ(copy.into.length, 100u);
    last = &copy;
  }
  EXPECT_EQ(bench.lnd().diverted.size(), 3u);
  bench.lnd().complete_rx(*last, -ECONNRESET);
  const std::vector<Event> all = events();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, -ECONNRESET);
  EXPECT_EQ(drops(Drop::kReceiveFailed), 1u);
}

// Goal: the MD is unlinked while a copy waits. The copy is new then, and finds no entry.
TEST_F(CopiesReceived, a_copy_waits_while_the_md_is_unlinked) {
  const MdHandle md = sink(4096);
  RxSlot& first = put(false);
  put(true, 5, tcp(3));
  (void)submitter->unlink(md);
  bench.settle();
  bench.lnd().complete_rx(first, -ECANCELED);
  bench.settle();
  EXPECT_EQ(drops(Drop::kMdUnlinked), 1u);
  EXPECT_EQ(drops(Drop::kNoMatch), 1u);
  arrive_all();
}

// Goal: a request that has the handle of one that is received, but is not the same, does not take its memory.
TEST_F(CopiesReceived, another_request_is_not_received_in_place_of_the_first) {
  sink(4096);
  put(false);
  RxSlot& shorter = arrive(put_header(tcp(1), tcp(3), 9, 77, 60), request_handle(5, 1, true), tcp(3));
  RxSlot& other_bits = arrive(put_header(tcp(1), tcp(3), 9, 78, 100), request_handle(5, 1, true), tcp(3));
  EXPECT_EQ(shorter.into.length + other_bits.into.length, 0u);
  EXPECT_TRUE(bench.lnd().diverted.empty());
  EXPECT_EQ(drops(Drop::kCopy), 2u);
  arrive_all();
}

TEST_F(CopiesReceived, a_copy_is_delivered_if_the_first_was_lost_on_its_way) {
  sink(4096);
  bench.lnd().complete_rx(put(false), -ECONNRESET);
  std::vector<Event> all = events();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, -ECONNRESET);
  EXPECT_EQ(answers(), "");
  put_whole(true, 1);
  EXPECT_EQ(answers(), "ACK of 100 to 2");
  all = events();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, 0);
  EXPECT_EQ(drops(Drop::kCopy), 0u);
}

TEST_F(CopiesReceived, a_request_that_was_not_matched_is_new) {
  put_whole(false, 1);
  EXPECT_EQ(drops(Drop::kNoMatch), 1u);
  sink(50);
  put_whole(true, 1);
  EXPECT_EQ(drops(Drop::kTooLong), 1u);
  sink(4096, kMdPut, 77, 0, kInfinite, MePosition::kHead);
  put_whole(true, 1);
  EXPECT_EQ(answers(), "ACK of 100 to 2");
  EXPECT_EQ(events().size(), 1u);
}

TEST_F(CopiesReceived, a_put_that_gets_no_ack_gets_none_for_its_copies) {
  sink(4096, kMdPut | kMdAckDisable);
  put_whole(false, 1);
  EXPECT_EQ(events().size(), 1u);
  put_whole(true, 2);
  EXPECT_EQ(answers(), "");
  EXPECT_EQ(drops(Drop::kCopy), 1u);
  EXPECT_TRUE(events().empty());
}

TEST_F(CopiesReceived, an_ended_request_of_the_same_slot_gets_no_answer) {
  sink(4096);
  arrive(put_header(tcp(1), tcp(2), 9, 77, 100), request_handle(5, 8), tcp(2));
  arrive_all(1);
  EXPECT_EQ(answers(), "ACK of 100 to 2");
  arrive(put_header(tcp(1), tcp(2), 9, 77, 100), request_handle(5, 7, true), tcp(2));
  arrive_all(2);
  EXPECT_EQ(answers(), "");
  EXPECT_EQ(drops(Drop::kCopy), 1u);
  EXPECT_EQ(events().size(), 1u);
}

// Goal: the REPLY to a copy has the same bytes as the first, without another event, and the MD does not count it.
TEST_F(CopiesReceived, a_get_is_served_again_from_the_same_place) {
  for (const bool copy_first : {false, true}) {
    const MdHandle md = sink(1000, kMdGet, 77, 0, 3);
    const uint32_t slot = copy_first ? 10 : 20;
    for (uint32_t i = 0; i < 2; ++i) {
      get(copy_first, slot + i);
      EXPECT_EQ(answers(), "REPLY of 100 at " + std::to_string(100 * i) + " to 2");
    }
    EXPECT_EQ(events().size(), 2u);
    for (uint32_t i = 0; i < 2; ++i) {
      get(!copy_first, slot + i, tcp(3));
      get(true, slot + i);
      const std::string reply = "REPLY of 100 at " + std::to_string(100 * i);
      EXPECT_EQ(answers(), reply + " to 3, " + reply + " to 2");
    }
    EXPECT_TRUE(events().empty());
    EXPECT_EQ(drops(Drop::kCopy), 0u);
    get(false, slot + 2);
    EXPECT_EQ(answers(), "REPLY of 100 at 200 to 2") << "the third of three";
    EXPECT_EQ(events().size(), 2u) << "with the end of the MD";
    (void)md;
  }
}

TEST_F(CopiesReceived, a_get_is_not_served_again_without_its_md) {
  const MdHandle md = sink(1000, kMdGet);
  get(false);
  EXPECT_EQ(answers(), "REPLY of 100 at 0 to 2");
  (void)submitter->unlink(md);
  EXPECT_EQ(events().size(), 2u);
  get(true);
  EXPECT_EQ(drops(Drop::kCopy), 1u);
  sink(1000, kMdGet);
  get(true);
  EXPECT_EQ(drops(Drop::kCopy), 2u) << "another MD with the same bits";
  EXPECT_EQ(answers(), "");
  EXPECT_TRUE(events().empty());
}

// Goal: the application unlinks the MD of a GET while a repeated REPLY is on its way. The MD ends with it.
TEST_F(CopiesReceived, an_md_ends_after_its_repeated_reply) {
  const MdHandle md = sink(1000, kMdGet);
  get(false);
  EXPECT_EQ(answers(), "REPLY of 100 at 0 to 2");
  EXPECT_EQ(events().size(), 1u);
  get(true);
  (void)submitter->unlink(md);
  EXPECT_TRUE(events().empty());
  EXPECT_EQ(answers(), "REPLY of 100 at 0 to 2");
  const std::vector<Event> all = events();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].kind, EventKind::kUnlink);
}

// Goal: a GET over a driver with remote writes is answered again over the connection of the copy, or refused.
TEST_F(CopiesReceived, a_get_with_a_token_is_answered_or_refused) {
  const auto request = [&](bool copy, uint64_t token) {
    RxSlot& slot =
        bench.inject(with_handle(get_header(tcp(1), tcp(2), 9, 77, 100), request_handle(5, 1, copy)), tcp(2));
    slot.rdma_request = true;
    slot.token = token;
    bench.settle();
  };
  const MdHandle md = sink(1000, kMdGet);
  for (const uint64_t token : {1, 2}) {
    request(token == 2, token);
    ASSERT_EQ(bench.lnd().sent.size(), 1u);
    EXPECT_EQ(bench.lnd().sent[0]->token, token);
    EXPECT_EQ(answers(), "REPLY of 100 at 0 to 2");
  }
  (void)submitter->unlink(md);
  EXPECT_EQ(events().size(), 2u);
  request(true, 3);
  ASSERT_EQ(bench.lnd().answered.size(), 1u);
  EXPECT_EQ(bench.lnd().answered[0], (std::pair<uint64_t, int32_t>{3, -EALREADY}));
}

// Goal: the kernel's handles name a memory descriptor, and many requests have the same. Each of them is delivered.
TEST_F(CopiesReceived, requests_of_kernel_nodes_are_all_delivered) {
  sink(4096);
  for (int i = 0; i < 3; ++i) {
    const wire::WireHandle kernels{request_handle(5).interface_cookie & ~kCookieOfRequests,
                                   request_handle(5, 1, true).object_cookie};
    arrive(put_header(tcp(1), tcp(2), 9, 77, 100), kernels, tcp(2));
    arrive_all(1);
    EXPECT_EQ(answers(), "ACK of 100 to 2");
  }
  EXPECT_EQ(events().size(), 3u);
  for (int i = 0; i < 2; ++i) arrive(put_header(tcp(1), tcp(2), 9, 77, 100), wire::WireHandle{}, tcp(2));
  arrive_all(1);
  EXPECT_EQ(events().size(), 2u) << "PUTs without ACK";
}

// Goal: a request waits for an entry on a lazy portal, and comes again. Only the attempt that was sent last waits: the
// connections of the others may be dead.
TEST_F(CopiesReceived, a_request_waits_once_on_a_lazy_portal) {
  bench.open_portal(9, WorkerId{0}, true);
  bench.publish();
  put(false);
  put(false, 5, tcp(3));
  EXPECT_EQ(drops(Drop::kCopy), 1u);
  put(true);
  EXPECT_EQ(drops(Drop::kCopy), 2u);
  RxSlot& last = put(true, 5, tcp(3));
  RxSlot& late = put(false);
  EXPECT_EQ(drops(Drop::kCopy), 4u);
  EXPECT_EQ(bench.lnd().held, std::vector<RxSlot*>{&last});
  sink(4096);
  bench.settle();
  EXPECT_EQ(late.into.length, 0u);
  EXPECT_EQ(last.into.length, 100u);
  arrive_all(1);
  EXPECT_EQ(answers(), "ACK of 100 to 3");
  EXPECT_EQ(events().size(), 1u);
  EXPECT_EQ(drops(Drop::kCopy), 4u);
}

// Goal: the first may have been delivered before this node was started again.
TEST_F(CopiesReceived, a_copy_for_another_life_of_this_node_is_dropped) {
  sink(4096);
  for (const uint64_t life : {0, 0x4321}) {
    wire::WireHandle handle = request_handle(5, 1, true);
    handle.interface_cookie = (handle.interface_cookie & kCookieOwn) | life << kCookieLifeShift;
    arrive(put_header(tcp(1), tcp(2), 9, 77, 100), handle, tcp(2));
    arrive_all(1);
  }
  EXPECT_EQ(drops(Drop::kCopyUnknown), 2u);
  EXPECT_EQ(answers(), "");
  EXPECT_TRUE(events().empty());
}

struct CopiesAtTwoWorkers : CopiesReceived {
  CopiesAtTwoWorkers() : CopiesReceived({.workers = 2}) {
    bench.open_portal(9, WorkerId{0}, false, PortalMode::kPerWorker);
    bench.publish();
  }
};

// Goal: each worker of such a portal has an entry for its own requests only. So a copy might be delivered by a second
// worker.
TEST_F(CopiesAtTwoWorkers, a_portal_at_each_worker_takes_no_copies) {
  sink(4096);
  put_whole(false, 1, 5);
  put_whole(false, 1, 6);
  EXPECT_EQ(answers(), "ACK of 100 to 2, ACK of 100 to 2");
  put_whole(true, 2, 5);
  put_whole(true, 2, 7);
  EXPECT_EQ(answers(), "");
  EXPECT_EQ(drops(Drop::kCopyUnknown), 2u);
  EXPECT_EQ(events().size(), 2u);
}

struct CopiesOverLoopback : CopiesReceived {
  CopiesOverLoopback() : CopiesReceived({.interface_cookie = kCookieOfRequests | 55}) {}
};

TEST_F(CopiesOverLoopback, requests_of_this_node_are_not_remembered) {
  sink(4096);
  const Segment segment{memory.data() + 4096, 64};
  const MdHandle md = *submitter->md_bind({.segments = {&segment, 1}, .eq = eq});
  for (uint32_t generation = 1; generation <= 3; ++generation) {
    EXPECT_TRUE(submitter->put({.md = md, .target = {tcp(1), kLnetPid}, .portal = 9, .match_bits = 77}));
    EXPECT_EQ(events().size(), 2u);
    const wire::WireHandle used = request_handle(0, generation, true);
    EXPECT_EQ(bench.worker().requests_seen.look(used, bench.now).verdict, RequestsSeen::Verdict::kNew);
  }
}

}  // namespace
}  // namespace ulnet::test
