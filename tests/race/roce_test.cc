// Goal: the RoCE provider with real threads that sleep: control and two workers of each of two nodes. Connections come
// about, carry messages both ways, and end, several at a time. Meant for TSan.
#include "lnd/rc/roce/roce.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <thread>

#include "dataplane/host/clock.h"
#include "lnd/net/packet/udp.h"
#include "lnd/rc/wake_signal.h"
#include "tests/payload_bytes.h"

namespace ulnet::rc::roce {
namespace {

constexpr unsigned kWorkers = 2, kAtOnce = 6, kMessages = 20;
#ifdef ULNET_SANITIZED
constexpr unsigned kRounds = 10;
#else
constexpr unsigned kRounds = 40;
#endif
constexpr uint16_t kServicePort = 987;
using Bytes = std::vector<std::byte>;

IpAddress address(unsigned node) {
  return IpAddress::of_v4(0x0A000001 + node);
}

/// Payload that packets refer to until another thread has read it, which may be long after its acknowledgement.
struct Lease {
  std::atomic<unsigned> users{1};  ///< packets, and the sender
  static Lease& of(Loan& loan) { return *static_cast<Lease*>(loan.place()); }
  static void leave(Loan& loan) {
    if (--of(loan).users == 0) loan.give_back();
  }
  static Loan* enter(Loan& loan) {
    if (!loan.is_open()) {
      new (loan.place()) Lease;
      loan.open(&Lease::leave);
    }
    ++of(loan).users;
    return &loan;
  }
};

/// Reads lent payload when its packet was acknowledged long ago, and demands that it is as it was.
class Device {
 public:
  struct Sent {
    std::vector<std::span<const std::byte>> payload;
    Bytes then;
    Loan* loan;
  };
  ~Device() {
    over_ = true;
    thread_.join();
    EXPECT_TRUE(sent_.empty());
  }
  void send(Sent one) {
    const std::lock_guard lock(mutex_);
    sent_.push_back(std::move(one));
  }

 private:
  void run() {
    while (!over_) {
      std::this_thread::sleep_for(1ms);
      std::deque<Sent> done;
      {
        const std::lock_guard lock(mutex_);
        done.swap(sent_);
      }
      for (const Sent& one : done) {
        Bytes now;
        for (const auto piece : one.payload) now.insert(now.end(), piece.begin(), piece.end());
        EXPECT_EQ(now, one.then);
        Lease::leave(*one.loan);
      }
    }
  }
  std::mutex mutex_;
  std::deque<Sent> sent_;
  std::atomic<bool> over_{false};
  std::thread thread_{[this] { run(); }};
};

/// A queue of packets between threads, which may sleep on it.
class Queue final : public WorkerPort {
 public:
  Queue() { EXPECT_TRUE(arrived.open()); }
  void put(const IpAddress& from, Bytes packet) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back({from, std::move(packet)});
    }
    arrived.raise();
  }
  unsigned take(std::span<Arrival> out, Instant) override {
    const std::lock_guard lock(mutex_);
    (void)arrived.clear();
    unsigned count = 0;
    for (; count < out.size() && !waiting_.empty(); waiting_.pop_front()) {
      auto* packet = new Bytes(std::move(waiting_.front().second));
      out[count] = {};
      out[count].source = waiting_.front().first;
      out[count].destination = own;
      out[count].bytes = uint32_t(packet->size() - dpdk::kIpv4Bytes - dpdk::kUdpBytes);
      out[count].piece_count = 1;
      out[count].pieces[0] = *packet;
      out[count++].packet = packet;
    }
    if (!waiting_.empty()) arrived.raise();
    return count;
  }
  void release(const Arrival& arrival) override { delete static_cast<Bytes*>(arrival.packet); }
  void drop(const Arrival& arrival, FrameDrop, Instant) override { release(arrival); }
  bool keep(const Arrival&) override { return false; }
  void let_go(void*) override {}
  unsigned room(Instant) override { return 64; }
  bool send(const Departure& packet, Instant) override {
    if (packet.loan != nullptr && packet.bytes > 0) {
      PayloadCursor cursor = packet.payload, again = packet.payload;
      Bytes then;
      test::payload_append(then, again, packet.bytes);
      device->send({test::payload_pieces(cursor, packet.bytes), std::move(then), Lease::enter(*packet.loan)});
    }
    to[turn_++ % kWorkers]->put(own, test::bytes_of(packet));  // to any worker of the other node
    return true;
  }
  void flush(Instant) override {}
  bool pending() override {
    const std::lock_guard lock(mutex_);
    return !waiting_.empty();
  }

  IpAddress own;
  std::array<Queue*, kWorkers> to{};
  Device* device = nullptr;
  Signal arrived;

