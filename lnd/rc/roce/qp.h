// A queue pair of RoCE. Control makes it and frees it. From adopt() to release() it belongs to its worker, but for the
// atomic members.
#pragma once
#include <atomic>
#include <memory>

#include "dataplane/base/list.h"
#include "dataplane/base/wheel.h"
#include "lnd/rc/roce/keys.h"
#include "lnd/rc/roce/loan.h"
#include "lnd/rc/roce/proto/frame.h"
#include "lnd/rc/roce/regions.h"
#include "lnd/rc/roce/requester.h"
#include "lnd/rc/roce/responder.h"

namespace ulnet::rc::roce {

/// The half that needs the peer's numbers. Made when they are known.
struct Sender {
  Sender(const FlowAddresses& flow, uint32_t peer_qpn, const RequesterConfig& config, Counts& counts)
      : head(flow),
        remote_qpn(peer_qpn),
        requester(config, counts),
        loan_count(requester.places()),
        loans(std::make_unique<Loan[]>(loan_count)) {}
  /// No packet of a port refers to memory of this queue pair, and none will.
  [[nodiscard]] bool end_loans() {
    bool ended = true;
    for (uint32_t i = 0; i < loan_count; ++i) ended = loans[i].end() && ended;
    return ended;
  }
  const FrameHead head;
  const uint32_t remote_qpn;
  Requester requester;
  const uint32_t loan_count;
  const std::unique_ptr<Loan[]> loans;  ///< by Step::place
};

struct ReadyTag {};
struct SettleTag {};
struct OwedTag {};
struct LentTag {};
struct RoceQp final : Qp, Timer, Linked<ReadyTag>, Linked<SettleTag>, Linked<OwedTag>, Linked<LentTag> {
  RoceQp(const ResponderConfig& config, uint32_t key_count, Counts& port_counts, Rng& rng)
      : counts(port_counts), key_table(key_count, rng), responder(config, key_table, counts) {}
  // Constant.
  uint32_t number = 0;
  uint8_t port = 0;
  uint32_t mtu = 0;  ///< payload of a packet
  IpAddress local, remote;
  const RegionTable* regions = nullptr;
  std::unique_ptr<std::byte[]> memory;  ///< of the receive and send buffers

  // From control to the worker, with WorkerRings::looks.
  std::atomic<Sender*> made{nullptr};
  std::atomic<Cause> cause{Cause::kNone};  ///< why the connection has ended, if control was first
  std::atomic<bool> disconnected{false};   ///< Control::disconnect() was called

  // The worker's.
  QpUser* user = nullptr;
  Sender* sender = nullptr;
  Counts& counts;
  KeyTable key_table;
  Responder responder;
  RemoteKey* closed_first = nullptr;  ///< closed, and not reported yet; linked by RemoteKey::provider
  RemoteKey* closed_last = nullptr;
  bool live = false;          ///< a message of the peer has come
  bool is_broken = false;     ///< the user knows
  bool is_drained = false;    ///< the same
  bool cnp_due = false;       ///< a packet came through congestion
  Instant cnp_next = kNever;  ///< the next CNP not before this
  Cause owed = Cause::kNone;  ///< of the note that control has not got yet, if it is about a failure
};
[[nodiscard]] inline RoceQp& roce_qp(Qp& qp) {
  return static_cast<RoceQp&>(qp);
}

}  // namespace ulnet::rc::roce
