// Counts the cost of a PUT in the core. `put_count N [ack|receive]` runs N bursts of 16 PUTs of 64 bytes on one worker
// over a driver without a wire. The worker sends them, from submit to event, or receives and acknowledges them. The
// difference between two runs under callgrind gives the number of instructions per PUT (perf/notebook.md). Not a test:
// built by name.
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

/// Brings bursts of PUTs of another ulnet node. Each requests an ACK.
class BringLnd final : public Lnd {
 public:
  BringLnd(LndCore& core, const NiView& ni, PeerSlice& peer) : core_(core), ni_(ni), peer_(peer) {}
  void bring() { coming_ = true; }
  void submit(Tx& tx, Instant) override { sent_.at(sent_count_++) = &tx; }
  void resume(RxSlot&, Instant) override {}
  void release(RxSlot&, Instant) override {}
  void divert(RxSlot&, Instant) override {}
  void cancel(Tx&, bool, Instant) override {}
  unsigned poll(unsigned, Instant now) override {
    const unsigned sent = std::exchange(sent_count_, 0);
    for (unsigned i = 0; i < sent; ++i) core_.tx_done(*sent_[i], {}, now);
    if (!std::exchange(coming_, false)) return sent;
    ++generation_;
    for (unsigned i = 0; i < kBurst; ++i) {
      const wire::Header put = put_header(ni_.nid, tcp(2), 9, 5, 64);
      slots_[i].begin(with_handle(put, request_handle(i, generation_)), ni_.id, ni_.slices[0], peer_.id, &peer_,
                      tcp(2));
      if (core_.rx_header(slots_[i], now) != RxVerdict::kReceive) std::abort();
      core_.rx_done(slots_[i], {}, now);
    }
    return sent + kBurst;
  }
  unsigned timers(Instant) override { return 0; }
  void flush(Instant) override {}
  void from_control(const LndMsg&, Instant) override {}
  Instant next_deadline() override { return kForever; }
  bool pending() override { return sent_count_ > 0 || coming_; }
  unsigned wait_fds(std::span<int>) override { return 0; }
  bool idle() const override { return sent_count_ == 0; }

 private:
  LndCore& core_;
  const NiView& ni_;
  PeerSlice& peer_;
  std::array<Tx*, kBurst> sent_{};
  std::array<RxSlot, kBurst> slots_;
  unsigned sent_count_ = 0;
  uint32_t generation_ = 0;
  bool coming_ = false;
};

/// Turns the worker until a burst of messages has ended well.
bool burst_ends(Bench& bench, Submitter& submitter, EqHandle eq) {
  std::array<Event, kBurst> events;
  for (unsigned ended = 0; ended < kBurst;) {
    bench.turn(WorkerId{0});
    const unsigned count = submitter.eq_poll(eq, events);
    for (unsigned j = 0; j < count; ++j)
      if (events[j].status != 0) return false;
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
    if (!burst_ends(its.bench, *its.submitter, its.eq)) return false;
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
    if (!burst_ends(its.bench, *its.submitter, its.eq)) return false;
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
