// The connection manager (CM) of RoCE: one machine for each connection, from REQ to DREP. Messages are repeated, and
// answered again if the peer repeats them. No I/O; time and randomness are handed in. Thread: control. Source:
// docs/wire/roce.md §6, §7.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "dataplane/base/rng.h"
#include "lnd/rc/rc.h"
#include "lnd/rc/roce/proto/cm_message.h"

namespace ulnet::rc::roce {

using CmId = uint32_t;  ///< the local comm id: never 0, and not used again for a long time

inline constexpr uint32_t kCmConnsMax = 1u << 16;    ///< connections of one node, in any state
inline constexpr uint32_t kCmRequestsMax = 1024;     ///< of them, those of peers that wait for an answer of this node
inline constexpr uint32_t kCmRequestsOfOneMax = 64;  ///< the same, of one address
inline constexpr Duration kCmRepeatFirst = 500ms;    ///< then twice as long, up to kCmRepeatMost
inline constexpr Duration kCmRepeatMost = 4300ms;    ///< the time that a REQ grants for an answer: code 20
inline constexpr unsigned kCmDisconnectsMax = 4;     ///< DREQs without an answer
inline constexpr Duration kCmMraMost = 60s;          ///< by which a peer may extend a wait

struct CmAddresses {
  IpAddress local, remote;
  constexpr auto operator<=>(const CmAddresses&) const = default;
};

/// Messages to send, and the events of connections, from within received(), timers() and message_came(). Events may
/// call the CM; cm_send() may not.
class CmUser {
 public:
  /// Sends a MAD, or drops it: the CM repeats what matters.
  virtual void cm_send(const CmAddresses& addresses, std::span<const std::byte, kMadBytes> mad) = 0;
  /// The REQ of a peer has come. Nothing: reply() or reject() follows; else the reason of the refusal.
  [[nodiscard]] virtual std::optional<RejReason> cm_requested(CmId id, const CmAddresses& addresses,
                                                              const CmReq& req) = 0;
  /// The peer has agreed. ready() or close() follows.
  virtual void cm_replied(CmId id, const CmRep& rep) = 0;
  /// The peer has this side's REP.
  virtual void cm_established(CmId id) = 0;
  /// The connection is over, or has not come about; the last event. `data`: of a REJ of the peer's consumer.
  virtual void cm_ended(CmId id, Cause cause, std::span<const std::byte> data) = 0;

 protected:
  ~CmUser() = default;
};

class Cm {
 public:
  /// `user` outlives this. `rng`: where ids begin.
  Cm(CmUser& user, Rng& rng);

  /// A connection that this side begins. Nothing: there are too many.
  [[nodiscard]] std::optional<CmId> open(const CmAddresses& addresses);
  /// Sends the REQ; its ids are set here. Without an answer, the connection ends at `give_up`.
  void request(CmId id, CmReq req, Instant give_up, Instant now);
  /// Sends the REP, as request().
  void reply(CmId id, CmRep rep, Instant give_up, Instant now);
  /// After cm_replied(): this side can receive. Sends the RTU.
  void ready(CmId id);
  /// A message has come over the connection, so the peer has the REP. No effect in another state.
  void message_came(CmId id);
  /// Refuses a request of the peer. The connection is gone.
  void reject(CmId id, RejReason reason, std::span<const std::byte> private_data);
  /// Ends the connection in any state. No event of it follows. DREQs are repeated meanwhile.
  void close(CmId id, Instant now);

  /// A MAD of the CM has come. True: it had an effect.
  bool received(const CmAddresses& addresses, std::span<const std::byte, kMadBytes> mad, Instant now);
  /// Repeats and gives up what is due; returns how much.
  unsigned timers(Instant now);
  [[nodiscard]] Instant next_deadline() const { return due_.empty() ? kForever : due_.begin()->first; }

  [[nodiscard]] size_t conns() const { return conns_.size(); }
  [[nodiscard]] bool has(CmId id) const { return conns_.contains(id); }

