// A worker that sends requests to a peer that takes copies of them.
#pragma once
#include "tests/unit/core/core_rig.h"

namespace ulnet::test {

/// Peer NIs 2, 3 and 4 are rails of a peer that takes copies. A request waits for its answer over one of them.
struct CopiesSent : CoreTest {
  explicit CopiesSent(const BenchOptions& options = {}) : CoreTest(options) {
    bench.add_peer(tcp(4));
    for (const Nid& rail : {tcp(2), tcp(3)}) bench.join(tcp(2), rail);
    bench.set_knows_copies(tcp(2));
    bench.node.fast_detection = true;
    bench.publish();
    md = bind();
  }
  MdHandle bind(uint32_t options = 0) {
    const Segment segment{memory.data(), 64};
    return *submitter->md_bind({.segments = {&segment, 1}, .options = options, .eq = eq});
  }
  void third_rail() {
    bench.join(tcp(2), tcp(4));
    bench.publish();
  }
  void set_health(const Nid& nid, uint16_t health) {
    bench.set_health(nid, health);
    bench.publish();
  }
  [[nodiscard]] PutSpec spec() const { return {.md = md, .target = {tcp(2), kLnetPid}, .portal = 5}; }
  /// A request leaves; its Tx is with the driver.
  Tx& send(const PutSpec& what, bool is_get = false) {
    EXPECT_TRUE(is_get ? submitter->get(what) : submitter->put(what));
    bench.settle();
    first = bench.lnd().sent.at(0)->header;
    hop = bench.lnd().sent[0]->next_hop;
    return *bench.lnd().sent[0];
  }
  void await(const PutSpec& what, bool is_get = false) { end_lease(send(what, is_get), {}); }
  void end_lease(Tx& tx, Completion how) {
    bench.lnd().complete_tx(tx, how);
    bench.settle();
  }
  /// Time passes in small steps, until the next copy leaves or `most` is over.
  bool copy_within(Duration most) {
    for (const Instant end = bench.now + most; bench.now < end; bench.advance(10ms)) {
      bench.settle();
      if (!bench.lnd().sent.empty()) return true;
    }
    return false;
  }
  /// The newest lease.
  Tx& copy() { return *bench.lnd().sent.at(0); }
  static wire::WireHandle handle_of(const wire::Header& h) {
    return h.type == wire::MsgType::kGet ? h.get().return_wmd : h.put().ack_wmd;
  }
  static bool marked(const Tx& tx) { return is_copy(handle_of(tx.header)); }
  [[nodiscard]] Nid other_rail() const { return hop == tcp(2) ? tcp(3) : tcp(2); }
  /// The peer answers a request.
  RxSlot& answer(const wire::Header& request, const Nid& from) {
    wire::Header h = request;
    become_response(h, request.type == wire::MsgType::kGet ? wire::MsgType::kReply : wire::MsgType::kAck);
    if (request.type == wire::MsgType::kGet) {
      h.payload_length = 64;
      h.set(wire::ReplyBody{handle_of(request)});
    } else {
      h.set(wire::AckBody{handle_of(request), request.put().match_bits, 64});
    }
    RxSlot& slot = bench.inject(h, from);
    bench.settle();
    return slot;
  }
  /// The REPLY to the copy of a GET comes over the other rail, filled with `fill`, and ends the operation.
  void expect_answer_to_copy(uint8_t fill) {
    const wire::Header second = copy().header;
    end_lease(copy(), {});
    bench.lnd().complete_rx(answer(second, other_rail()), 0, fill);
    EXPECT_EQ(ended(), 0);
    expect_rest();
  }
  /// The status of the only event; 1 if there is none.
  int32_t ended() {
    const std::vector<Event> all = events();
    EXPECT_LE(all.size(), 1u);
    return all.empty() ? 1 : all[0].status;
  }
  /// No copy leaves, and the deadline ends the request.
  void expect_no_copy() {
    EXPECT_FALSE(copy_within(160s));
    EXPECT_EQ(ended(), -ETIMEDOUT);
    EXPECT_EQ(bench.worker().counters[Stat::kResendCount].get(), 0u);
    expect_rest();
  }
  void expect_rest() { EXPECT_EQ(bench.not_at_rest(), ""); }

  MdHandle md;
  wire::Header first;  ///< of the newest request, as it first left
  Nid hop;             ///< over which it first left
};

}  // namespace ulnet::test
