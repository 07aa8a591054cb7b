// Checks the paths that the workers of a cluster choose, each against the view that the worker has. The check reads the
// view and the operations of the worker, and does not use the ranking in dataplane/select.
//   1  If an operation chooses its path freely, it takes no NI and no peer NI that is down while another pair is up.
//      Down: the link is down (fatal), the health is 0, or the peer NI is known to be down and no gateway. A router's
//      own operations may go to a peer NI that the router takes for dead (PeerNiView::down): only what it forwards
//      avoids that peer NI. The same if the operation has failed over one of the two before.
//   2  If a rail fails as a whole, no operation goes on waiting for a credit of it (Waiting::limit) while another pair
//      is up. An operation that chose the rail when the rail was down already had no other then, and may wait.
//      The same holds for an NI that is being deleted: it ends all its messages within kNiDrainMax.
// An operation does not choose freely if its source is given, or if it is a recovery ping. The same holds if its peer
// is not multi-rail and has a recorded source. Pairs over which the operation has failed count neither as up nor as
// down. The local NIs of a path over a gateway are compared only if the destination has no recorded source. A copy that
// is taken back and then given up has chosen nothing (Lease::given_up).
#pragma once
#include <map>
#include <string>
#include <utility>

#include "tests/cluster/sim_net.h"
#include "tests/simulate/counts.h"

namespace ulnet::simulate {

class ChoiceWatch {
 public:
  explicit ChoiceWatch(Counts& counts) : counts_(counts) {}
  /// After a turn of the worker: rule 1 for each path that the turn chose. "" or what is wrong.
  [[nodiscard]] std::string turned(const test::SimNode& node, Worker& worker);
  /// Rule 2, for each operation of the node that waits. To call often.
  [[nodiscard]] std::string waits(test::SimNode& node, Instant now);

 private:
  /// Identifies one lease of one operation.
  struct Lease {
    Instant issued = kNever;
    uint32_t retries = 0;
    uint8_t moves = 0;
    NiId ni{};
    PeerNiId peer_ni{};
    bool chosen_down = false;  // the pair was down when the operation chose it
    [[nodiscard]] bool same(const Lease& o) const {
      return issued == o.issued && retries == o.retries && moves == o.moves && ni == o.ni && peer_ni == o.peer_ni;
    }
    /// True if a copy was taken back, found no path, and was given up. Its request waits on with its lease as it was.
    /// Else the move has chosen: another pair, or the same one, where the operation then stays (Tx::stays).
    [[nodiscard]] bool given_up(const Operation& op, const Lease& now) const {
      Lease moved = *this;
      ++moved.moves;
      return op.state == OperationState::kAwaiting && op.copied && !op.tx.stays && moved.same(now);
    }
  };
  struct OfWorker {
    uint64_t cookie = 0;  // of the life of its node
    int64_t choices = 0;
    std::map<const Operation*, Lease> leases;
  };
  struct Waiting {
    static constexpr Duration limit = 100ms;
    Lease lease;
    Instant since = kNever, seen = kNever;
  };
  static Lease lease_of(const Operation& op) {
    return {op.issued, op.retries, op.moves, op.tx.ni, op.tx.peer_ni, false};
  }

  Counts& counts_;
  std::map<std::pair<const test::SimNode*, uint16_t>, OfWorker> workers_;
  std::map<const Operation*, Waiting> waiting_;
};

}  // namespace ulnet::simulate