 private:
  enum class State : uint8_t {
    kOpen,       ///< active: the REQ is to come
    kRequested,  ///< active: the REQ is sent
    kReplied,    ///< active: the REP is here, and ready() is to come
    kAsked,      ///< passive: the REQ is here, and reply() or reject() is to come
    kAnswered,   ///< passive: the REP is sent
    kUp,
    kLeaving  ///< the DREQ is sent; has no user any more
  };
  struct Conn {
    CmId id = 0;
    State state = State::kOpen;
    bool active = false;
    CmAddresses addresses;
    uint64_t transaction = 0;
    uint64_t guid = 0;  ///< of this side's port
    uint32_t qpn = 0;   ///< of this side
    uint32_t remote_id = 0;
    uint64_t remote_guid = 0;
    uint32_t remote_qpn = 0;
    std::array<std::byte, kMadBytes> mad{};  ///< the last one that is repeated
    unsigned repeats = 0;
    Instant at = kForever;  ///< in `due_`
    Instant give_up = kForever;
    Instant left = kForever;  ///< kLeaving: in `leaving_`
  };
  using Key = std::pair<IpAddress, uint64_t>;  ///< of a peer, and a number of it

  [[nodiscard]] Conn* find(CmId id);
  [[nodiscard]] Conn& mine(CmId id);
  /// The connection that a message of the peer is about.
  [[nodiscard]] Conn* find(const CmAddresses& addresses, CmId local, uint32_t remote);
  [[nodiscard]] Conn* add(const CmAddresses& addresses);
  void erase(Conn& conn);
  /// Returns the connection of a former life of the peer, or 0.
  [[nodiscard]] CmId name_remote(Conn& conn, uint32_t id, uint64_t guid, uint32_t qpn);
  void asked_end(const Conn& conn);
  [[nodiscard]] bool may_ask(const IpAddress& address) const;
  void await(Conn& conn, Instant at);
  void send(const Conn& conn) { user_.cm_send(conn.addresses, conn.mad); }
  void send_once(const CmAddresses& addresses, const CmMessage& message);
  void send_and_repeat(Conn& conn, const CmMessage& message, Instant give_up, Instant now);
  void disconnect(Conn& conn, Instant now);
  void end(Conn& conn, Cause cause, std::span<const std::byte> data = {});
  void cancel(const Conn& conn);
  void leave_unheard(Conn& conn);
  void give_up(Conn& conn);
  void end_former(CmId id);
  [[nodiscard]] uint64_t own_transaction(CmId id) const { return uint64_t{transactions_} << 32 | id; }

  bool take(const CmAddresses& addresses, uint64_t transaction, const CmReq& req, Instant now);
  bool take(const CmAddresses& addresses, uint64_t transaction, const CmMra& mra, Instant now);
  bool take(const CmAddresses& addresses, uint64_t transaction, const CmRej& rej, Instant now);
  bool take(const CmAddresses& addresses, uint64_t transaction, const CmRep& rep, Instant now);
  bool take(const CmAddresses& addresses, uint64_t transaction, const CmRtu& rtu, Instant now);
  bool take(const CmAddresses& addresses, uint64_t transaction, const CmDreq& dreq, Instant now);
  bool take(const CmAddresses& addresses, uint64_t transaction, const CmDrep& drep, Instant now);

  CmUser& user_;
  const uint32_t transactions_;
  CmId next_id_;
  std::map<CmId, Conn> conns_;
  std::map<Key, CmId> by_remote_id_;   ///< passive ones: finds repeated REQs
  std::map<Key, CmId> by_remote_qpn_;  ///< finds connections of a former life of the peer
  std::set<std::pair<Instant, CmId>> due_;
  std::set<std::pair<Instant, CmId>> leaving_;  ///< in State::kLeaving, by their begin: the oldest gives way
  uint32_t asked_ = 0;                          ///< connections in State::kAsked
  std::map<IpAddress, uint32_t> asked_of_;      ///< the same, by the peer's address
};

}  // namespace ulnet::rc::roce
