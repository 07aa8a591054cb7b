#include "lnd/rc/roce/counts.h"

namespace ulnet::rc::roce {
namespace {

constexpr std::array<CounterText, size_t(Count::kCount)> kTexts{{
    {"packets_resent", "packets", "requests sent again, after a NAK or a timeout"},
    {"timeouts", "timeouts", "waits for an acknowledgement that ended without one"},
    {"acks_received", "packets", "acknowledgements from peers"},
    {"acks_sent", "packets", "acknowledgements to peers; one may stand for many requests"},
    {"naks_sequence_received", "packets", "a peer missed a request"},
    {"naks_sequence_sent", "packets", "a request of a peer was missing"},
    {"naks_rnr_received", "packets", "a peer had no receive buffer"},
    {"naks_rnr_sent", "packets", "a message met no receive buffer here"},
    {"naks_invalid_received", "packets", "a peer refused a request as invalid: the connection ends"},
    {"naks_invalid_sent", "packets", "an invalid request of a peer was refused: the connection ends"},
    {"naks_access_received", "packets", "a peer refused access to its memory: the connection ends"},
    {"naks_access_sent", "packets", "a peer wrote outside its keys: the connection ends"},
    {"answers_stale", "packets", "answers to requests that were acknowledged before, or never sent"},
    {"duplicates", "packets", "requests that came again"},
    {"out_of_order", "packets", "requests that came behind a missing one, and were dropped"},
    {"packets_kept", "packets", "requests whose payload a router sends on without a copy"},
    {"handed_over", "packets", "packets that came at a queue of another worker than their queue pair's"},
    {"cnps_received", "packets", "congestion notifications from peers"},
    {"cnps_sent", "packets", "congestion notifications to peers, for packets that a switch had marked"},
}};

}  // namespace

const CounterText& text_of(Count count) {
  return kTexts[size_t(count)];
}

}  // namespace ulnet::rc::roce