 private:
  std::mutex mutex_;
  std::deque<std::pair<IpAddress, Bytes>> waiting_;
  unsigned turn_ = 0;
};

/// A thread that turns one thing, runs what others give it, and sleeps meanwhile.
class Turner {
 public:
  using Turn = std::function<Instant(Instant now)>;  ///< returns until when it may sleep
  Turner(Turn turn, std::vector<int> fds) : turn_(std::move(turn)), fds_(std::move(fds)) {
    EXPECT_TRUE(given_.open());
    thread_ = std::thread([this] { run(); });
  }
  ~Turner() {
    give([this] { over_ = true; });
    thread_.join();
  }
  void give(std::function<void()> job) {
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    given_.raise();
  }

 private:
  void run() {
    for (;;) {
      std::deque<std::function<void()>> jobs;
      (void)given_.clear();
      {
        const std::lock_guard lock(mutex_);
        jobs.swap(jobs_);
      }
      for (const auto& job : jobs) job();
      if (over_) return;
      const Instant now = clock_now();
      const Instant until = turn_(now);
      if (until <= now) continue;
      std::vector<pollfd> all{{given_.fd(), POLLIN, 0}};
      for (const int fd : fds_) all.push_back({fd, POLLIN, 0});
      const auto wait = std::min<Duration>(until - now, 5s);
      (void)::poll(all.data(), all.size(), int(wait / 1ms) + 1);
    }
  }
  Turn turn_;
  std::vector<int> fds_;
  Signal given_;
  std::mutex mutex_;
  std::deque<std::function<void()>> jobs_;
  bool over_ = false;  ///< the thread's
  std::thread thread_;
};

struct Node;
/// One end of a connection.
struct End final : QpUser {
  void received(Qp& qp, uint32_t buffer, uint32_t, Instant) override {
    worker->receive(qp, buffer);
    if (++messages == kMessages) done();
  }
  void sent(Qp& qp, uint64_t token, Instant) override {
    std::ranges::fill(qp.send_buffer(uint32_t(token - 1)), std::byte{0xEE});  // the memory is free again
    if (++acknowledged == kMessages) done();
  }
  void key_closed(Qp&, RemoteKey&, Instant) override {}
  void broken(Qp&, Cause, Instant) override {}
  void drained(Qp& qp, Instant) override {
    worker->release(qp);
    gone();
  }
  Worker* worker = nullptr;
  unsigned messages = 0, acknowledged = 0;
  std::function<void()> done, gone;  ///< called on the worker
};

/// The control thread's part of a node.
struct Node {
  explicit Node(unsigned which) : number(which) {
    provider = *open_provider({.workers = kWorkers, .seed = number + 1});
    for (Queue& queue : queues) queue.own = address(number);
    PortFacts facts;
    facts.name = "port";
    facts.addresses = {address(number)};
    facts.workers = kWorkers;
    const uint8_t port = *provider->add_port(facts);
    provider->set_link(port, {true, {}});
    for (uint16_t i = 0; i < kWorkers; ++i) provider->attach(port, WorkerId{i}, queues[i]);
  }
  void start() {
    for (uint16_t i = 0; i < kWorkers; ++i) {
      Worker& worker = provider->worker(WorkerId{i});
      std::array<int, 4> fds;
      const unsigned count = worker.wait_fds(fds);
      std::vector<int> all(fds.begin(), fds.begin() + count);
      all.push_back(queues[i].arrived.fd());
      const auto turn = [&worker](Instant now) {
        worker.poll(64, now);
        worker.timers(now);
        worker.flush(now);
        return worker.pending() ? kNever : worker.next_deadline();
      };
      workers.push_back(std::make_unique<Turner>(turn, all));
    }
    std::vector<int> fds;
    provider->control().wait_fds(fds);
    control = std::make_unique<Turner>(
        [this](Instant now) {
          Event event;
          while (provider->control().poll({&event, 1}, now) == 1) on(event, now);
          return provider->control().next_deadline();
        },
        fds);
  }
  [[nodiscard]] static QpNeeds needs(uint64_t conn) {
    return {.worker = WorkerId{uint16_t(conn % kWorkers)},
            .receives = kMessages,
            .sends = kMessages,
            .buffer_bytes = 256,
            .work = kMessages};
  }
  void on(const Event& event, Instant now) {
    switch (event.kind) {
      case EventKind::kRequest: provider->control().prepare(event.conn, needs(event.conn / 3), now); break;
      case EventKind::kReady: return ready(event.conn, *event.qp);
      case EventKind::kEstablished: return up(event.conn);
      case EventKind::kFailed: ADD_FAILURE() << cause_text(event.cause); break;
      case EventKind::kClosed: leave(event.conn); break;
      case EventKind::kDevice: break;
    }
  }
  void ready(ConnId conn, Qp& qp) {
    End& end = ends[conn];
    end.worker = &provider->worker(qp.worker);
    end.done = [this, conn, &end] {
      if (end.messages == kMessages && end.acknowledged == kMessages && number == 0)
        control->give([this, conn] { leave(conn); });
    };
    end.gone = [this, conn] {
      control->give([this, conn] {
        provider->control().destroy(conn, clock_now());
        ends.erase(conn);
        const std::lock_guard lock(mutex);
        ++ended;
        changed.notify_all();
      });
    };
    qps[conn] = &qp;
    workers[qp.worker.value]->give([this, conn, &qp, &end] {
      end.worker->adopt(qp, end);
      for (uint32_t i = 0; i < qp.receives; ++i) end.worker->receive(qp, i);
      control->give([this, conn] {
        if (ends.contains(conn)) provider->control().proceed(conn, {}, clock_now());
      });
    });
  }
  void up(ConnId conn) {
    Qp& qp = *qps.at(conn);
    End& end = ends.at(conn);
    workers[qp.worker.value]->give([&qp, &end] {
      for (uint32_t i = 0; i < kMessages; ++i)
        EXPECT_EQ(end.worker->send(qp, i, 100 + i, i + 1, Wake::kYes), Posted::kYes);
    });
  }
  void leave(ConnId conn) {
    if (const auto end = ends.find(conn); end != ends.end()) provider->control().disconnect(conn, clock_now());
  }
  void wait_for(unsigned count) {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, 60s, [&] { return ended >= count; })) << number << ": " << ended;
  }

  const unsigned number;
  std::unique_ptr<RoceProvider> provider;
  std::array<Queue, kWorkers> queues;
  std::map<ConnId, End> ends;  ///< the control thread's
  std::map<ConnId, Qp*> qps;
  std::mutex mutex;
  std::condition_variable changed;
  unsigned ended = 0;
  std::vector<std::unique_ptr<Turner>> workers;
  std::unique_ptr<Turner> control;
};

