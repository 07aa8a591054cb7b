// Question: which part of a worker does a flood of hostile RoCE packets take? Time of the provider for each packet of a
// flood, by kind, beside packets that are good. Reception by the port and the stack is not in it: perf/hostile-roce
// measures whole daemons. By hand: ninja perf/bench_roce_hostile, then build/perf/bench_roce_hostile
// --benchmark_enable_random_interleaving=true --benchmark_repetitions=9. Counter `turn`: ns of a turn that is full of
// such packets. Counter `waits`: the share of a worker that they take while their port has to wait.
#include <benchmark/benchmark.h>

#include <cstring>
#include <deque>

#include "lnd/rc/roce/qp.h"
#include "lnd/rc/roce/roce.h"
#include "perf/bench_pin.h"
#include "perf/hostile/hostile_roce.h"

namespace {

using namespace ulnet;
using namespace ulnet::rc::roce;
using perf::HostileKind;
using perf::HostileRoce;

constexpr unsigned kTurn = 64;           ///< packets
constexpr double kWaitingRate = 62'500;  ///< packets/s of a port that has to wait: kUnneededRate of the worker
constexpr uint32_t kMtu = 4096, kWriteBytes = 1 << 20, kMessageBytes = 160;
constexpr IpAddress kOwn = IpAddress::of_v4(0x0A000001), kPeer = IpAddress::of_v4(0x0A000002),
                    kStranger = IpAddress::of_v4(0x0A000009);
using Packet = std::vector<std::byte>;

/// Hands out packets that were made before. Heads of sent packets are copied, as into a buffer of a port.
class Queue final : public WorkerPort {
 public:
  unsigned take(std::span<Arrival> out, Instant) override {
    unsigned count = 0;
    for (; count < out.size() && next < packets.size(); ++count) {
      std::vector<std::byte>& packet = packets[next++];
      Arrival& arrival = out[count];
      arrival = {};
      std::memcpy(&arrival.source.bytes[12], &packet[12], 4);
      std::memcpy(&arrival.destination.bytes[12], &packet[16], 4);
      arrival.source.bytes[10] = arrival.source.bytes[11] = 0xFF;
      arrival.destination.bytes[10] = arrival.destination.bytes[11] = 0xFF;
      arrival.bytes = uint32_t(packet.size() - dpdk::kIpv4Bytes - dpdk::kUdpBytes);
      arrival.pieces[arrival.piece_count++] = packet;
    }
    return count;
  }
  void release(const Arrival&) override { ++taken; }
  void drop(const Arrival&, FrameDrop, Instant) override { ++dropped; }
  bool keep(const Arrival&) override { return false; }
  void let_go(void*) override {}
  unsigned room(Instant) override { return kTurn; }
  bool send(const Departure& packet, Instant) override {
    std::memcpy(sent.data(), packet.head.data(), packet.head.size());
    return true;
  }
  void flush(Instant) override {}
  bool pending() override { return next < packets.size(); }

  std::vector<Packet> packets;
  size_t next = 0;
  uint64_t taken = 0, dropped = 0;

