// The simulated provider alone: faults by seed, limits of a device, and what a test may count on.
#include <map>
#include <set>

#include "dataplane/base/rng.h"
#include "lnd/rc/sim/net.h"
#include "tests/unit/rc/world.h"

namespace ulnet::test {
namespace {

constexpr uint32_t kWindowBytes = 20'000;

/// A node of a random run: it dials, accepts, sends, writes and closes, and checks all events of its queue pairs.
class Node {
 public:
  struct End final : rc::QpUser {
    explicit End(Node& node) : home(node), memory(kWindowBytes) {}
    ~End() = default;
    void received(rc::Qp& at, uint32_t buffer, uint32_t bytes, Instant) override {
      ASSERT_FALSE(is_broken);
      ASSERT_GE(bytes, 4u);
      uint32_t number = 0;
      std::memcpy(&number, at.receive_buffer(buffer).data(), 4);
      EXPECT_EQ(number, came++) << "each message once, in order";
      home.worker().receive(at, buffer);
    }
    void sent(rc::Qp&, uint64_t token, Instant) override {
      EXPECT_FALSE(is_drained);
      EXPECT_GT(token, last_token);
      last_token = token;
    }
    void key_closed(rc::Qp&, rc::RemoteKey&, Instant) override { is_closing = false; }
    void broken(rc::Qp&, rc::Cause cause, Instant) override {
      EXPECT_FALSE(std::exchange(is_broken, true));
      EXPECT_NE(cause, rc::Cause::kRnrExceeded);
    }
    void drained(rc::Qp& of, Instant) override {
      EXPECT_TRUE(is_broken);
      EXPECT_FALSE(std::exchange(is_drained, true));
      home.worker().release(of);
      qp = nullptr;
    }
    Node& home;
    std::vector<std::byte> memory;
    rc::Qp* qp = nullptr;
    rc::RemoteKey key;
    Segment window;
    uint32_t came = 0, given = 0;
    uint64_t last_token = 0;
    bool is_broken = false, is_drained = false, is_closing = false, is_up = false, is_ending = false;
  };

  Node(rc::sim::Net& net, unsigned index, Rng& rng)
      : net_(net), rng_(rng), provider_(net.make_node({address(index)}, 1)), index_(index) {
    listener_ = *control().listen({address(index), kPort});
  }
  static rc::IpAddress address(unsigned index) { return rc::IpAddress::of_v4(0x0A000001 + index); }
  rc::Control& control() { return provider_->control(); }
  rc::Worker& worker() { return provider_->worker(kWorker); }

  void turn(Instant now, bool busy) {
    now_ = now;
    std::array<rc::Event, 4> events;
    const unsigned count = control().poll(events, now);
    for (const rc::Event& event : std::span(events).first(count)) on(event);
    worker().poll(16, now);
    if (busy && ends_.size() < 4 && rng_.one_in(8)) dial();
    for (auto& [id, end] : ends_) act(id, *end, busy);
    worker().flush(now);
    std::erase_if(ends_, [&](const auto& entry) {
      const End& end = *entry.second;
      if (!end.is_ending || (end.qp != nullptr && !end.is_drained)) return false;
      control().destroy(entry.first, now_);
      return true;
    });
  }
  [[nodiscard]] size_t ends() const { return ends_.size(); }
  [[nodiscard]] uint64_t messages() const { return messages_; }

 private:
  void dial() {
    rc::QpNeeds needs = usual_needs();
    const auto id = control().dial({.local = address(index_),
                                    .remote = {address(unsigned(rng_.below(3))), kPort},
                                    .resolve_max = 100ms,
                                    .answer_max = 200ms,
                                    .needs = needs},
                                   now_);
    ASSERT_TRUE(id);
    ends_[*id] = std::make_unique<End>(*this);
  }
  void on(const rc::Event& event) {
    if (event.kind == rc::EventKind::kDevice) return;
    if (event.kind == rc::EventKind::kRequest) {
      if (rng_.one_in(4)) return control().reject(event.conn, data_of("no"), now_);
      ends_[event.conn] = std::make_unique<End>(*this);
      return control().prepare(event.conn, usual_needs(), now_);
    }
    End& end = *ends_.at(event.conn);
    switch (event.kind) {
      case rc::EventKind::kReady:
        end.qp = event.qp;
        worker().adopt(*event.qp, end);
        for (uint32_t i = 0; i < event.qp->receives; ++i) worker().receive(*event.qp, i);
        return control().proceed(event.conn, data_of("x"), now_);
      case rc::EventKind::kEstablished: end.is_up = true; return;
      default: return close(event.conn, end);
    }
  }
  void act(rc::ConnId id, End& end, bool busy) {
    if (end.is_ending) return;
    if (end.is_broken || rng_.one_in(busy ? 200 : 4)) return close(id, end);
    if (!end.is_up || !busy || end.qp == nullptr || end.is_broken) return;
    // 18 buffers are at the peer, which posts each again at once: 6 under way are few enough.
    if (end.given - end.last_token >= 6 || worker().room(*end.qp) == 0) return;
    const uint32_t buffer = end.given % end.qp->sends;
    std::memcpy(end.qp->send_buffer(buffer).data(), &end.given, 4);
    ASSERT_EQ(worker().send(*end.qp, buffer, 4 + uint32_t(rng_.below(4000)), end.given + 1, rc::Wake::kYes),
              rc::Posted::kYes);
    ++end.given;
    ++messages_;
  }
  void close(rc::ConnId id, End& end) {
    if (std::exchange(end.is_ending, true)) return;
    control().disconnect(id, now_);
  }

