#include "tests/cluster/roce_net.h"

#include <algorithm>
#include <new>

#include "dataplane/wire/bytes.h"
#include "lnd/net/packet/udp.h"
#include "lnd/rc/roce/proto/headers.h"
#include "tests/payload_bytes.h"

namespace ulnet::test {
namespace {

using rc::IpAddress;
using rc::roce::Arrival;
using rc::roce::Bytes;
using rc::roce::Departure;
using rc::roce::Loan;

constexpr LinkSpeed kSpeed{100'000, 100'000};

size_t ip_bytes_of(const IpAddress& address) {
  return address.is_v4() ? dpdk::kIpv4Bytes : dpdk::kIpv6Bytes;
}

}  // namespace

/// One worker's queue of a port. Packets that were taken are on the heap until they are given back.
class RoceNode::Queue final : public rc::roce::WorkerPort {
 public:
  Queue(RoceNet& net, IpAddress address) : net_(net), address_(address) {}
  unsigned take(std::span<Arrival> out, Instant) override {
    unsigned count = 0;
    for (; count < out.size() && !waiting.empty(); waiting.pop_front()) {
      auto* packet = new RoceNet::Flight(std::move(waiting.front()));
      ++net_.packets_out;
      Arrival& arrival = out[count++];
      arrival = {};
      arrival.source = packet->from;
      arrival.destination = packet->to;
      const size_t lead = ip_bytes_of(packet->from);
      const auto second = uint8_t(packet->bytes[1]);
      arrival.traffic_class = packet->from.is_v4() ? second : uint8_t(uint8_t(packet->bytes[0]) << 4 | second >> 4);
      arrival.bytes = uint32_t(packet->bytes.size() - lead - dpdk::kUdpBytes);
      arrival.packet = packet;
      cut(arrival, packet->bytes);
    }
    return count;
  }
  void release(const Arrival& arrival) override {
    delete static_cast<RoceNet::Flight*>(arrival.packet);
    --net_.packets_out;
  }
  void drop(const Arrival& arrival, dpdk::FrameDrop reason, Instant) override {
    ++net_.drops[reason];
    release(arrival);
  }
  bool keep(const Arrival&) override {
    if (net_.rng.one_in(net_.rules.keep_none_one_in)) return false;
    ++net_.kept;
    return true;
  }
  void let_go(void* packet) override {
    auto* flight = static_cast<RoceNet::Flight*>(packet);
    std::ranges::fill(flight->bytes, std::byte{0xDD});  // nobody may read it any more
    delete flight;
    --net_.packets_out;
    --net_.kept;
  }
  unsigned room(Instant) override { return net_.rules.queue_room - sent_; }
  bool send(const Departure& packet, Instant) override {
    EXPECT_LT(sent_, net_.rules.queue_room);
    if (net_.rng.one_in(net_.rules.no_buffer_one_in)) return false;
    std::vector<std::byte> bytes = bytes_of(packet);
    if (packet.loan != nullptr && packet.bytes > 0 && net_.rng.one_in(net_.rules.lend_one_in)) lend(packet);
    EXPECT_LE(bytes.size(), net_.rules.mtu);
    net_.send(address_, packet.to, std::move(bytes));
    ++sent_;
    return true;
  }
  void flush(Instant) override {
    sent_ = 0;
    if (net_.rules.keep_lent) return;
    for (const size_t left = net_.rng.below(8); kept_.size() > left;) done_with_oldest();
  }
  bool pending() override { return !waiting.empty(); }

  std::deque<RoceNet::Flight> waiting;

