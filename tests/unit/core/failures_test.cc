// The table of failure classes (dataplane/state/failures.h): against the documents, and in effect.
#include "dataplane/state/failures.h"

#include <string>

#include "tests/unit/core/core_rig.h"

namespace ulnet::test {
namespace {

/// The expected row of a class. The middle columns are the table of docs/wire/lnet.md §9.
struct Expected {
  LndStatus status;
  const char* name;
  const char* health_falls;
  const char* resend;  ///< yes*: over another local NI; yes**: to another peer NI
  const char* counted;
};
constexpr Expected kExpected[] = {
    {LndStatus::kOk, "OK", "", "no", ""},
    {LndStatus::kLocalInterrupt, "LOCAL_INTERRUPT", "local", "yes*", "NI interrupts, node local_interrupt_count"},
    {LndStatus::kLocalDropped, "LOCAL_DROPPED", "local", "yes*", "NI dropped, node local_dropped_count"},
    {LndStatus::kLocalAborted, "LOCAL_ABORTED", "local", "yes*", "NI aborted, node local_aborted_count"},
    {LndStatus::kLocalNoRoute, "LOCAL_NO_ROUTE", "local", "yes*", "NI no route, node local_no_route_count"},
    {LndStatus::kLocalError, "LOCAL_ERROR", "local", "no", "NI error, node local_error_count"},
    {LndStatus::kLocalTimeout, "LOCAL_TIMEOUT", "local", "yes*", "NI timeouts, node local_timeout_count"},
    {LndStatus::kRemoteError, "REMOTE_ERROR", "remote", "no", "peer error, node remote_error_count"},
    {LndStatus::kRemoteDropped, "REMOTE_DROPPED", "remote", "yes**", "peer dropped, node remote_dropped_count"},
    {LndStatus::kRemoteTimeout, "REMOTE_TIMEOUT", "remote", "no", "peer timeout, node remote_timeout_count"},
    {LndStatus::kNetworkTimeout, "NETWORK_TIMEOUT", "remote and local", "no",
     "peer network timeout, node network_timeout_count"},
};
static_assert(std::size(kExpected) == kLndStatuses);

/// The failures that have been counted, and the reset of these counters.
struct Counted {
  std::string text;

  template <class Kind, size_t N>
  void take(const char* where, std::array<Counter, N>& counters, Kind first, Kind end) {
    for (size_t i = size_t(first); i < size_t(end); ++i) {
      const uint64_t times = counters[i].get();
      counters[i].set(0);
      if (times == 0) continue;
      text += std::string(text.empty() ? "" : ", ") + where + " " + texts_of<Kind>()[i].name;
      if (times > 1) text += " x " + std::to_string(times);
    }
  }
};

struct FailuresTest : CoreTest {
  MdHandle md;

  FailuresTest() {
    const Segment segment{memory.data(), 64};
    md = *submitter->md_bind({.segments = {&segment, 1}, .eq = eq});
  }
  /// Sends a PUT that fails as `status` says. Returns the counters that have changed.
  std::string counted(LndStatus status) {
    EXPECT_TRUE(submitter->put({.md = md, .target = {tcp(2), kLnetPid}, .portal = 1, .ack = false}));
    bench.settle();
    Tx& tx = *bench.lnd().sent.at(0);
    InterfaceCounters& ni = tx.ni_slice->counters;
    InterfaceCounters& peer = tx.peer->counters;
    bench.lnd().complete_tx(tx, {-EIO, status});
    bench.settle();
    Counted counted;
    counted.take("NI", ni.failures, NiFailure(0), NiFailure::kCount);
    counted.take("NI's peer", ni.peer_failures, PeerFailure(0), PeerFailure::kCount);
    counted.take("peer's NI", peer.failures, NiFailure(0), NiFailure::kCount);
    counted.take("peer", peer.peer_failures, PeerFailure(0), PeerFailure::kCount);
    auto& stats = bench.worker().counters.stats;
    counted.take("node", stats, Stat::kLocalInterruptCount, Stat::kFailedResends);
    return counted.text;
  }
  /// Is the failed PUT on its way again? Ends it.
  bool sent_again() {
    const bool again = !bench.lnd().sent.empty();
    send_all();
    EXPECT_EQ(events().size(), 1u);
    return again;
  }
};

TEST_F(FailuresTest, the_rows_are_those_of_the_documents) {
  for (const Expected& row : kExpected) {
    const FailureClass& failure = failure_class(row.status);
    EXPECT_EQ(failure.status, row.status);
    EXPECT_STREQ(failure.name, row.name);
    std::string falls = failure.peer_at_fault ? "remote" : "";
    if (failure.ni_at_fault) falls += falls.empty() ? "local" : " and local";
    EXPECT_EQ(falls, row.health_falls) << row.name;
    const char* const resends[] = {"no", "yes*", "yes**"};
    EXPECT_STREQ(resends[size_t(failure.resend)], row.resend) << row.name;
  }
}

// Goal: each class counts only at its NI, peer NI and node. A message is sent again only over an interface of the side
// at fault.
// Method: two local NIs, and a peer that first has one NI, then two.
TEST_F(FailuresTest, each_class_counts_and_is_resent_as_its_row_says) {
  for (const bool two_peer_nis : {false, true}) {
    if (two_peer_nis) {
      bench.join(tcp(2), tcp(2));
      bench.join(tcp(2), tcp(3));
      bench.publish();
      bench.settle();
    }
    for (const Expected& row : kExpected) {
      EXPECT_EQ(counted(row.status), row.counted) << row.name;
      const bool again = row.resend == std::string("yes*") || (two_peer_nis && row.resend == std::string("yes**"));
      EXPECT_EQ(sent_again(), again) << row.name << (two_peer_nis ? ", two peer NIs" : ", one peer NI");
    }
  }
  EXPECT_EQ(bench.not_at_rest(), "");
}

}  // namespace
}  // namespace ulnet::test