  rc::sim::Net& net_;
  Rng& rng_;
  std::unique_ptr<rc::Provider> provider_;
  const unsigned index_;
  rc::ListenerId listener_ = 0;
  std::map<rc::ConnId, std::unique_ptr<End>> ends_;
  Instant now_ = kNever;
  uint64_t messages_ = 0;
};

// Goal: three nodes connect, send and close at random, with faults of all kinds. Each message comes at most once and in
// order. Each end breaks once and drains once. In the end nothing is left.
TEST(RcSim, random_faults) {
  uint64_t messages = 0, dropped = 0;
#ifdef ULNET_SANITIZED
  constexpr uint64_t kSeeds = 20;
#else
  constexpr uint64_t kSeeds = 60;
#endif
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    rc::sim::Net net(seed);
    net.rules.lose_one_in = seed % 4 == 0 ? 300 : 0;
    net.rules.local_error_one_in = seed % 4 == 1 ? 400 : 0;
    net.rules.refuse_one_in = seed % 4 == 2 ? 400 : 0;
    net.rules.no_qp_one_in = 10;
    net.rules.delay_max = Duration(rng.below(3'000'000) + 2000);
    net.rules.retries_for = 50ms;
    std::vector<std::unique_ptr<Node>> nodes;
    for (unsigned i = 0; i < 3; ++i) nodes.push_back(std::make_unique<Node>(net, i, rng));
    Instant now = kNever + 1s;
    for (unsigned turn = 0; turn < 3000; ++turn, now += 100us) {
      for (const auto& node : nodes) node->turn(now, turn < 2000);
      if (seed % 5 == 0 && turn % 300 == 150) net.cut(Node::address(0), Node::address(1), turn % 600 == 150);
    }
    net.cut(Node::address(0), Node::address(1), false);
    for (unsigned turn = 0; turn < 20'000; ++turn, now += 100us)
      for (const auto& node : nodes) node->turn(now, false);
    for (const auto& node : nodes) {
      EXPECT_EQ(node->ends(), 0u);
      messages += node->messages();
    }
    EXPECT_EQ(net.conns(), 0u);
    EXPECT_EQ(net.counts.no_buffer, 0u);
    dropped += net.counts.dropped;
  }
  EXPECT_GT(messages, kSeeds * 160);
  EXPECT_GT(dropped, kSeeds);
}

/// A net of two nodes, with rules of the test.
struct Limits : ::testing::Test {
  rc::sim::Net net{7};
  std::unique_ptr<rc::Provider> node = net.make_node({Node::address(0), Node::address(1)}, 1);
  rc::Control& control = node->control();
  Instant now = kNever + 1s;

  rc::Event next() {
    rc::Event event;
    for (int i = 0; i < 1000; ++i, now += 1ms)
      if (control.poll({&event, 1}, now) == 1) return event;
    ADD_FAILURE() << "no event";
    return event;
  }
  rc::ConnId dial() {
    return *control.dial({.local = Node::address(0), .remote = {Node::address(1), kPort}, .needs = usual_needs()}, now);
  }
  void end(rc::ConnId id) {
    control.disconnect(id, now);
    control.destroy(id, now);
  }
};

TEST_F(Limits, a_device_gives_what_it_has) {
  net.rules.receives_max = 10;
  net.rules.work_max = 5;
  net.rules.keys_max = 3;
  const rc::ConnId id = dial();
  const rc::Event event = next();
  ASSERT_EQ(event.kind, rc::EventKind::kReady);
  EXPECT_EQ(event.qp->receives, 10u);
  EXPECT_EQ(event.qp->work, 5u);
  EXPECT_EQ(event.qp->keys, 3u);
  EXPECT_EQ(event.qp->sends, usual_needs().sends);
  end(id);
}

TEST_F(Limits, a_device_without_queue_pairs) {
  net.rules.qps_max = 1;
  const rc::ConnId first = dial();
  EXPECT_EQ(next().kind, rc::EventKind::kReady);
  const rc::ConnId second = dial();
  const rc::Event event = next();
  EXPECT_EQ(event.kind, rc::EventKind::kFailed);
  EXPECT_EQ(event.cause, rc::Cause::kResources);
  end(second);
  end(first);
  const rc::ConnId third = dial();
  EXPECT_EQ(next().kind, rc::EventKind::kReady) << "the first gave its queue pair back";
  end(third);
}

TEST_F(Limits, the_port_goes_and_comes) {
  const rc::ListenerId id = *control.listen({Node::address(0), kPort});
  EXPECT_TRUE(control.device(id).usable);
  net.set_port(Node::address(0), false);
  EXPECT_EQ(next().kind, rc::EventKind::kDevice);
  EXPECT_FALSE(control.device(id).usable);
  net.set_port(Node::address(0), true);
  EXPECT_EQ(next().listener, id);
  EXPECT_TRUE(control.device(id).usable);
  control.unlisten(id);
}

TEST(RcCause, each_has_words) {
  std::set<std::string> texts;
  for (unsigned i = 0; i < rc::kCauses; ++i) texts.insert(rc::cause_text(rc::Cause(i)));
  EXPECT_EQ(texts.size(), rc::kCauses);
}

}  // namespace
}  // namespace ulnet::test
