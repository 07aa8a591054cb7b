// Several workers that choose at the same time spread their messages over all rails, though no worker reads the numbers
// of another one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>

#include "control/publish/peer_table.h"
#include "dataplane/base/rng.h"
#include "dataplane/select/after_choice.h"
#include "dataplane/state/slices.h"
#include "tests/unit/select/rig.h"

namespace ulnet::test {
namespace {

constexpr uint32_t kRails = 4;
constexpr int32_t kPeerCredits = 8;

/// Rails between this node and one peer. Each rail carries its messages one after the other, in the order in which they
/// were sent.
class Rails {
 public:
  Rails(uint32_t workers, uint64_t seed, bool on_one_net = true) : rng_(seed) {
    auto peer = std::make_shared<PeerView>();
    peer->multi_rail = true;
    for (uint32_t i = 0; i < kRails; ++i) {
      NiView& ni = local_.nis.emplace_back();
      ni.slot = uint16_t(i);
      const std::string net = on_one_net || i == 0 ? "tcp" : "tcp" + std::to_string(i);
      ni.nid = nid(std::to_string(i + 1) + "@" + net);
      ni.tx_credits = 256;
      PeerNiView& far = peer->nis.emplace_back();
      far.slot = i;
      far.nid = nid(std::to_string(i + 11) + "@" + net);
      far.slice = &slices_.emplace_back(PeerNiId{i + 1}, kPeerCredits, kPeerCredits);
      far.tx_credits = kPeerCredits;
    }
    for (uint32_t i = 0; i < (on_one_net ? 1 : kRails); ++i) {
      local_.nets.push_back({local_.nis[i].nid.net(), kNoPriority, i, on_one_net ? kRails : 1});
      peer->nets.push_back({local_.nis[i].nid.net(), kNoPriority, i, on_one_net ? kRails : 1});
    }
    rank_nis(local_);
    rank_nis(*peer);
    for (uint32_t i = 0; i < kRails; ++i) builder_.set(peer->nis[i].nid, peer, i);
    table_ = builder_.snapshot();
    set_.local = &local_;
    set_.peers = table_.get();
    set_.routes = &routes_;
    for (uint32_t i = 0; i < workers; ++i) {
      tallies_.push_back(std::make_unique<Tallies>(kRails));
      for (uint32_t slot = 0; slot < kRails; ++slot) tallies_.back()->ensure(slot, nullptr);
    }
  }

  /// One turn of each worker. `mean`: messages that a worker sends in a turn, on average; they come in bursts.
  void turn(double mean) {
    for (uint32_t worker = 0; worker < tallies_.size(); ++worker) {
      const auto most = uint64_t(2 * mean * 1000);
      const uint64_t draw = rng_.below(most + 1);
      uint64_t burst = draw / 1000 + (rng_.below(1000) < draw % 1000 ? 1 : 0);
      for (; burst > 0; --burst) send(worker);
    }
    for (Rail& rail : rails_)
      for (unsigned served = 0; served < kServedPerTurn && !rail.queue.empty(); ++served) {
        Tallies& tallies = *tallies_[rail.queue.front().worker];
        tallies.ni(rail.queue.front().ni).tally().give_back(kBytes);
        tallies.peer_ni(uint32_t(&rail - rails_)).tally().give_back(kBytes);
        rail.queue.pop_front();
      }
  }
  /// The worst difference to the mean, over all moments so far, in messages under way on a rail.
  [[nodiscard]] double worst() const { return worst_; }
  /// The worst share of a rail over the even share.
  [[nodiscard]] double unevenness() const {
    uint64_t sum = 0, most = 0, least = UINT64_MAX;
    for (const Rail& rail : rails_) {
      sum += rail.sent;
      most = std::max(most, rail.sent);
      least = std::min(least, rail.sent);
    }
    const double even = double(sum) / kRails;
    return std::max(double(most) / even - 1, 1 - double(least) / even);
  }
  static constexpr unsigned kServedPerTurn = 8;
  static constexpr uint64_t kBytes = 1024;
  void send(uint32_t worker) {
    PathRequest request;
    request.dst = nid("11@tcp");
    const PathChoice choice = choose_path(set_, request, {WorkerId{uint16_t(worker)}, *tallies_[worker]});
    ASSERT_EQ(choice.kind, PathKind::kPath);
    WorkerNotes notes(*tallies_[worker]);
    note_sent(notes, choice, kBytes);
    Rail& rail = rails_[choice.hop->slot];
    rail.queue.push_back({worker, choice.ni->slot});
    ++rail.sent;
    size_t sum = 0;
    for (const Rail& one : rails_) sum += one.queue.size();
    for (const Rail& one : rails_) worst_ = std::max(worst_, std::abs(double(one.queue.size()) - double(sum) / kRails));
  }

 private:
  struct Message {
    uint32_t worker, ni;
  };
  struct Rail {
    std::deque<Message> queue;
    uint64_t sent = 0;
  };
  Rng rng_;
  LocalView local_;
  RouteTable routes_;
  PeerTableBuilder builder_;
  std::shared_ptr<const PeerTable> table_;
  ViewSet set_;
  std::deque<PeerSlice> slices_;
  std::vector<std::unique_ptr<Tallies>> tallies_;
  Rail rails_[kRails];
  double worst_ = 0;
};

// Goal: 1 to 16 workers use four equal rails evenly. Over the run, each share is within 10 % of even. At each moment,
// the messages under way on a rail differ from the mean by twice the credits of one peer NI at most. Method: bursts at
// 30, 70 and 90 % of what the rails carry, three seeds each.
TEST(SelectHerd, workers_spread_over_equal_rails) {
  for (uint32_t workers = 1; workers <= 16; ++workers)
    for (const double load : {0.3, 0.7, 0.9})
      for (uint64_t seed = 1; seed <= 3; ++seed) {
        Rails rails(workers, seed);
        for (int i = 0; i < 400; ++i) rails.turn(load * kRails * Rails::kServedPerTurn / workers);
        const std::string where =
            std::to_string(workers) + " workers, load " + std::to_string(load) + ", seed " + std::to_string(seed);
        EXPECT_LE(rails.unevenness(), 0.1) << where;
        EXPECT_LE(rails.worst(), 2 * kPeerCredits) << where;
        if (seed == 1) RecordProperty(where, std::to_string(rails.worst()));
      }
}

// Goal: the first message of each worker does not take the rail of the others, on one net or on nets of their own.
TEST(SelectHerd, first_messages_spread) {
  for (const bool on_one_net : {true, false}) {
    Rails rails(kRails, 1, on_one_net);
    for (uint32_t worker = 0; worker < kRails; ++worker) rails.send(worker);
    EXPECT_LT(rails.worst(), 1.0) << on_one_net;
  }
}

}  // namespace
}  // namespace ulnet::test
