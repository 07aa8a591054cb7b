// Counts the cost of a message in the core. `message_count MODE N` runs N bursts of 16 messages of 64 bytes on one
// worker over a driver without a wire. The worker sends PUTs or GETs, from submit to event, receives and answers them,
// or forwards them. The difference between two runs under callgrind is the number of instructions
// (instructions_test.py).
#include <cstdlib>
#include <string_view>

#include "tests/unit/core/bench.h"

namespace ulnet::test {
namespace {

constexpr unsigned kBurst = 16;
constexpr uint32_t kBytes = 64;  // of each payload

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
  /// The first `count` slots come; payloads are zero.
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

/// Ends all sends in the next poll. With `answer`, the ACKs or REPLYs follow in the poll after that.
class CountLnd final : public BurstLnd {
 public:
  CountLnd(LndCore& core, bool answer) : BurstLnd(core), answer_(answer) {}
  unsigned poll(unsigned, Instant now) override {
    const unsigned answers = std::exchange(coming_count_, 0);
    receive(answers, now);
    const unsigned sent = std::exchange(sent_count_, 0);
    for (unsigned i = 0; i < sent; ++i) {
      if (answer_) answer(*sent_[i]);
      core_.tx_done(*sent_[i], {}, now);
    }
    return answers + sent;
  }

 private:
  void answer(const Tx& tx) {
    const wire::Header& request = tx.header;
    wire::Header h;
    h.dest_nid = request.src_nid;
    h.src_nid = request.dest_nid;
    if (request.type == wire::MsgType::kGet) {
      h.type = wire::MsgType::kReply;
      h.payload_length = request.get().sink_length;
      h.set(wire::ReplyBody{request.get().return_wmd});
    } else {
      h.type = wire::MsgType::kAck;
      h.set(wire::AckBody{request.put().ack_wmd, request.put().match_bits, request.payload_length});
    }
    slots_[coming_count_++].begin(h, tx.ni, tx.ni_slice, tx.peer_ni, tx.peer, tx.next_hop);
  }
  const bool answer_;
};

/// Brings bursts of requests of another ulnet node. PUTs request an ACK.
class BringLnd final : public BurstLnd {
 public:
  BringLnd(LndCore& core, const NiView& ni, PeerSlice& peer, const wire::Header& request)
      : BurstLnd(core), ni_(ni), peer_(peer), request_(request) {}
  /// Not inline, so that a profile shows its share.
  [[gnu::noinline]] void bring() {
    ++generation_;
    for (RxSlot& slot : slots_)
      slot.begin(with_handle(request_, request_handle(coming_count_++, generation_)), ni_.id, ni_.slices[0], peer_.id,
                 &peer_, request_.src_nid);
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
  const wire::Header request_;
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

/// A bench with one peer, and an MD.
struct Counted {
  Bench bench{{.peer_credits = kBurst}};
  Submitter* submitter = nullptr;
  EqHandle eq;
  MdHandle md;
  std::array<std::byte, kBytes> memory{};

  explicit Counted(uint32_t md_options) {
    bench.add_peer(tcp(2));
    bench.open_portal(9, WorkerId{0});
    bench.publish();
    submitter = &bench.submitter(WorkerId{0});
    eq = *submitter->eq_open(64);
    const Segment segment{memory.data(), kBytes};
    md = *submitter->md_bind({.segments = {&segment, 1}, .options = md_options, .eq = eq});
    bench.settle();
  }
};

enum class Sent { kPut, kPutAcknowledged, kGet };

bool count_sent(long bursts, Sent kind) {
  Counted its(0);
  its.bench.worker().lnds[1] = std::make_unique<CountLnd>(its.bench.calls(), kind != Sent::kPut);
  const PutSpec spec{
      .md = its.md, .target = {tcp(2), kLnetPid}, .portal = 9, .match_bits = 5, .ack = kind != Sent::kPut};
  const auto send = [&] { return bool(kind == Sent::kGet ? its.submitter->get(spec) : its.submitter->put(spec)); };
  for (long i = 0; i < bursts; ++i) {
    for (unsigned j = 0; j < kBurst; ++j)
      if (!send()) return false;
    if (!burst_ends(its.bench, *its.submitter, its.eq, true)) return false;
  }
  return true;
}

/// A driver of the worker that brings `request` over the NI `at` from here on.
BringLnd& brings(Bench& bench, const Nid& at, const wire::Header& request) {
  Worker& worker = bench.worker();
  auto lnd = std::make_unique<BringLnd>(bench.calls(), *worker.view->local->ni(at), bench.slice(tcp(2)), request);
  BringLnd& it = *lnd;
  worker.lnds[1] = std::move(lnd);
  return it;
}

bool count_received(long bursts, const wire::Header& request) {
  Counted its(kMdPut | kMdGet | kMdManageRemote);
  if (!its.submitter->me_attach(PortalIndex{9}, {}, 5, 0, MePosition::kTail, its.md)) return false;
  its.bench.settle();
  BringLnd& lnd = brings(its.bench, tcp(1), request);
  for (long i = 0; i < bursts; ++i) {
    lnd.bring();
    if (!burst_ends(its.bench, *its.submitter, its.eq, false)) return false;
    its.bench.settle();  // the answers leave
  }
  return true;
}

/// From a peer on one net to a peer on another.
bool count_forwarded(long bursts) {
  Bench bench({.peer_credits = kBurst, .rtr_credits = kBurst, .routing = RoutingState::kEnabled});
  bench.add_peer(tcp(2));
  bench.add_peer(tcp1(9));
  bench.publish();
  // No next hop may hold more than half of a pool.
  bench.add_router_buffers(WorkerId{0}, {2 * kBurst, 2 * kBurst, 2 * kBurst});
  bench.settle();
  BringLnd& lnd = brings(bench, tcp(1), put_header(tcp1(9), tcp(2), 9, 5, kBytes));
  const Counter& count = bench.worker().counters[Stat::kRouteCount];
  for (long i = 0; i < bursts; ++i) {
    lnd.bring();
    bench.settle();
    if (count.get() != uint64_t(i + 1) * kBurst) return false;
  }
  return true;
}

bool count(std::string_view mode, long bursts) {
  if (mode == "put_sent") return count_sent(bursts, Sent::kPut);
  if (mode == "put_acknowledged") return count_sent(bursts, Sent::kPutAcknowledged);
  if (mode == "put_received") return count_received(bursts, put_header(tcp(1), tcp(2), 9, 5, kBytes));
  if (mode == "get_sent") return count_sent(bursts, Sent::kGet);
  if (mode == "get_received") return count_received(bursts, get_header(tcp(1), tcp(2), 9, 5, kBytes));
  if (mode == "forwarded") return count_forwarded(bursts);
  return false;
}

}  // namespace
}  // namespace ulnet::test

int main(int argc, char** argv) {
  return argc == 3 && ulnet::test::count(argv[1], std::atol(argv[2])) ? 0 : 1;
}
