// Counts the cost of a PUT in the core. `put_count N [ack]` runs N bursts of 16 PUTs of 64 bytes, from submit to event,
// on one worker over a driver without a wire. The difference between two runs under callgrind gives the number of
// instructions per PUT (perf/notebook.md). Not a test: built by name.
#include <cstdlib>
#include <cstring>

#include "tests/unit/core/bench.h"

namespace ulnet::test {
namespace {

constexpr unsigned kBurst = 16;

/// Ends all sends in the next poll. With `ack`, the ACKs follow in the poll after that.
class CountLnd final : public Lnd {
 public:
  CountLnd(LndCore& core, bool ack) : core_(core), ack_(ack) {}
  void submit(Tx& tx, Instant) override { sent_.at(sent_count_++) = &tx; }
  void resume(RxSlot&, Instant) override {}
  void release(RxSlot&, Instant) override {}
  void divert(RxSlot&, Instant) override {}
  void cancel(Tx&, bool, Instant) override {}
  unsigned poll(unsigned, Instant now) override {
    const unsigned acks = std::exchange(ack_count_, 0);
    for (unsigned i = 0; i < acks; ++i) {
      if (core_.rx_header(slots_[i], now) != RxVerdict::kReceive) std::abort();
      core_.rx_done(slots_[i], {}, now);
    }
    const unsigned sent = std::exchange(sent_count_, 0);
    for (unsigned i = 0; i < sent; ++i) {
      if (ack_) acknowledge(*sent_[i]);
      core_.tx_done(*sent_[i], {}, now);
    }
    return acks + sent;
  }
  unsigned timers(Instant) override { return 0; }
  void flush(Instant) override {}
  void from_control(const LndMsg&, Instant) override {}
  Instant next_deadline() override { return kForever; }
  bool pending() override { return sent_count_ + ack_count_ > 0; }
  unsigned wait_fds(std::span<int>) override { return 0; }
  bool idle() const override { return sent_count_ + ack_count_ == 0; }

 private:
  void acknowledge(const Tx& tx) {
    wire::Header ack;
    ack.type = wire::MsgType::kAck;
    ack.dest_nid = tx.header.src_nid;
    ack.src_nid = tx.header.dest_nid;
    ack.set(wire::AckBody{tx.header.put().ack_wmd, tx.header.put().match_bits, tx.header.payload_length});
    slots_[ack_count_++].begin(ack, tx.ni, tx.ni_slice, tx.peer_ni, tx.peer, tx.next_hop);
  }
  LndCore& core_;
  const bool ack_;
  std::array<Tx*, kBurst> sent_{};
  std::array<RxSlot, kBurst> slots_;
  unsigned sent_count_ = 0, ack_count_ = 0;
};

bool count(long bursts, bool ack) {
  Bench bench({.peer_credits = kBurst});
  bench.add_peer(tcp(2));
  bench.publish();
  Submitter& submitter = bench.submitter(WorkerId{0});
  const EqHandle eq = *submitter.eq_open(64);
  std::array<std::byte, 64> memory{};
  const Segment segment{memory.data(), 64};
  const MdHandle md = *submitter.md_bind({.segments = {&segment, 1}, .eq = eq});
  bench.settle();
  bench.worker().lnds[1] = std::make_unique<CountLnd>(bench.calls(), ack);
  const PutSpec put{.md = md, .target = {tcp(2), kLnetPid}, .portal = 9, .match_bits = 5, .ack = ack};
  std::array<Event, kBurst> events;
  for (long i = 0; i < bursts; ++i) {
    for (unsigned j = 0; j < kBurst; ++j)
      if (!submitter.put(put)) return false;
    for (unsigned ended = 0; ended < kBurst;) {
      bench.turn(WorkerId{0});
      const unsigned count = submitter.eq_poll(eq, events);
      for (unsigned j = 0; j < count; ++j)
        if (events[j].status != 0 || !events[j].final) return false;
      ended += count;
    }
  }
  return true;
}

}  // namespace
}  // namespace ulnet::test

int main(int argc, char** argv) {
  const bool ack = argc > 2 && std::strcmp(argv[2], "ack") == 0;
  return ulnet::test::count(argc > 1 ? std::atol(argv[1]) : 1000, ack) ? 0 : 1;
}