 private:
  std::array<std::byte, 256> sent;
};

/// A node of two workers with a port, and one connection of a peer on worker 0.
class Node final : rc::QpUser {
 public:
  Node() {
    PortFacts facts;
    facts.name = "port0";
    facts.addresses = {kOwn};
    facts.mtu = 4200;
    facts.workers = 2;
    const uint8_t port = *provider_->add_port(std::move(facts));
    provider_->set_link(port, {true, {100'000, 100'000}});
    for (uint16_t i = 0; i < 2; ++i) provider_->attach(port, WorkerId{i}, queues[i]);
    (void)*control().listen({kOwn, 987});
    (void)control().region_add({1}, window_);
    connect();
  }
  ~Node() {
    control().disconnect(conn_, now);
    while (qp != nullptr) turn(0);
    control().destroy(conn_, now);
    for (uint16_t i = 0; i < 2; ++i) provider_->detach(0, WorkerId{i});
  }
  rc::Control& control() { return provider_->control(); }
  /// Hands `packets` to a worker.
  void give(unsigned worker, std::vector<Packet> packets) {
    queues[worker].packets = std::move(packets);
    queues[worker].next = 0;
  }
  /// Seconds that the worker needs for a turn.
  double turn(uint16_t worker) {
    rc::Worker& one = provider_->worker(WorkerId{worker});
    now += 50us;
    const auto begin = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(one.poll(kTurn, now));
    one.timers(now);
    one.flush(now);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  double control_turn() {
    std::array<rc::Event, 16> events;
    const auto begin = std::chrono::steady_clock::now();
    for (unsigned count = 16; count == events.size();) {
      count = control().poll(events, now);
      for (const rc::Event& event : std::span(events).first(count))
        if (event.kind == rc::EventKind::kRequest) control().reject(event.conn, {}, now);
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  /// Messages of the peer, in order.
  [[nodiscard]] std::vector<Packet> messages() {
    std::vector<Packet> out;
    const std::vector<std::byte> text(kMessageBytes);
    Psn psn = qp->responder.expected();
    for (unsigned i = 0; i < kTurn; ++i, psn = psn + 1)
      out.push_back(perf::roce_packet(flow(), bth(Opcode::kSendOnly, psn, true), text));
    return out;
  }
  /// The next packets of WRITEs of the peer, of 1 MiB each.
  [[nodiscard]] std::vector<Packet> writes() {
    std::vector<Packet> out;
    Psn psn = qp->responder.expected();
    for (unsigned i = 0; i < kTurn; ++i, psn = psn + 1) {
      const bool first = written_ == 0, last = written_ + kMtu == kWriteBytes;
      std::vector<std::byte> behind(first ? kRethBytes : 0);
      if (first) reth_encode({address(), key_.value, kWriteBytes}, behind.data());
      behind.resize(behind.size() + kMtu, std::byte(i));
      out.push_back(perf::roce_packet(flow(), bth(opcode_of({true, first, last}), psn, last), behind));
      written_ = last ? 0 : written_ + kMtu;
    }
    return out;
  }

  Queue queues[2];
  RoceQp* qp = nullptr;
  Instant now = kNever + 1s;

 private:
  void connect() {
    HostileRoce peer({.from = kPeer, .to = kOwn, .mtu = 5}, 3);
    give(0, {peer.make(HostileKind::kRequests)});
    turn(0);
    rc::Event event;
    while (control().poll({&event, 1}, now) == 0 || event.kind != rc::EventKind::kRequest) turn(0);
    conn_ = event.conn;
    const rc::QpNeeds needs{.receives = 128, .sends = 16, .buffer_bytes = 4096, .work = 64, .keys = 16, .pieces = 2};
    control().prepare(conn_, needs, now);
    while (control().poll({&event, 1}, now) == 0) continue;
    qp = &roce_qp(*event.qp);
    rc::Worker& one = provider_->worker(WorkerId{0});
    one.adopt(*qp, *this);
    for (uint32_t i = 0; i < needs.receives; ++i) one.receive(*qp, i);
    control().proceed(conn_, {}, now);
    give(0, messages());
    turn(0);
    while (control().poll({&event, 1}, now) == 0) turn(0);
    const Segment all{window_.data(), kWriteBytes, RegionId{1}};
    (void)one.key_open(*qp, key_, {&all, 1, 0, kWriteBytes});
  }
  [[nodiscard]] static FlowAddresses flow() { return {kPeer, kOwn, 0xC000, 0}; }
  [[nodiscard]] Bth bth(Opcode opcode, Psn psn, bool ack) const {
    return {.opcode = uint8_t(opcode), .qpn = qp->number, .ack_request = ack, .psn = psn};
  }
  [[nodiscard]] uint64_t address() const { return uint64_t(reinterpret_cast<uintptr_t>(window_.data())); }
  // rc::QpUser
  void received(rc::Qp& which, uint32_t buffer, uint32_t, Instant) override {
    provider_->worker(WorkerId{0}).receive(which, buffer);
  }
  void sent(rc::Qp&, uint64_t, Instant) override {}
  void key_closed(rc::Qp&, rc::RemoteKey&, Instant) override {}
  void broken(rc::Qp&, rc::Cause, Instant) override {}
  void drained(rc::Qp& which, Instant) override {
    provider_->worker(WorkerId{0}).release(which);
    qp = nullptr;
  }

  std::unique_ptr<RoceProvider> provider_ = *open_provider({.workers = 2, .seed = 1, .threads = false});
  std::vector<std::byte> window_ = std::vector<std::byte>(kWriteBytes);
  rc::ConnId conn_ = 0;
  rc::RemoteKey key_;
  uint32_t written_ = 0;
};

void report(benchmark::State& state, double seconds, uint64_t packets) {
  const double each = seconds / double(std::max<uint64_t>(packets, 1)) * 1e9;
  state.counters["ns_each"] = each;
  state.counters["turn"] = each * kTurn;
}

/// Packets that a user of the node needs.
void good(benchmark::State& state, bool is_write) {
  perf::pin(0);
  Node node;
  double sum = 0;
  uint64_t count = 0;
  for (auto turn : state) {
    node.give(0, is_write ? node.writes() : node.messages());
    const double seconds = node.turn(0);
    state.SetIterationTime(seconds);
    sum += seconds;
    count += kTurn;
  }
  if (node.qp->is_broken || node.queues[0].dropped > 0) state.SkipWithError("the packets were not good");
  report(state, sum, count);
}
void good_message(benchmark::State& state) {
  good(state, false);
}
void good_write_packet(benchmark::State& state) {
  good(state, true);
}

/// A turn that is full of hostile packets: state.range(0) is their kind, state.range(1) their payload.
void hostile(benchmark::State& state) {
  perf::pin(0);
  Node node;
  const auto kind = HostileKind(state.range(0));
  const bool as_peer = kind == HostileKind::kLive || kind == HostileKind::kDamaged;
  HostileRoce sender({.from = as_peer ? kPeer : kStranger,
                      .to = kOwn,
                      .qpn = node.qp->number,
                      .payload_bytes = uint32_t(state.range(1))},
                     7);
  const uint16_t worker = kind == HostileKind::kOtherWorker ? 1 : 0;
  std::vector<Packet> packets;
  for (unsigned i = 0; i < kTurn; ++i) packets.push_back(sender.make(kind));
  double sum = 0;
  uint64_t count = 0;
  for (auto turn : state) {
    node.give(worker, packets);
    const double seconds = node.turn(worker);
    state.SetIterationTime(seconds);
    sum += seconds;
    count += kTurn;
    benchmark::DoNotOptimize(node.control_turn());
  }
  if (node.qp->is_broken) state.SkipWithError("a packet has hit the live PSN");
  report(state, sum, count);
  state.counters["waits"] = kWaitingRate * sum / double(count);
  state.SetLabel(text_of(kind));
}

/// The thread of control, for REQs that the worker lets through.
void control_request(benchmark::State& state) {
  perf::pin(0);
  Node node;
  HostileRoce sender({.from = kStranger, .to = kOwn}, 7);
  double sum = 0;
  uint64_t count = 0;
  for (auto turn : state) {
    node.now += 1s;
    std::vector<Packet> packets;
    for (unsigned i = 0; i < kTurn; ++i) packets.push_back(sender.make(HostileKind::kRequests));
    node.give(0, std::move(packets));
    node.turn(0);
    const double seconds = node.control_turn();
    state.SetIterationTime(seconds);
    sum += seconds;
    count += kTurn;
    for (int i = 0; i < 8; ++i) node.turn(0);  // sends the answers
  }
  report(state, sum, count);
}

BENCHMARK(good_message)->UseManualTime();
BENCHMARK(good_write_packet)->UseManualTime();
BENCHMARK(hostile)->UseManualTime()->ArgsProduct({{0, 1, 2, 3, 4, 5}, {0}});
BENCHMARK(hostile)->UseManualTime()->ArgsProduct({{0, 1, 2, 5}, {4096}});
BENCHMARK(control_request)->UseManualTime();

}  // namespace

BENCHMARK_MAIN();
