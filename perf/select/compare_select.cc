// Question: what does a choice of path cost, and what do policies add? Beside it, in the same run, the pseudo-code of
// the high level design. 1,024 peers; each message goes to another one than the message before, so most of the time
// goes to memory outside of the first cache. One more row has 16 peers, whose numbers stay in the first cache. All
// set-ups take turns in each round; the median counts. Started by perf/compare-select.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "perf/bench_pin.h"
#include "perf/select/pseudo_code.h"
#include "perf/select/views.h"

namespace {

using namespace ulnet;

using perf::kMemoryNode;
using perf::kTcp;
using perf::local_nid;
using perf::peer_nid;
using perf::shuffled;
using perf::Views;

constexpr uint32_t kPeers = 1024, kFewPeers = 16;
constexpr unsigned kChoices = 8192;  ///< of one round

/// Nanoseconds per choice.
double round(Views& views, const std::vector<uint32_t>& order) {
  const auto begin = std::chrono::steady_clock::now();
  for (unsigned i = 0; i < kChoices; ++i) views.choose(order[i % order.size()]);
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  return took.count() / kChoices;
}

/// The same node as lists of the pseudo-code.
class Lists {
 public:
  Lists(uint32_t peers, uint32_t nis, uint32_t peer_nis) {
    net_.net = kTcp;
    for (uint32_t i = nis; i-- > 0;) {
      auto& ni = nis_.emplace_back(std::make_unique<perf::pseudo::Ni>());
      ni->nid = local_nid(i);
      ni->next = net_.first;
      net_.first = ni.get();
    }
    for (auto& row : distances_) row = {20, 20, 20, 20};
    for (const uint32_t number : shuffled(peers, 3)) {
      auto& net = nets_.emplace_back(std::make_unique<perf::pseudo::PeerNet>());
      auto& peer = peers_.emplace_back(std::make_unique<perf::pseudo::Peer>());
      net->net = &net_;
      peer->first = net.get();
      for (uint32_t i = peer_nis; i-- > 0;) {
        auto& ni = peer_nis_.emplace_back(std::make_unique<perf::pseudo::PeerNi>());
        ni->nid = peer_nid(number, i);
        ni->next = net->first;
        net->first = ni.get();
        auto& entry = entries_.emplace_back(std::make_unique<perf::pseudo::Entry>());
        perf::pseudo::Entry*& bucket = table_.buckets[ni->nid.hash() % perf::pseudo::Table::kBuckets];
        *entry = {bucket, ni->nid, peer.get()};
        bucket = entry.get();
      }
    }
  }
  template <perf::Reading kReading>
  double round(const std::vector<uint32_t>& order) {
    const auto begin = std::chrono::steady_clock::now();
    for (unsigned i = 0; i < kChoices; ++i) {
      const Nid dst = peer_nid(order[i % order.size()], 0);
      const auto choice = perf::pseudo::choose<kReading>(table_, dst, kMemoryNode, distances_);
      if (choice.peer_ni == nullptr) std::abort();
      asm volatile("" : : "r"(choice.ni), "r"(choice.peer_ni) : "memory");
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    return took.count() / kChoices;
  }

 private:
  perf::pseudo::NetOfNis net_;
  perf::pseudo::Table table_;
  perf::pseudo::Distances distances_{};
  std::vector<std::unique_ptr<perf::pseudo::Ni>> nis_;
  std::vector<std::unique_ptr<perf::pseudo::PeerNi>> peer_nis_;
  std::vector<std::unique_ptr<perf::pseudo::PeerNet>> nets_;
  std::vector<std::unique_ptr<perf::pseudo::Peer>> peers_;
  std::vector<std::unique_ptr<perf::pseudo::Entry>> entries_;
};

struct SetUp {
  uint32_t peers, nis, peer_nis;
  Views plain{peers, nis, peer_nis, false}, ruled{peers, nis, peer_nis, true};
  Lists lists{peers, nis, peer_nis};
  std::vector<uint32_t> order = shuffled(peers, 11);
  std::vector<double> plain_ns, ruled_ns, meant_ns, literal_ns;
  SetUp(uint32_t of_peers, uint32_t of_nis, uint32_t of_peer_nis)
      : peers(of_peers), nis(of_nis), peer_nis(of_peer_nis) {}
};

double median(std::vector<double> all) {
  std::nth_element(all.begin(), all.begin() + long(all.size() / 2), all.end());
  return all[all.size() / 2];
}
/// Median of the ratios of rounds that ran next to each other.
double ratio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> all;
  for (size_t i = 0; i < a.size(); ++i) all.push_back(a[i] / b[i]);
  return median(all);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(std::atoi(argv[1]), 1) : 31;
  perf::pin(1);
  std::vector<std::unique_ptr<SetUp>> all;
  all.push_back(std::make_unique<SetUp>(kFewPeers, 16, 16));
  for (const uint32_t nis : {1, 4, 16})
    for (const uint32_t peer_nis : {1, 4, 16}) all.push_back(std::make_unique<SetUp>(kPeers, nis, peer_nis));
  for (int i = -1; i < rounds; ++i)  // the first round warms up
    for (auto& one : all) {
      const double plain = round(one->plain, one->order), meant = one->lists.round<perf::Reading::kMeant>(one->order);
      const double ruled = round(one->ruled, one->order),
                   literal = one->lists.round<perf::Reading::kLiteral>(one->order);
      if (i < 0) continue;
      one->plain_ns.push_back(plain);
      one->ruled_ns.push_back(ruled);
      one->meant_ns.push_back(meant);
      one->literal_ns.push_back(literal);
    }
  std::printf("ns per choice, median of %d rounds\n", rounds);
  std::printf(" peers   NIs x peer NIs   0 rules  256 rules   pseudo-code   as it is written\n");
  for (const auto& one : all)
    std::printf("%6u %5u x %-9u %9.1f %10.1f %13.1f %13.1f\n", one->peers, one->nis, one->peer_nis,
                median(one->plain_ns), median(one->ruled_ns), median(one->meant_ns), median(one->literal_ns));
  const SetUp& last = *all.back();
  std::printf("choice16=%.1f ratio=%.3f rules_cost=%.3f\n", median(last.plain_ns), ratio(last.plain_ns, last.meant_ns),
              ratio(last.ruled_ns, last.plain_ns));
}
