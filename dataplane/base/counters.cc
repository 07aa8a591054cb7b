#include "dataplane/base/counters.h"

namespace ulnet {
namespace {

constexpr std::array<CounterText, size_t(Stat::kCount)> kStats{{
    {"msgs_alloc", "messages", "messages that exist now", true},
    {"msgs_max", "messages", "largest number of messages at one time", true},
    {"rst_alloc", "trackers", "operations that wait for an ACK or REPLY now", true},
    {"errors", "messages", "operations that ended with an error"},
    {"send_count", "messages", "messages sent that were not routed"},
    {"resend_count", "messages", "messages sent again on another path"},
    {"response_timeout_count", "operations", "operations whose ACK or REPLY did not come in time"},
    {"local_interrupt_count", "messages", "sends that failed: local interface interrupted"},
    {"local_dropped_count", "messages", "sends that failed: dropped locally"},
    {"local_aborted_count", "messages", "sends that failed: aborted locally"},
    {"local_no_route_count", "messages", "sends that failed: no local route"},
    {"local_timeout_count", "messages", "sends that failed: local timeout"},
    {"local_error_count", "messages", "sends that failed: local error, not resent"},
    {"remote_dropped_count", "messages", "sends that failed: the peer dropped or refused"},
    {"remote_error_count", "messages", "sends that failed: remote error"},
    {"remote_timeout_count", "messages", "sends that failed: remote timeout"},
    {"network_timeout_count", "messages", "sends that failed: network timeout"},
    {"failed_resends", "messages", "messages given up after being sent again"},
    {"successful_resends", "messages", "messages that went through after being sent again"},
    {"recv_count", "messages", "messages received for this node"},
    {"route_count", "messages", "messages forwarded"},
    {"drop_count", "messages", "messages dropped on receive or before send"},
    {"send_length", "bytes", "payload sent"},
    {"recv_length", "bytes", "payload received for this node"},
    {"route_length", "bytes", "payload forwarded"},
    {"drop_length", "bytes", "payload dropped"},
}};

constexpr std::array<CounterText, size_t(Drop::kCount)> kDrops{{
    {"routing_disabled", "messages",
     "not for this node, and routing is off: `set routing 1`, or mend the sender's route"},
    {"no_route", "messages", "to be forwarded, but no route to the destination net: `route add`"},
    {"next_hop_down", "messages", "to be forwarded, but every gateway or the destination is believed down"},
    {"route_loop", "messages",
     "to be forwarded to the node that sent it, or seen too often: routers name each other as gateway"},
    {"router_hold_timeout", "messages", "waited longer than router_hold_timeout for a credit or buffer"},
    {"next_hop_full", "messages", "to be forwarded to a next hop that holds its share of buffers and takes nothing"},
    {"no_router_buffer", "messages",
     "to be forwarded while all buffers of a pool were in use and none had moved for 15 s"},
    {"router_shutdown", "messages", "waited for a buffer while routing was switched off"},
    {"router_payload", "messages", "receive of a message to be forwarded broke off"},
    {"no_match", "messages", "no match entry for it"},
    {"portal_range", "messages", "portal number beyond the table"},
    {"portal_closed", "messages", "portal not opened here"},
    {"lazy_full", "messages", "too many messages wait on a lazy portal"},
    {"queue_full", "messages", "the event queue of the matched MD is full, and nobody polls it"},
    {"too_long", "messages", "longer than the matched MD, which does not truncate"},
    {"stale_handle", "messages", "ACK or REPLY for an operation that has ended"},
    {"foreign_handle", "messages", "ACK or REPLY with a handle from before the last start of this node"},
    {"reply_too_long", "messages", "REPLY longer than its MD, which does not truncate"},
    {"reply_twice", "messages", "second ACK or REPLY of one operation"},
    {"md_unlinked", "messages", "its MD was unlinked meanwhile"},
    {"receive_failed", "messages", "connection broke while its payload arrived"},
    {"asymmetric_route", "messages", "came through a gateway that is no route back (drop_asym_route)"},
    {"node_stopping", "messages", "arrived while the node was stopping"},
    {"no_message", "messages", "its sender held its share of the messages for too long and took no answers"},
    {"no_connection", "messages", "ACK or REPLY to a node to which no connection could be made in time"},
    {"fault", "messages", "lost on receive by a drop rule: `ulnetctl fault drop show`"},
    {"copy", "messages", "sent again over another path, but the first had come"},
    {"copy_unknown", "messages", "sent again over another path, and nothing says whether the first had come"},
}};

constexpr std::array<CounterText, size_t(TurnStat::kCount)> kTurn{{
    {"turns", "turns", "turns of the worker loop"},
    {"turns_busy", "turns", "turns that found work"},
    {"sleeps", "sleeps", "times that the worker slept; in mode attach: its turns"},
    {"inbox_items", "items", "items taken from rings"},
    {"lnd_events", "events", "completions reaped from LNDs"},
    {"timers_fired", "timers", "deadlines that passed"},
    {"ring_full", "items", "items that found a ring full and waited"},
    {"parked", "messages", "messages parked for a peer that control had to look up"},
    {"parked_refused", "messages", "messages refused because too many were parked"},
    {"held_no_message", "messages", "receives held back because their sender held its share of the message pool"},
    {"held_router", "messages", "receives held back for a router credit or buffer"},
    {"forwarded_uncopied", "messages", "receives to be forwarded whose payload stayed in the kernel or in its packets"},
    {"views_seen", "views", "view epochs taken over"},
}};

static_assert(kStats.back().name != nullptr && kDrops.back().name != nullptr && kTurn.back().name != nullptr,
              "each counter has its text");

constexpr std::array<CounterText, size_t(NiTraffic::kCount)> kTraffic{{
    {"send_count", "messages", "messages sent over the interface"},
    {"recv_count", "messages", "messages received over the interface"},
    {"drop_count", "messages", "messages whose send failed, or that were dropped on receive"},
}};

constexpr std::array<CounterText, size_t(NiLatency::kCount)> kLatencies{{
    {"put_egress", "ns", "from the start of a PUT at the worker that sends it until the driver has sent it"},
    {"get_rtt", "ns", "from a GET to its REPLY"},
    {"put_ack", "ns", "from a PUT to its ACK"},
}};

constexpr std::array<CounterText, size_t(NiFailure::kCount)> kNiFailures{{
    {"interrupts", "messages", "sends that failed: local interface interrupted"},
    {"dropped", "messages", "sends that failed: dropped locally"},
    {"aborted", "messages", "sends that failed: aborted locally"},
    {"no route", "messages", "sends that failed: no local route"},
    {"timeouts", "messages", "sends that failed: local timeout"},
    {"error", "messages", "sends that failed: local error"},
}};

constexpr std::array<CounterText, size_t(PeerFailure::kCount)> kPeerFailures{{
    {"dropped", "messages", "sends that failed: the peer dropped or refused"},
    {"timeout", "messages", "sends that failed: remote timeout"},
    {"error", "messages", "sends that failed: remote error"},
    {"network timeout", "messages", "sends that failed: network timeout"},
}};

}  // namespace

template <>
std::span<const CounterText> texts_of<Stat>() {
  return kStats;
}
template <>
std::span<const CounterText> texts_of<Drop>() {
  return kDrops;
}
template <>
std::span<const CounterText> texts_of<TurnStat>() {
  return kTurn;
}
template <>
std::span<const CounterText> texts_of<NiTraffic>() {
  return kTraffic;
}
template <>
std::span<const CounterText> texts_of<NiLatency>() {
  return kLatencies;
}
template <>
std::span<const CounterText> texts_of<NiFailure>() {
  return kNiFailures;
}
template <>
std::span<const CounterText> texts_of<PeerFailure>() {
  return kPeerFailures;
}

}  // namespace ulnet
