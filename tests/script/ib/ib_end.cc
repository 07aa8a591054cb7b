#include "tests/script/ib/ib_end.h"

namespace ulnet::test {

using namespace o2iblnd;

namespace {}  // namespace

IbEnd::IbEnd(IbNet& in, unsigned which, const IbConfig& config, unsigned staging_blocks)
    : IbCore(in, which, config, staging_blocks) {
  listener_ = *provider->control().listen({ib_address(which), kIbPort});
}

IbEnd::~IbEnd() {
  provider->control().unlisten(listener_);
}

void IbEnd::control_turn() {
  std::array<rc::Event, 4> events;
  const unsigned count = provider->control().poll(events, now);
  for (const rc::Event& event : std::span(events).first(count)) on(event);
}

void IbEnd::dial(unsigned to) {
  ++peers_dialled;
  const auto id = provider->control().dial({.local = ib_address(number),
                                            .remote = {ib_address(to), kIbPort},
                                            .resolve_max = 1s,
                                            .answer_max = 2s,
                                            .needs = ib_needs()},
                                           now);
  ASSERT_TRUE(id);
  conns[*id].active = true;
}

void IbEnd::on(const rc::Event& event) {
  rc::Control& control = provider->control();
  ConnCtl& ctl = conns[event.conn];
  const unsigned peer = unsigned(event.remote.address.v4() - 0x0A000001);
  switch (event.kind) {
    case rc::EventKind::kRequest: return control.prepare(event.conn, ib_needs(), now);
    case rc::EventKind::kReady: {
      ctl.conn = std::make_unique<Conn>(kDepth, event.qp->sends, nullptr);
      Conn& conn = *ctl.conn;
      conn.id = event.conn;
      conn.qp = event.qp;
      conn.ni = kIbNi;
      conn.peer_ni = PeerNiId{kPeerNi.value + peer};
      conn.nid = ib_nid(peer);
      ctl.facts = {ib_ends(number, peer), kDepth, uint16_t(high_water_of(kDepth, kDepth, 0))};
      return to_worker(ConnAdoptMsg{&conn});
    }
    case rc::EventKind::kEstablished: ctl.up = true; return to_worker(ConnUpMsg{ctl.conn.get(), &ctl.facts});
    case rc::EventKind::kFailed:
    case rc::EventKind::kClosed:
      control.disconnect(event.conn, now);
      if (ctl.active && !ctl.up)
        to_worker(PeerFailMsg{kIbNi, PeerNiId{kPeerNi.value + peer}, {-ECONNREFUSED, LndStatus::kRemoteDropped}});
      if (ctl.conn != nullptr) {
        if (!std::exchange(ctl.closed, true))
          to_worker(ConnCloseMsg{ctl.conn.get(), {-ECONNRESET, LndStatus::kRemoteDropped}});
        return;
      }
      control.destroy(event.conn, now);
      conns.erase(event.conn);
      return;
    case rc::EventKind::kDevice: return;
  }
}

void IbEnd::from_worker(const LndMsg& msg) {
  rc::Control& control = provider->control();
  switch (ToControl(msg.kind())) {
    case ToControl::kConnWanted: {
      const auto wanted = msg.as<ConnWantedMsg>();
      return dial(wanted.peer_ni.value - kPeerNi.value);
    }
    case ToControl::kConnAdopted: {
      const rc::ConnId id = msg.as<ConnAdoptedMsg>().conn->id;
      if (!conns.at(id).closed) control.proceed(id, {}, now);
      return;
    }
    case ToControl::kConnEnded: {
      const auto end = msg.as<ConnEndedMsg>();
      control.disconnect(end.conn->id, now);
      ++conns_ended;
      if (end.conn->fault != PeerFault::kNone) faults.push_back({end.conn->fault, end.how.error});
      if (!std::exchange(conns.at(end.conn->id).closed, true)) to_worker(ConnCloseMsg{end.conn, end.how});
      return;
    }
    case ToControl::kConnDead: {
      const rc::ConnId id = msg.as<ConnDeadMsg>().conn->id;
      control.destroy(id, now);
      conns.erase(id);
      return;
    }
    case ToControl::kConnUnwanted: ++withdrawn; return;
    case ToControl::kNiFlushed: return;
  }
}

}  // namespace ulnet::test
