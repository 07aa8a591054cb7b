// The measurements with the swarm (swarm.h).
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>

#include "control/discovery/runner.h"
#include "control/node.h"
#include "dataplane/base/nid_text.h"
#include "lnd/lo/lo.h"
#include "tests/simulate/swarm.h"

namespace ulnet::simulate {
namespace {

constexpr Duration kLongest = 3600s;  ///< virtual, of each part
constexpr double kGrowthMost = 1.1;   ///< of what a peer NI costs, with many of them against with few
constexpr Duration kSoon = 1s;        ///< virtual, within which all is to be known

double cpu_seconds() {
  rusage usage{};
  (void)getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) / 1e6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

size_t heap_bytes() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

/// One node and its swarm.
class SwarmRun {
 public:
  explicit SwarmRun(uint32_t peers) : swarm_(peers) {
    NodeConfig config;
    config.peers_max = peers * (kSwarmNids + 2) + 16;
    NodeDeps deps;
    deps.lnds.push_back(lnd_loopback());
    deps.lnds.push_back({&type_, [this](LndCore& core) { return std::make_unique<SwarmLnd>(swarm_, core); },
                         [this](LndControlHost& host) { return std::make_unique<SwarmControl>(swarm_, host); }});
    node_ = std::move(*Node::create(config, std::move(deps), now_));
    config::ChangeList changes;
    config::NetAdd add;
    add.ni.nid = *nid_parse("10.0.0.1@tcp");
    add.net = add.ni.nid->net();
    changes.push_back({config::LnetConfigure{}, {}});
    changes.push_back({add, {}});
    bool applied = false;
    node_->apply(std::move(changes), [&](const auto& errors) { applied = errors.empty(); });
    ULNET_CHECK(run_until([&] { return applied; }));
  }
  ~SwarmRun() {
    node_->stop(now_);
    (void)run_until([&] { return node_->stopped(); });
  }
  SwarmRun(const SwarmRun&) = delete;

  template <class P>
  bool run_until(P&& predicate) {
    const Instant limit = now_ + kLongest;
    while (!predicate()) {
      if (now_ >= limit) return false;
      const unsigned done = node_->turn_control(now_) + node_->turn(WorkerId{0}, now_);
      const Instant next =
          std::min({swarm_.next_event(), node_->next_deadline(), node_->worker(WorkerId{0}).next_deadline(), limit});
      now_ = done > 0 ? now_ + 1us : std::max(next, now_ + 1us);
    }
    return true;
  }

  /// Runs one part of the measurement and prints what it took.
  template <class P>
  std::string part(const char* name, P&& over) {
    const Instant began = now_;
    const double cpu = cpu_seconds();
    const bool ended = run_until(over);
    const double took = cpu_seconds() - cpu;
    const auto peers = double(swarm_.peers().size());
    fmt::print("{}: {} peers x {} NIDs: virtual {:.3f} s, CPU {:.3f} s, {:.2f} us per peer NI\n", name, peers,
               kSwarmNids, double((now_ - began).count()) / 1e9, took, took * 1e6 / peers / kSwarmNids);
    if (!ended) return fmt::format("{}: {} of the lists not known after {} s", name, swarm_.unheard(), kLongest / 1s);
    if (now_ - began > kSoon) return fmt::format("{}: done after more than {} s", name, kSoon / 1s);
    return wrong_table(name);
  }

  std::string discover() {
    const size_t heap = heap_bytes();
    std::vector<Nid> nids;
    for (uint32_t peer = 0; peer < swarm_.peers().size(); ++peer)
      nids.push_back(Swarm::nid_of(peer, peer % kSwarmNids));
    size_t failed = 1;
    node_->control().discovery->discover(nids, false, [&](const std::vector<DiscoverAnswer>& answers) {
      failed = size_t(std::count_if(answers.begin(), answers.end(), [](const auto& one) { return one.error != 0; }));
    });
    nids.clear();
    const std::string wrong = part("discovered", [&] { return failed == 0 && all_quiet(); });
    fmt::print("discovered: {:.0f} bytes of heap per peer NI\n",
               double(heap_bytes() - heap) / double(swarm_.peers().size()) / kSwarmNids);
    return wrong;
  }

  std::string storm() {
    const uint64_t sent = swarm_.pushes_sent();
    swarm_.change_all(now_);
    const std::string wrong = part("push storm", [&] { return all_quiet(); });
    Worker& worker = node_->worker(WorkerId{0});
    const uint64_t dropped = worker.counters[Stat::kDropCount].get();
    fmt::print("push storm: {} pushes sent for {} lists, {} messages dropped, at most {} waiting at once\n",
               swarm_.pushes_sent() - sent, swarm_.peers().size(), dropped, swarm_.held_most());
    if (wrong.empty() && dropped > 0) return fmt::format("push storm: {} messages dropped", dropped);
    return wrong;
  }

  /// Of the workers' peer table, per peer NI.
  [[nodiscard]] double copied_bytes() {
    return double(node_->control().peer_table->copied_bytes()) / double(swarm_.peers().size()) / kSwarmNids;
  }

 private:
  [[nodiscard]] bool all_quiet() { return swarm_.unheard() == 0 && swarm_.next_event() == kForever && !pings_out(); }
  [[nodiscard]] bool pings_out() {
    return !node_->control().discovery->at_rest() || node_->control().timers.at(TimerName::kDiscovery) <= now_;
  }

  /// Bounds, and every peer's NIDs against the truth.
  std::string wrong_table(const char* name) {
    if (swarm_.held_most() > swarm_.peers().size())
      return fmt::format("{}: {} pushes waited at once, more than there are connections", name, swarm_.held_most());
    if (swarm_.unplaced() > 0) return fmt::format("{}: {} pushes found no room", name, swarm_.unplaced());
    if (swarm_.protocol_errors() > 0) return fmt::format("{}: protocol errors", name);
    for (uint32_t number = 0; number < swarm_.peers().size(); ++number) {
      const auto nids = swarm_.nids_of(number);
      const PeerNi* ni = node_->control().peers->find(nids.front());
      const bool right = ni != nullptr && &ni->peer->primary() == ni && ni->peer->ni_count() == nids.size() &&
                         ni->peer->up_to_date && std::all_of(nids.begin(), nids.end(), [&](const Nid& nid) {
                           const PeerNi* one = node_->control().peers->find(nid);
                           return one != nullptr && one->peer == ni->peer;
                         });
      if (!right) return fmt::format("{}: peer {} is not known as it is", name, nid_text(nids.front()));
    }
    return "";
  }

  Instant now_{1s};
  const DriverType type_{.name = "swarm", .net_type = NetType::kTcp};
  Swarm swarm_;
  std::unique_ptr<Node> node_;
};

}  // namespace

// Counted, not timed, so that it is the same on every machine.
std::string run_swarms(const std::vector<uint32_t>& peers) {
  double few = 0;
  for (const uint32_t count : peers) {
    SwarmRun run(count);
    std::string wrong = run.discover();
    if (wrong.empty()) wrong = run.storm();
    if (!wrong.empty()) return wrong;
    const double cost = run.copied_bytes();
    fmt::print("both: {:.0f} bytes of the workers' peer table copied per peer NI\n", cost);
    if (few == 0) few = cost;
    if (cost > few * kGrowthMost) return fmt::format("a peer NI costs {:.0f} bytes of copies, not {:.0f}", cost, few);
  }
  return "";
}

}  // namespace ulnet::simulate
