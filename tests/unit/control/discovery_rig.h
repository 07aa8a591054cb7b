// The discovery machine alone: the test feeds in events, and the machine's actions come out as text. NIDs 10.0.0.x with
// x below 10 are this node's own.
#pragma once
#include "control/api/show_values.h"
#include "control/discovery/discovery.h"
#include "control/health/health.h"
#include "tests/unit/control/node_rig.h"

namespace ulnet::test {

inline constexpr uint32_t kOrdinary =
    wire::kFeatureNiStatus | wire::kFeatureRteDisabled | wire::kFeatureMultiRail | wire::kFeatureDiscovery;
inline constexpr uint32_t kNotDiscovering = kOrdinary & ~uint32_t{wire::kFeatureDiscovery};
inline constexpr uint32_t kDownrev = wire::kFeatureNiStatus | wire::kFeatureRteDisabled;

class DiscoveryTest : public ::testing::Test, protected DiscoveryActions {
 protected:
  DiscoveryTest() : own_(rig_.add({"10.0.0.1@tcp", "10.0.0.2@tcp", "10.1.0.1@o2ib"})), nis_(*own_.node->control().nis) {
    machine.set_sequence(4, 4);
  }
  ~DiscoveryTest() override { rig_.stop_all(); }

  static Nid peer_nid(int last) { return nid("10.0.0." + std::to_string(last) + "@tcp"); }
  static std::string short_text(const Nid& one) {
    if (one.is_any()) return "any";
    const std::string text = nid_text(one);
    const std::string tail = "@tcp";
    return text.ends_with(tail) ? text.substr(text.rfind('.') + 1, text.size() - text.rfind('.') - 1 - tail.size())
                                : text;
  }

  void send_ping(const PingOp& op) override {
    pings_.push_back(op.number);
    said_ += (op.exactly ? "ping exactly " : "ping ") + short_text(op.target) +
             (op.sink_bytes == 272 ? "" : " in " + std::to_string(op.sink_bytes)) + "; ";
  }
  void send_push(const PingOp& op) override {
    pushes_.push_back(op.number);
    said_ += (op.self.is_any() ? "push" : "push from " + short_text(op.self)) + " to ";
    said_ += short_text(op.target) + "; ";
  }
  void discovered(uint64_t waiter, int32_t error) override {
    --waiting_;
    said_ += "done " + std::to_string(waiter) + (error == 0 ? "" : " " + std::to_string(error)) + "; ";
  }

  /// Runs the machine until it rests. Returns its actions since the last call.
  std::string turn() {
    while (machine.turn() > 0) {
    }
    return std::exchange(said_, {});
  }
  std::string discover(int last, uint64_t waiter = 1, bool force = false) {
    machine.discover(*peers.find_or_create(peer_nid(last), kAnyNid).value(), waiter, force);
    return turn();
  }
  static PingData data(const std::vector<int>& lasts, uint32_t sequence, uint32_t features = kOrdinary, int from = 0) {
    PingData data;
    data.decode.info.features = features;
    data.decode.info.sequence = sequence;
    for (int last : lasts) data.decode.info.nis.push_back({peer_nid(last), wire::kNiUp});
    data.from = peer_nid(from != 0 ? from : lasts.front());
    data.to = peer_nid(1);
    return data;
  }
  /// Answers the oldest ping under way.
  std::string reply(PingData answer) {
    machine.ping_answered(next(pings_), std::move(answer));
    return turn();
  }
  std::string ping_fails(int32_t error) {
    machine.ping_failed(next(pings_), error);
    return turn();
  }
  /// Ends the oldest push under way, acknowledged by the peer's primary NID.
  std::string ack(int32_t error = 0) {
    const uint64_t number = next(pushes_);
    machine.push_ended(number, error, primary_of(number));
    return turn();
  }
  std::string pushed(PingData push) {
    machine.push_came(std::move(push));
    return turn();
  }
  /// A whole discovery of a multi-rail peer.
  void know(const std::vector<int>& lasts, uint32_t sequence = 3) {
    discover(lasts.front());
    reply(data(lasts, sequence));
    EXPECT_EQ(ack(), "done 1; ");
  }

  Nid primary_of(uint64_t number) {
    const Peer* one = peers.find_peer(uint32_t(number >> 32));
    return one == nullptr ? kAnyNid : one->primary().nid;
  }
  Peer* peer(int last) {
    const PeerNi* ni = peers.find(peer_nid(last));
    return ni == nullptr ? nullptr : ni->peer;
  }
  /// NIDs of the peer that has this NID, the primary first.
  std::string nids(int last) {
    if (peer(last) == nullptr) return "none";
    std::string text;
    for (const PeerNet& net : peer(last)->nets)
      for (const PeerNi* ni : net.nis) text += (text.empty() ? "" : " ") + short_text(ni->nid);
    return text;
  }
  std::string letters(int last) { return discovery_letters(*peer(last), machine.sequence()); }
  Peer* configure(const std::vector<int>& lasts, bool lock = false) {
    config::PeerConfig config;
    config.primary = peer_nid(lasts.front());
    for (size_t i = 1; i < lasts.size(); ++i) config.nids.push_back(peer_nid(lasts[i]));
    config.lock_primary = lock;
    return peers.add(config).value();
  }

  NodeRig rig_;
  RigNode& own_;
  LocalNis& nis_;
  std::vector<std::string> journal;
  const Instant now_ = kNever;
  Timers timers_{now_};
  PeerDb peers{{nis_, 1, 65536, {}, {}, {}, {}}, timers_};
  Discovery machine{{peers, nis_, [this](const std::string& line) { journal.push_back(line); },
                     [this](PeerNi& ni, bool up) { own_.node->control().health->said(ni, up, kNever); }},
                    *this,
                    timers_};

  static uint64_t next(std::vector<uint64_t>& numbers) {
    ULNET_CHECK(!numbers.empty());
    const uint64_t number = numbers.front();
    numbers.erase(numbers.begin());
    return number;
  }
  std::vector<uint64_t> pings_, pushes_;
  std::string said_;
  int64_t waiting_ = 0;
};

}  // namespace ulnet::test
