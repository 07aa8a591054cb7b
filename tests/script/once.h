// The one promise about messages whose connection ends under them: a message that may be sent again over another NI has
// not arrived. For both halves of socklnd over any I/O. Each check ends the connections of two nodes in one way, at a
// random moment.
#pragma once
#include <gtest/gtest.h>

#include <map>

#include "dataplane/state/failures.h"
#include "tests/script/sock_rig.h"

namespace ulnet::test {

enum class Ending : uint8_t {
  kWeStop,    ///< the sender's NI is stopped
  kTheyStop,  ///< FIN from the receiver
  kWeReset,   ///< the sender takes the memory of a begun message back
  kTheyReset  ///< RST from the receiver
};
inline constexpr Ending kEndings[] = {Ending::kWeStop, Ending::kTheyStop, Ending::kWeReset, Ending::kTheyReset};

/// Does the core send a message that ended so again, if there is another NI? (resend() in send.cc)
[[nodiscard]] constexpr bool may_go_again(const Completion& how) {
  return failure_class(how.health).resend != Resend::kNo;
}

/// How the messages of all checks ended: so that a test in which nothing was ever cut off shows.
struct OnceSums {
  unsigned again = 0, well = 0, lost = 0;
};

/// Closes with RST: takes back the memory of a message that is with the transport.
inline void reset_by(SockNode& node, Instant now) {
  for (TestTx& tx : node.txs)
    if (tx.done == 0) node.cores[node.places.at(tx.next_hop).worker.value]->lnd->cancel(tx, true, now);
}

/// `us` sends to `them` (`to`); after `after` the connections end. Requires one worker at `us`.
inline void check_once(SockRig& rig, SockNode& us, SockNode& them, const std::string& to, Ending ending, Duration after,
                       OnceSums& sums) {
  const size_t before = us.txs.size();
  for (int i = 0; i < 12; ++i)
    us.put(to, uint32_t(rig.rng.below(i % 2 == 0 ? 2000 : i % 3 == 0 ? 1'000'000 : 100'000)));
  rig.run_for(after);
  switch (ending) {
    case Ending::kWeStop: us.stop(); break;
    case Ending::kTheyStop: them.stop(); break;
    case Ending::kWeReset: reset_by(us, rig.now); break;
    case Ending::kTheyReset: reset_by(them, rig.now); break;
  }
  ASSERT_TRUE(rig.run_until([&] { return us.unfinished() == 0; }, 120s));
  rig.run_for(rig.real_time ? 20ms : 1s);
  std::map<uint64_t, unsigned> arrived;  // by match bits
  for (const Received& one : them.received) arrived[one.header.put().match_bits] += one.how.error == 0;
  for (size_t i = before; i < us.txs.size(); ++i) {
    const TestTx& tx = us.txs[i];
    ASSERT_EQ(tx.done, 1u);
    const unsigned times = arrived[tx.number];
    EXPECT_LE(times, 1u) << "message " << tx.number;
    if (may_go_again(tx.how)) {
      EXPECT_EQ(times, 0u) << "message " << tx.number << " would come twice: " << tx.how.error;
    }
    ++(may_go_again(tx.how) ? sums.again : tx.how.error == 0 ? sums.well : sums.lost);
  }
}

}  // namespace ulnet::test
