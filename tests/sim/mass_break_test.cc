// What a worker owes control is bounded by the objects that owe it, whatever their number. Two workers with real
// socklnd halves over a transport without network; control is played by the test, and reads its ring slowly.
#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "dataplane/stages/driver_calls.h"
#include "dataplane/stages/post.h"
#include "dataplane/stages/worker.h"
#include "lnd/socklnd/conn.h"
#include "lnd/socklnd/messages.h"
#include "lnd/socklnd/socklnd.h"

namespace ulnet::test {
namespace {

using socklnd::Conn;
using socklnd::ConnSet;
using socklnd::StreamEvent;
using socklnd::StreamEventKind;
using socklnd::StreamId;
using socklnd::ToControl;

/// Streams that bring nothing until all of them break.
class BreakingEngine final : public socklnd::StreamEngine {
 public:
  explicit BreakingEngine(uint32_t most) : most_(most) {}
  Result<StreamId> attach(socklnd::StreamSource, void* owner) override {
    if (owners_.size() == most_) return fail(ENOSPC, "all streams are in use");
    owners_.push_back(owner);
    return StreamId{uint32_t(owners_.size() - 1), 1};
  }
  void receive(StreamId id, std::span<const iovec>, uint32_t) override { receiving_.push_back(id.index); }
  void cancel_receive(StreamId) override {}
  void send(StreamId, std::span<const iovec>, bool) override { ADD_FAILURE() << "nothing is sent here"; }
  void close(StreamId id, bool) override {
    if (!broken_) events_.push_back({StreamEventKind::kReceived, -ECANCELED, owners_[id.index]});
    events_.push_back({StreamEventKind::kClosed, 0, owners_[id.index]});
  }
  uint32_t unsent_bytes(StreamId) override { return 0; }
  void resend_within(StreamId, Duration, Duration) override {}
  unsigned poll(std::span<StreamEvent> out, Instant) override {
    unsigned count = 0;
    for (; count < out.size() && !events_.empty(); ++count) {
      out[count] = events_.front();
      events_.pop_front();
    }
    return count;
  }
  void flush() override {}
  bool pending() override { return !events_.empty(); }
  int wait_fd() const override { return -1; }
  const char* name() const override { return "breaking"; }
  void break_all() {
    broken_ = true;
    for (uint32_t index : receiving_) events_.push_back({StreamEventKind::kReceived, -ECONNRESET, owners_[index]});
    receiving_.clear();
  }

 private:
  const uint32_t most_;
  bool broken_ = false;
  std::vector<void*> owners_;
  std::vector<uint32_t> receiving_;
  std::deque<StreamEvent> events_;
};

constexpr unsigned kWorkers = 2;
constexpr unsigned kLnd = 0;         // in the place of loopback
constexpr uint32_t kConns = 10'000;  // of each worker
constexpr uint32_t kRefused = 100;   // connections for which the engine has no stream

class MassBreak : public testing::Test {
 protected:
  MassBreak() {
    for (unsigned i = 0; i <= kWorkers; ++i) gates_.push_back(std::make_unique<IdleGate>());
    IdleGate* pointers[] = {gates_[0].get(), gates_[1].get()};
    mesh_ = std::make_unique<Mesh>(kWorkers, 1024, 16, pointers, gates_[kWorkers].get());
    view_.epoch = Epoch{1};
    view_.local = &local_;
    view_.peers = &peers_;
    view_.routes = &routes_;
    view_.portals = &portals_;
    mesh_->view.store(&view_);
    for (unsigned i = 0; i < kWorkers; ++i) {
      engines_.push_back(std::make_unique<BreakingEngine>(kConns));
      workers_.push_back(std::make_unique<Worker>(WorkerId{uint16_t(i)}, *mesh_, WorkerSize{}, 1, 1));
      calls_.push_back(std::make_unique<DriverCalls>(*workers_[i], kLnd));
      workers_[i]->add_lnd(kLnd, socklnd::make_sock_lnd(*calls_[i], *engines_[i], {}));
    }
  }
  void send(unsigned worker, LndMsg msg) {
    msg.lnd = kLnd;
    for (; !mesh_->to_worker[worker]->push(msg);) turn();
  }
  void turn() {
    now_ += 1us;
    for (auto& worker : workers_) (void)worker->turn(now_);
  }
  /// Control's side of a turn; returns how many messages there were.
  unsigned read_some(unsigned worker) {
    WorkerMsg msg;
    unsigned count = 0;
    for (; count < 16 && mesh_->to_control[worker]->pop(msg); ++count) on_message(worker, std::get<LndMsg>(msg));
    return count;
  }
  void on_message(unsigned worker, const LndMsg& msg) {
    ++told_[ToControl(msg.kind())];
    switch (ToControl(msg.kind())) {
      case ToControl::kConnClosed: {
        const auto closed = msg.as<socklnd::ConnClosedMsg>();
        EXPECT_EQ(closed.set_id, closed.conn->set->id);
        EXPECT_NE(closed.error, 0);
        EXPECT_EQ(static_cast<Linked<socklnd::SetTag>&>(*closed.conn->set).linked(), true);
        break;
      }
      case ToControl::kConnDead: {
        Conn* conn = msg.as<socklnd::ConnDeadMsg>().conn;
        EXPECT_EQ(conn->phase, socklnd::ConnPhase::kClosed);
        dead_.push_back({worker, conn});
        break;
      }
      default: break;
    }
  }