 private:
  /// A packet with lent payload. The device is done with it long after it has left.
  struct Kept {
    struct Piece {
      Bytes memory;
      std::vector<std::byte> then;
    };
    Loan* loan;
    std::vector<Piece> pieces;
  };
  struct Lease {
    uint32_t packets = 0;
    bool closed = false;
  };
  static Lease& lease_of(Loan& loan) { return *static_cast<Lease*>(loan.place()); }
  static void give_back_if_last(Loan& loan) {
    if (lease_of(loan).closed && lease_of(loan).packets == 0) loan.give_back();
  }
  void lend(const Departure& packet) {
    Loan& loan = *packet.loan;
    if (!loan.is_open()) {
      new (loan.place()) Lease;
      loan.open([](Loan& its) {
        lease_of(its).closed = true;
        give_back_if_last(its);
      });
    }
    ++lease_of(loan).packets;
    ++net_.loans;
    kept_.push_back({&loan, {}});
    PayloadCursor cursor = packet.payload;
    for (const Bytes memory : payload_pieces(cursor, packet.bytes))
      kept_.back().pieces.push_back({memory, {memory.begin(), memory.end()}});
  }
  /// Nobody has written to the memory meanwhile.
  void done_with_oldest() {
    const Kept kept = std::move(kept_.front());
    kept_.pop_front();
    for (const Kept::Piece& piece : kept.pieces) EXPECT_TRUE(std::ranges::equal(piece.memory, piece.then));
    --lease_of(*kept.loan).packets;
    give_back_if_last(*kept.loan);
  }
  /// Packets come in pieces, some of them in odd places.
  void cut(Arrival& arrival, std::vector<std::byte>& bytes) {
    std::span<std::byte> rest(bytes);
    size_t first = rest.size();
    if (net_.rng.one_in(2)) first = std::min<size_t>(rest.size(), 128 + net_.rng.below(900));
    arrival.pieces[arrival.piece_count++] = rest.first(first);
    rest = rest.subspan(first);
    if (rest.size() > 2) {
      const size_t second = 1 + net_.rng.below(rest.size() - 1);
      arrival.pieces[arrival.piece_count++] = rest.first(second);
      rest = rest.subspan(second);
    }
    if (!rest.empty()) arrival.pieces[arrival.piece_count++] = rest;
  }
  RoceNet& net_;
  const IpAddress address_;
  std::deque<Kept> kept_;
  unsigned sent_ = 0;
};

RoceNode::RoceNode(RoceNet& net, std::vector<IpAddress> addresses, const rc::roce::ProviderOptions& options)
    : net_(net), addresses_(std::move(addresses)), workers_(options.workers) {
  const unsigned workers = workers_;
  provider_ = *rc::roce::open_provider(options);
  for (size_t i = 0; i < addresses_.size(); ++i) {
    rc::roce::PortFacts facts;
    facts.name = "port" + std::to_string(i);
    facts.addresses = {addresses_[i]};
    facts.mac = {
        {2, 0, addresses_[i].bytes[12], addresses_[i].bytes[13], addresses_[i].bytes[14], addresses_[i].bytes[15]}};
    facts.mtu = net.rules.mtu;
    facts.workers = workers;
    facts.worker_of = [workers](const IpAddress&, const IpAddress&, uint16_t source_port) {
      return WorkerId{uint16_t(source_port % workers)};
    };
    const uint8_t port = *provider_->add_port(std::move(facts));
    provider_->set_link(port, {!net.down_.contains(addresses_[i]), kSpeed});
    queues_.emplace_back();
    for (uint16_t worker = 0; worker < workers; ++worker) {
      queues_[i].push_back(std::make_unique<Queue>(net, addresses_[i]));
      provider_->attach(port, WorkerId{worker}, *queues_[i].back());
    }
    net.places_[addresses_[i]] = {this, i};
  }
  net.nodes_.insert(this);
}

RoceNode::~RoceNode() {
  net_.nodes_.erase(this);
  for (unsigned i = 0; i < unsigned(rc::roce::Count::kCount); ++i)
    net_.gone_[rc::roce::Count(i)] += count(rc::roce::Count(i));
  for (const IpAddress& address : addresses_) net_.places_.erase(address);
  for (size_t port = 0; port < addresses_.size(); ++port)
    for (uint16_t worker = 0; worker < workers_; ++worker) provider_->detach(uint8_t(port), WorkerId{worker});
}

uint64_t RoceNode::count(rc::roce::Count which) const {
  uint64_t sum = 0;
  for (size_t port = 0; port < addresses_.size(); ++port) sum += provider_->count(uint8_t(port), which);
  return sum;
}

void RoceNet::set_link(const IpAddress& address, bool up) {
  if (up)
    down_.erase(address);
  else
    down_.insert(address);
  if (const auto place = places_.find(address); place != places_.end())
    place->second.node->provider_->set_link(uint8_t(place->second.port), {up, kSpeed});
}

uint64_t RoceNet::count(rc::roce::Count which) const {
  const auto gone = gone_.find(which);
  uint64_t sum = gone == gone_.end() ? 0 : gone->second;
  for (const RoceNode* node : nodes_) sum += node->count(which);
  return sum;
}

size_t RoceNet::conns() const {
  size_t sum = 0;
  for (RoceNode* node : nodes_) sum += node->provider().connections();
  return sum;
}

void RoceNet::break_wires(const IpAddress& a, const IpAddress& b) {
  for (const auto& [qp, from] : seen_)
    if (std::minmax(qp.first, from) == std::minmax(a, b)) dead_.insert(qp);
}

void RoceNet::send(const IpAddress& from, const IpAddress& to, std::vector<std::byte> bytes) {
  ++packets;
  if (down_.contains(from)) return;
  if (rng.one_in(rules.lose_one_in)) return;
  if (rng.one_in(rules.mark_one_in)) bytes[1] |= std::byte(from.is_v4() ? 0x03 : 0x30);
  if (rng.one_in(rules.damage_one_in)) bytes[bytes.size() - 1 - rng.below(bytes.size() / 2)] ^= std::byte{1};
  const auto delay = [&] {
    return rng.one_in(rules.reorder_one_in) ? rules.delay * int64_t(1 + rng.below(8)) : rules.delay;
  };
  if (rng.one_in(rules.repeat_one_in)) flights_.insert({now + delay(), {from, to, bytes}});
  flights_.insert({now + delay(), {from, to, std::move(bytes)}});
}

void RoceNet::arrive(const Flight& flight) {
  const auto found = places_.find(flight.to);
  if (found == places_.end() || down_.contains(flight.to) || cuts_.contains(std::minmax(flight.from, flight.to)))
    return;
  if (flight.bytes.size() < ip_bytes_of(flight.from) + dpdk::kUdpBytes) return;  // the port's stack drops it
  const std::byte* bth = flight.bytes.data() + ip_bytes_of(flight.from) + dpdk::kUdpBytes;
  if (flight.bytes.size() >= size_t(bth - flight.bytes.data()) + rc::roce::kBthBytes) {
    const QpAt qp{flight.to, wire::load<uint32_t>(bth + 4, true) & rc::roce::kQpnMask};
    if (qp.second != rc::roce::kGsiQpn) seen_[qp] = flight.from;
    if (dead_.contains(qp)) return;
  }
  put(found->second, flight);
}

void RoceNet::put(const Place& place, const Flight& flight) {
  RoceNode& node = *place.node;
  const auto source_port = wire::load<uint16_t>(flight.bytes.data() + ip_bytes_of(flight.from), true);
  const uint64_t queue = rules.scatter ? rng.below(node.workers_) : source_port % node.workers_;
  auto& waiting = node.queues_[place.port][queue]->waiting;
  if (waiting.size() < rules.receive_depth) waiting.push_back(flight);
}

void RoceNet::flood(const rc::IpAddress& from, const rc::IpAddress& to, std::vector<std::byte> bytes) {
  put(places_.at(to), {from, to, std::move(bytes)});
}

void RoceNet::run(Instant to) {
  now = to;
  while (!flights_.empty() && flights_.begin()->first <= to) {
    const Flight flight = std::move(flights_.begin()->second);
    flights_.erase(flights_.begin());
    arrive(flight);
  }
}

}  // namespace ulnet::test
