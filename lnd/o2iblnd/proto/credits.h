// The credits of one connection, seen from one side: the messages that may be sent, and the credits that are owed to
// the peer. Pure, so that a model can search all orders of events. Source: docs/wire/o2iblnd.md §5.
//
// With depth Q, at most Q messages that use a credit, Q responses and two NOOPs are under way to a side, or wait there.
// Each has one of 2·Q + 2 receive buffers. The two NOOPs need two rules (docs/decisions.md, row 106):
// - A NOOP that returns credits has more than a third of Q, so that at most two are not processed yet.
// - The first NOOP after a keepalive leaves less than the high water of Q, so that only one can follow the keepalive.
// The caller sends a keepalive only after a long silence: all its earlier NOOPs have been processed by then.
#pragma once
#include <cstdint>

#include "dataplane/base/check.h"
#include "lnd/o2iblnd/proto/message.h"

namespace ulnet::o2iblnd {

inline constexpr unsigned kDepthMin = 8, kDepthMax = 255;  ///< announced by this node
inline constexpr unsigned kDepthLeast = 3;                 ///< accepted from a peer: the rules above hold from there on
inline constexpr unsigned kNoopsMax = 2;                   ///< posted to the transport and not completed
[[nodiscard]] constexpr unsigned receive_buffers_of(unsigned depth) {
  return 2 * depth + 2;
}

/// True for the types that use a credit of their sender.
[[nodiscard]] constexpr bool uses_credit(MessageType type) {
  return type == MessageType::kImmediate || type == MessageType::kPutReq || type == MessageType::kGetReq;
}
/// True for the types that reserve room for a response at their sender.
[[nodiscard]] constexpr bool reserves_response(MessageType type) {
  return type == MessageType::kPutReq || type == MessageType::kGetReq;
}
/// True for the responses that end such a reservation.
[[nodiscard]] constexpr bool ends_reservation(MessageType type) {
  return type == MessageType::kPutNak || type == MessageType::kPutAck || type == MessageType::kGetDone;
}

/// Messages of one connection that wait to be sent. Not on the wire.
struct Waiting {                                // not on the wire
  bool credit_free = false;                     ///< PUT_ACK, PUT_NAK, PUT_DONE or GET_DONE
  bool credited = false;                        ///< types that use a credit, in a queue of their own
  MessageType first = MessageType::kImmediate;  ///< the first of that queue
};
/// The message to send now.
enum class NextSend : uint8_t { kNothing, kCreditFree, kCredited, kNoop };

class Credits {
 public:
  Credits() = default;
  /// Requires 2 <= depth <= kDepthMax and 1 <= high_water < depth, as high_water_of() gives it.
  Credits(unsigned depth, unsigned high_water);

  [[nodiscard]] bool may_send(MessageType type) const {
    if (type == MessageType::kNoop) return noops_ < kNoopsMax;
    if (reserves_response(type) && reserved_ == 0) return false;
    return !uses_credit(type) || credits_ > 0;
  }
  /// Which message goes first: one without credit, since it frees resources of the peer; else the first that uses one.
  /// If that one may not leave, a NOOP returns the credits that are due: a message that cannot leave carries nothing.
  [[nodiscard]] NextSend next(const Waiting& waiting) const;
  /// A message is posted. Returns the credits that it carries. Requires may_send(). A NOOP that is not due is a
  /// keepalive.
  [[nodiscard]] uint8_t send(MessageType type) {
    ULNET_CHECK(may_send(type));
    if (uses_credit(type)) --credits_;
    if (reserves_response(type)) --reserved_;
    if (type == MessageType::kNoop) {
      ++noops_;
      keepalive_last_ = owed_ < noop_threshold();
    }
    const auto carried = uint8_t(owed_);
    owed_ = 0;
    return carried;
  }
  /// The transport has completed a NOOP.
  void noop_completed() {
    ULNET_CHECK(noops_ > 0);
    --noops_;
  }
  /// A message has arrived. False (EPROTO): the peer returns more than it got. The caller has matched the cookie of a
  /// response with its request before.
  [[nodiscard]] bool receive(MessageType type, uint8_t carried) {
    if (carried > depth_ - credits_) return false;
    credits_ = uint16_t(credits_ + carried);
    if (!ends_reservation(type)) return true;
    if (reserved_ == depth_) return false;
    ++reserved_;
    return true;
  }
  /// The buffer of a received message is posted again, and the core does not hold the message any longer. `refused`: a
  /// PUT_REQ was answered with PUT_NAK. False (EPROTO): the peer has sent more than it had credits for.
  /// A buffer that returns no credit has to be posted before its message has an effect (docs/decisions.md, row 107).
  /// That is before a PUT_ACK leaves, and before the next request that a response permits.
  [[nodiscard]] bool repost(MessageType type, bool refused = false) {
    if (!returns_credit(type, refused)) return true;
    if (owed_ == depth_) return false;
    ++owed_;
    return true;
  }
  /// A NOOP has to return credits, unless another message leaves now.
  [[nodiscard]] bool noop_due() const { return owed_ >= noop_threshold() && noops_ < kNoopsMax; }

  [[nodiscard]] unsigned depth() const { return depth_; }
  [[nodiscard]] unsigned credits() const { return credits_; }
  [[nodiscard]] unsigned reserved() const { return reserved_; }
  [[nodiscard]] unsigned owed() const { return owed_; }
  [[nodiscard]] unsigned noops() const { return noops_; }
  [[nodiscard]] bool keepalive_last() const { return keepalive_last_; }
  constexpr bool operator==(const Credits&) const = default;

 private:
  /// A PUT_REQ that was accepted gives its credit back with its PUT_DONE.
  static constexpr bool returns_credit(MessageType type, bool refused) {
    return type == MessageType::kImmediate || type == MessageType::kGetReq || type == MessageType::kPutDone ||
           (type == MessageType::kPutReq && refused);
  }
  [[nodiscard]] unsigned noop_threshold() const { return keepalive_last_ ? after_keepalive_ : high_water_; }

  uint16_t depth_ = 0, high_water_ = 0;
  uint16_t after_keepalive_ = 0;  ///< high water of the first NOOP after a keepalive
  uint16_t credits_ = 0;          ///< messages that this side may still send
  uint16_t reserved_ = 0;         ///< responses for which this side may still reserve room
  uint16_t owed_ = 0;             ///< to the peer
  uint8_t noops_ = 0;             ///< of this side, in the transport
  bool keepalive_last_ = false;   ///< the last NOOP of this side was a keepalive
};
static_assert(kDepthMax <= 255, "a message carries all that is owed in one byte");

/// The high water of a connection with this depth: peercredits_hiw of the NI (0: half), scaled by depth / peer_credits.
/// Requires depth >= 2 and peer_credits >= 1.
[[nodiscard]] unsigned high_water_of(unsigned depth, unsigned peer_credits, unsigned peercredits_hiw);

}  // namespace ulnet::o2iblnd