TEST(RaceRoce, connections_of_nodes_with_threads) {
  Device device;
  Node a(0), b(1);
  for (unsigned i = 0; i < kWorkers; ++i)
    for (Node* node : {&a, &b}) node->queues[i].device = &device;
  for (unsigned i = 0; i < kWorkers; ++i)
    for (Node* node : {&a, &b})
      for (unsigned j = 0; j < kWorkers; ++j) node->queues[i].to[j] = &(node == &a ? b : a).queues[j];
  ASSERT_TRUE(b.provider->control().listen({address(1), kServicePort}));
  a.start();
  b.start();
  for (unsigned round = 0; round < kRounds && !::testing::Test::HasFailure(); ++round) {
    for (unsigned i = 0; i < kAtOnce; ++i)
      a.control->give([&a, i] {
        EXPECT_TRUE(a.provider->control().dial(
            {.local = address(0), .remote = {address(1), kServicePort}, .needs = Node::needs(i)}, clock_now()));
      });
    a.wait_for((round + 1) * kAtOnce);
    b.wait_for((round + 1) * kAtOnce);
  }
  for (Node* node : {&a, &b}) {
    node->workers.clear();  // they are the last that give the control thread something
    node->control.reset();
  }
  EXPECT_EQ(a.provider->connections() + b.provider->connections(), 0u);
  for (Node* node : {&a, &b})
    for (uint16_t i = 0; i < kWorkers; ++i) node->provider->detach(0, WorkerId{i});
}

// Goal: a thread that is woken on the CPU of the thread that rings takes the signal. Without that, it finds its
// descriptor readable and spins, until the scheduler lets the other thread go on.
TEST(RoceBell, a_woken_thread_does_not_spin) {
  constexpr unsigned kRings = 2000;
  Bell bell;
  ASSERT_TRUE(bell.signal.open());
  std::atomic<unsigned> heard{0};
  const auto pin = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  };
  unsigned wakes = 0;
  std::thread sleeper([&] {
    pin();
    while (heard < kRings) {
      pollfd wait{bell.signal.fd(), POLLIN, 0};
      (void)::poll(&wait, 1, -1);
      ++wakes;
      (void)bell.is_rung();
      if (bell.take()) ++heard;
    }
  });
  std::thread ringer([&] {
    pin();
    for (unsigned i = 0; i < kRings; ++i) {
      bell.ring();
      while (heard == i) sched_yield();
    }
  });
  ringer.join();
  sleeper.join();
  EXPECT_LT(wakes, 3 * kRings);
}

}  // namespace
}  // namespace ulnet::rc::roce
