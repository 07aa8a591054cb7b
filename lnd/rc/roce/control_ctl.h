// The control half of the RoCE provider: listeners, connections and their queue pairs. Messages of the CM pass through
// rings to and from the workers (messages.h). Thread: control.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "lnd/rc/roce/cm_ctl.h"
#include "lnd/rc/roce/qp.h"
#include "lnd/rc/roce/roce.h"
#include "lnd/rc/roce/worker.h"

namespace ulnet::rc::roce {

class RoceControl final : public Control, CmUser {
 public:
  /// All outlive this.
  RoceControl(Shared& shared, std::vector<RoceWorker*> workers, Rng& rng, const ProviderOptions& options);

  [[nodiscard]] Result<uint8_t> add_port(PortFacts facts);
  void set_link(uint8_t port, const PortLink& link);
  [[nodiscard]] size_t connections() const { return conns_.size(); }

  [[nodiscard]] Result<ListenerId> listen(const Endpoint& at) override;
  void unlisten(ListenerId id) override { listeners_.erase(id); }
  [[nodiscard]] Device device(ListenerId id) const override;
  [[nodiscard]] Result<ConnId> dial(const DialSpec& spec, Instant now) override;
  void prepare(ConnId id, const QpNeeds& needs, Instant now) override;
  void reject(ConnId id, std::span<const std::byte> private_data, Instant now) override;
  void proceed(ConnId id, std::span<const std::byte> private_data, Instant now) override;
  void disconnect(ConnId id, Instant now) override;
  void destroy(ConnId id, Instant now) override;
  [[nodiscard]] Result<void> region_add(RegionId region, std::span<std::byte> memory) override;
  void region_remove(RegionId region) override { regions_.remove(region); }
  unsigned poll(std::span<Event> out, Instant now) override;
  [[nodiscard]] Instant next_deadline() override;
  void wait_fds(std::vector<int>& out) override;

 private:
  struct Port {
    PortFacts facts;
    PortLink link;
  };
  /// Frees a queue pair, and its number.
  struct QpEnd {
    void operator()(RoceQp* qp) const {
      numbers->give_back(qp->number);
      delete qp;
    }
    QpNumbers* numbers;
  };
  using OwnedQp = std::unique_ptr<RoceQp, QpEnd>;
  struct Listener {
    Endpoint at;
    uint8_t port = 0;
  };
  enum class State : uint8_t {
    kAsked,  ///< passive: prepare() or reject() is to come
    kReady,  ///< the queue pair is there, and proceed() is to come
    kSent,   ///< the REQ or the REP is on its way
    kUp,
    kOver  ///< failed or closed
  };
  /// Numbers that both sides of a connection use.
  struct Path {
    uint8_t mtu = 0, traffic_class = 0, ack_timeout = 0;  ///< codes, as in a REQ
    uint8_t retry_count = 0, rnr_retry_count = 0;         ///< of the passive side's requester
    uint32_t flow_label = 0;
  };
  struct Conn {
    ConnId id = 0;
    CmId cm = 0;  ///< 0: the CM has let go
    State state = State::kReady;
    bool active = false, disconnected = false;
    bool told = false;  ///< passive: the user has its kRequest
    uint8_t port = 0;
    ListenerId listener = 0;
    IpAddress local;
    Endpoint remote;
    uint16_t source_port = 0;  ///< active
    Instant give_up = kForever;
    QpNeeds needs;
    Path path;
    Psn expects;              ///< the peer's first packet
    uint32_t remote_qpn = 0;  ///< passive, from the REQ
    Psn first;                ///< the same: of this side
    std::unique_ptr<Sender> sender;
    OwnedQp qp;
  };

  // CmUser
  void cm_send(const CmAddresses& addresses, std::span<const std::byte, kMadBytes> mad) override;
  [[nodiscard]] std::optional<RejReason> cm_requested(CmId id, const CmAddresses& addresses, const CmReq& req) override;
  void cm_replied(CmId id, const CmRep& rep) override;
  void cm_established(CmId id) override;
  void cm_ended(CmId id, Cause cause, std::span<const std::byte> data) override;

  [[nodiscard]] std::optional<uint8_t> port_of(const IpAddress& address) const;
  [[nodiscard]] ListenerId listener_at(const Endpoint& at) const;
  [[nodiscard]] Conn& mine(ConnId id) { return conns_.at(id); }
  [[nodiscard]] Conn& add();
  [[nodiscard]] Conn* of_cm(CmId id);
  void leave_cm(Conn& conn);
  [[nodiscard]] uint16_t choose_source_port(const DialSpec& spec, const Port& port) const;
  [[nodiscard]] OwnedQp make_qp(Conn& conn);
  void made(Conn& conn, OwnedQp qp);
  [[nodiscard]] std::unique_ptr<Sender> make_sender(const Conn& conn, const RoceQp& qp, uint32_t qpn, Psn first,
                                                    uint8_t rnr_retry_count);
  void end(Conn& conn, Cause cause, std::span<const std::byte> data = {});
  [[nodiscard]] WorkerId arrives_at(const Conn& conn) const;
  void say(const Conn& conn, EventKind kind, Cause cause = Cause::kNone, std::span<const std::byte> data = {});
  void forget_events(ConnId id) {
    std::erase_if(events_, [&](const Event& event) { return event.conn == id; });
  }
  void changed(RoceQp& qp);
  void take_mads(Instant now);
  void hear(const Note& note, Instant now);

  Shared& shared_;
  const std::vector<RoceWorker*> workers_;
  Rng& rng_;
  Cm cm_;
  QpNumbers numbers_;
  RegionTable regions_;
  std::vector<Port> ports_;
  std::map<ListenerId, Listener> listeners_;
  std::map<ConnId, Conn> conns_;
  std::map<CmId, ConnId> by_cm_;
  std::set<std::tuple<IpAddress, IpAddress, uint16_t>> source_ports_;  ///< local, remote, and the port in use
  std::deque<Event> events_;
  ListenerId last_listener_;
  ConnId last_conn_;
};

}  // namespace ulnet::rc::roce
