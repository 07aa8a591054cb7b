// A running node as the plain values of api/show.h: sums over workers, less the counts that `stats reset` set to zero.
// Thread: control. Numbers that workers own are read while they change: each number is right, but two numbers may be a
// moment apart.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "control/api/show.h"
#include "control/control.h"

namespace ulnet {

/// The node's nets, lo first. `only`: just this net; the result is empty if the node does not have it. `closing`: with
/// NIs that are being closed.
[[nodiscard]] std::vector<api::NetShow> net_values(Control& c, std::optional<Net> only, bool closing = false);
[[nodiscard]] api::PeerShow peer_value(Control& c, const Peer& peer);
[[nodiscard]] std::vector<api::RouteShow> route_values(Control& c, bool rules = false);
/// Worker groups that serve the NI, in order.
[[nodiscard]] std::vector<uint16_t> groups_of(const LocalNi& ni, const WorkerGroups& groups);
/// By worker group; empty while there are no pools.
[[nodiscard]] std::vector<api::CptPools> pool_values(Control& c);
/// How a worker's thread spent its time; nothing where the thread is not ours.
using WorkerTimes = std::function<std::optional<api::WorkerTime>(WorkerId)>;
/// `statistics:` and, from verbosity 1 on, the details of api::stats_details_set(). `times` may be empty. The counters
/// of workers count from the start of the node.
[[nodiscard]] config::Doc stats_values_doc(Control& c, int verbosity, const WorkerTimes& times);
/// Makes all counters show 0 from here on, and starts minima and maxima again.
void stats_reset(Control& c);

/// The letters of control/discovery/discovery.h that hold for a peer, e.g. "LPM".
[[nodiscard]] std::string discovery_letters(const Peer& peer, uint32_t sequence);
/// The state of the documents' state machine of a peer (their figure 12) that these bits amount to.
[[nodiscard]] const char* discovery_state(const Peer& peer);

/// Sums as they are shown.
[[nodiscard]] InterfaceTotals totals_of(const LocalNi& ni);
[[nodiscard]] InterfaceTotals totals_of(const PeerNi& ni);
[[nodiscard]] NodeTotals totals_of(const Control& c);

}  // namespace ulnet