  std::vector<std::unique_ptr<IdleGate>> gates_;
  std::unique_ptr<Mesh> mesh_;
  LocalView local_;
  PeerTable peers_;
  RouteTable routes_;
  PortalTable portals_;
  ViewSet view_;
  std::vector<std::unique_ptr<BreakingEngine>> engines_;
  std::vector<std::unique_ptr<DriverCalls>> calls_;  // by worker; workers' drivers refer to them
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<PeerSlice>> slices_;
  std::map<ToControl, uint64_t> told_;
  std::vector<std::pair<unsigned, Conn*>> dead_;
  Instant now_{1s};
};

// Goal: twice 10,000 connections that break at one moment, and their sets that are taken back, are all reported, in
// order, however slowly control reads; connections that are refused are reported, too.
TEST_F(MassBreak, ten_thousand_connections_of_each_of_two_workers_break_at_once) {
  std::vector<std::unique_ptr<ConnSet>> sets;
  std::vector<std::unique_ptr<Conn>> conns;
  const auto told = [&](ToControl kind) { return told_[kind]; };
  for (unsigned worker = 0; worker < kWorkers; ++worker)
    for (uint32_t i = 0; i < kConns + kRefused; ++i) {
      ConnSet& set = *sets.emplace_back(std::make_unique<ConnSet>(1));
      slices_.push_back(std::make_unique<PeerSlice>(PeerNiId{i + 1}, 8, 8));
      set.id = worker * 100'000 + i + 1;
      set.ni = NiId{1};
      set.peer_ni = PeerNiId{i + 1};
      set.peer = slices_.back().get();
      Conn& conn = *conns.emplace_back(std::make_unique<Conn>());
      conn.set = &set;
      send(worker, socklnd::SetOpenMsg{&set});
      send(worker, socklnd::ConnAddMsg{&conn, {int64_t{i} + 1}});
    }
  for (int i = 0; i < 100; ++i) turn();
  for (auto& engine : engines_) engine->break_all();
  for (int i = 0; i < 4000; ++i) turn();  // control is busy elsewhere
  const uint64_t all = kWorkers * (kConns + kRefused);
  for (unsigned idle = 0; idle < 3; ++idle) {
    for (unsigned worker = 0; worker < kWorkers; ++worker)
      if (read_some(worker) > 0) idle = 0;
    turn();
  }
  EXPECT_EQ(told(ToControl::kConnClosed), all);
  EXPECT_EQ(told(ToControl::kConnDead), all);
  for (size_t i = 0; i < sets.size(); ++i) send(i < sets.size() / 2 ? 0 : 1, socklnd::SetRetireMsg{sets[i].get()});
  for (int i = 0; i < 1000; ++i) turn();
  for (unsigned idle = 0; idle < 3; ++idle) {
    for (unsigned worker = 0; worker < kWorkers; ++worker)
      if (read_some(worker) > 0) idle = 0;
    turn();
  }
  EXPECT_EQ(told(ToControl::kSetGone), all);
  for (auto& worker : workers_) EXPECT_FALSE(has_waiters(*worker));
}

}  // namespace
}  // namespace ulnet::test
