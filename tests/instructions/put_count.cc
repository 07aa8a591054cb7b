// Counts the cost of a PUT in the core. `put_count N [ack|receive]` runs N bursts of 16 PUTs of 64 bytes on one worker
// over a driver without a wire. The worker sends them, from submit to event, or receives and acknowledges them. The
// difference between two runs under callgrind is the number of instructions (instructions_test.py).
#include <cstdlib>
#include <cstring>

#include "tests/unit/core/bench.h"

namespace ulnet::test {
namespace {

constexpr unsigned kBurst = 16;

/// A driver that keeps what it gets for its next poll, and has nothing else to do.
class BurstLnd : public Lnd {
 public:
  explicit BurstLnd(LndCore& core) : core_(core) {}
  void submit(Tx& tx, Instant) final { sent_.at(sent_count_++) = &tx; }
  void resume(RxSlot&, Instant) final {}
  void release(RxSlot&, Instant) final {}
  void divert(RxSlot&, Instant) final {}
  void cancel(Tx&, bool, Instant) final {}
  unsigned timers(Instant) final { return 0; }
  void flush(Instant) final {}
  void from_control(const LndMsg&, Instant) final {}
  Instant next_deadline() final { return kForever; }
  bool pending() final { return sent_count_ + coming_count_ > 0; }
  unsigned wait_fds(std::span<int>) final { return 0; }
  bool idle() const final { return sent_count_ + coming_count_ == 0; }

 protected:
  /// The first `count` slots come.
  void receive(unsigned count, Instant now) {
    for (unsigned i = 0; i < count; ++i) {
      if (core_.rx_header(slots_[i], now) != RxVerdict::kReceive) std::abort();
      core_.rx_done(slots_[i], {}, now);
    }
  }
  LndCore& core_;
  std::array<Tx*, kBurst> sent_{};
  std::array<RxSlot, kBurst> slots_;
  unsigned sent_count_ = 0, coming_count_ = 0;
};

/// Ends all sends in the next poll. With `ack`, the ACKs follow in the poll after that.
class CountLnd final : public BurstLnd {
 public:
  CountLnd(LndCore& core, bool ack) : BurstLnd(core), ack_(ack) {}
  unsigned poll(unsigned, Instant now) override {
    const unsigned acks = std::exchange(coming_count_, 0);
    receive(acks, now);
    const unsigned sent = std::exchange(sent_count_, 0);
    for (unsigned i = 0; i < sent; ++i) {
      if (ack_) acknowledge(*sent_[i]);
      core_.tx_done(*sent_[i], {}, now);
    }
    return acks + sent;
  }

 private:
  void acknowledge(const Tx& tx) {
    wire::Header ack;
    ack.type = wire::MsgType::kAck;
    ack.dest_nid = tx.header.src_nid;
    ack.src_nid = tx.header.dest_nid;
    ack.set(wire::AckBody{tx.header.put().ack_wmd, tx.header.put().match_bits, tx.header.payload_length});
    slots_[coming_count_++].begin(ack, tx.ni, tx.ni_slice, tx.peer_ni, tx.peer, tx.next_hop);
  }
  const bool ack_;
};

/// Brings bursts of PUTs of another ulnet node. Each requests an ACK.
class BringLnd final : public BurstLnd {
 public:
  BringLnd(LndCore& core, const NiView& ni, PeerSlice& peer) : BurstLnd(core), ni_(ni), peer_(peer) {}
  /// Not inline, so that a profile shows its share.
  [[gnu::noinline]] void bring() {
    ++generation_;
    for (RxSlot& slot : slots_) {
      const wire::Header put = put_header(ni_.nid, tcp(2), 9, 5, 64);
      slot.begin(with_handle(put, request_handle(coming_count_++, generation_)), ni_.id, ni_.slices[0], peer_.id,
                 &peer_, tcp(2));
    }
  }
  unsigned poll(unsigned, Instant now) override {
    const unsigned sent = std::exchange(sent_count_, 0), coming = std::exchange(coming_count_, 0);
    for (unsigned i = 0; i < sent; ++i) core_.tx_done(*sent_[i], {}, now);
    receive(coming, now);
    return sent + coming;
  }

 private:
  const NiView& ni_;
  PeerSlice& peer_;
  uint32_t generation_ = 0;
};

/// Turns the worker until a burst of messages has ended well, each with one event. `own`: of this node.
bool burst_ends(Bench& bench, Submitter& submitter, EqHandle eq, bool own) {
  std::array<Event, kBurst> events;
  for (unsigned ended = 0; ended < kBurst;) {
    bench.turn(WorkerId{0});
    const unsigned count = submitter.eq_poll(eq, events);
    for (unsigned j = 0; j < count; ++j)
      if (events[j].status != 0 || events[j].final != own) return false;
    ended += count;
  }
  return true;
}

/// A bench with one peer, and an MD of 64 bytes.
struct Counted {
  Bench bench{{.peer_credits = kBurst}};
  Submitter* submitter = nullptr;
  EqHandle eq;
  MdHandle md;
  std::array<std::byte, 64> memory{};

  explicit Counted(uint32_t md_options) {
    bench.add_peer(tcp(2));
    bench.open_portal(9, WorkerId{0});
    bench.publish();
    submitter = &bench.submitter(WorkerId{0});
    eq = *submitter->eq_open(64);
    const Segment segment{memory.data(), 64};
    md = *submitter->md_bind({.segments = {&segment, 1}, .options = md_options, .eq = eq});
    bench.settle();
  }
};

bool count_sent(long bursts, bool ack) {
  Counted its(0);
  its.bench.worker().lnds[1] = std::make_unique<CountLnd>(its.bench.calls(), ack);
  const PutSpec put{.md = its.md, .target = {tcp(2), kLnetPid}, .portal = 9, .match_bits = 5, .ack = ack};
  for (long i = 0; i < bursts; ++i) {
    for (unsigned j = 0; j < kBurst; ++j)
      if (!its.submitter->put(put)) return false;
    if (!burst_ends(its.bench, *its.submitter, its.eq, true)) return false;
  }
  return true;
}

bool count_received(long bursts) {
  Counted its(kMdPut | kMdManageRemote);
  if (!its.submitter->me_attach(PortalIndex{9}, {}, 5, 0, MePosition::kTail, its.md)) return false;
  its.bench.settle();
  Worker& worker = its.bench.worker();
  auto lnd = std::make_unique<BringLnd>(its.bench.calls(), *worker.view->local->ni(tcp(1)), its.bench.slice(tcp(2)));
  BringLnd& brings = *lnd;
  worker.lnds[1] = std::move(lnd);
  for (long i = 0; i < bursts; ++i) {
    brings.bring();
    if (!burst_ends(its.bench, *its.submitter, its.eq, false)) return false;
    its.bench.settle();  // the ACKs leave
  }
  return true;
}

}  // namespace
}  // namespace ulnet::test

int main(int argc, char** argv) {
  const auto is = [&](const char* mode) { return argc > 2 && std::strcmp(argv[2], mode) == 0; };
  const long bursts = argc > 1 ? std::atol(argv[1]) : 1000;
  const bool good = is("receive") ? ulnet::test::count_received(bursts) : ulnet::test::count_sent(bursts, is("ack"));
  return good ? 0 : 1;
}
