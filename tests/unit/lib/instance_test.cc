// libulnet with real Instances in one process, their threads and sockets on 127.0.0.0/8. Ports are above 1023, so no
// privileges are needed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>

#include "control/lib/ulnet.hh"
#include "perf/generator/session.h"
#include "perf/generator/target.h"
#include "tests/free_port.h"

namespace ulnet {
namespace {

/// The nodes of this program share a port. Programs that run at the same time must have different ports.
uint16_t port_of_this_process() {
  static const uint16_t port = test::free_port();
  return port;
}

std::string config(const std::string& address) {
  return fmt::format(
      "net:\n    - net type: tcp\n      local NI(s):\n        - nid: {}@tcp\n"
      "ulnet:\n    workers: 1\n    unprivileged_ports: true\n    accept_port: {}\n",
      address, port_of_this_process());
}
std::unique_ptr<Instance> node(const std::string& yaml) {
  auto instance = Instance::open({.config = yaml});
  EXPECT_TRUE(instance.has_value()) << instance.error().what;
  return instance ? std::move(*instance) : nullptr;
}
Nid nid(const std::string& text) {
  return nid_parse(text).value();
}

/// Memory attached to a portal of a node, and its events.
struct Served {
  explicit Served(Instance& instance, uint32_t options = kMdPut | kMdGet | kMdManageRemote)
      : submitter(*instance.submitter_open(WorkerId{0}).value()) {
    EXPECT_TRUE(instance.portal_open(PortalIndex{7}, WorkerId{0}));
    eq = submitter.eq_open(64).value();
    const Segment segment{memory.data(), uint32_t(memory.size())};
    md = submitter.md_bind({.segments = {&segment, 1}, .options = options, .eq = eq}).value();
    EXPECT_TRUE(submitter.me_attach(PortalIndex{7}, ProcessId{}, 1, 0, MePosition::kTail, md));
  }
  Event next(Duration timeout = 30s) {
    Event event;
    EXPECT_EQ(eq_wait(submitter, eq, {&event, 1}, timeout), 1u);
    return event;
  }
  Submitter& submitter;
  std::vector<std::byte> memory = std::vector<std::byte>(1 << 20);
  EqHandle eq;
  MdHandle md;
};

/// One operation at a time from a node of its own.
struct User {
  explicit User(Instance& instance) : submitter(*instance.submitter_open(WorkerId{0}).value()) {
    eq = submitter.eq_open(64).value();
    const Segment segment{memory.data(), uint32_t(memory.size())};
    md = submitter.md_bind({.segments = {&segment, 1}, .eq = eq}).value();
  }
  Event transfer(bool get, const Nid& target, uint32_t length, uint64_t bits = 1) {
    const PutSpec spec{.md = md, .target = {target, kLnetPid}, .portal = 7, .match_bits = bits, .length = length};
    const auto taken = get ? submitter.get(spec) : submitter.put(spec);
    EXPECT_TRUE(taken) << taken.error().what;
    Event event;
    EXPECT_EQ(eq_wait(submitter, eq, {&event, 1}, 60s), 1u);
    EXPECT_TRUE(event.final);
    return event;
  }
  Submitter& submitter;
  std::vector<std::byte> memory = std::vector<std::byte>(1 << 20);
  EqHandle eq;
  MdHandle md;
};

TEST(Instance, without_configuration_talks_to_itself) {
  const auto instance = node("");
  ASSERT_NE(instance, nullptr);
  EXPECT_TRUE(instance->nids().empty());
  Served served(*instance);
  User user(*instance);
  std::fill(user.memory.begin(), user.memory.end(), std::byte{7});
  for (uint32_t length : {0u, 1u, 4096u, 1u << 20}) {
    EXPECT_EQ(user.transfer(false, kLoNid, length).status, 0);
    EXPECT_EQ(served.next().mlength, length);
  }
  EXPECT_EQ(served.memory, user.memory);
  EXPECT_EQ(instance->close(), "");
  EXPECT_EQ(instance->close(), "");
}

TEST(Instance, two_nodes_put_get_and_ping_over_tcp) {
  const auto a = node(config("127.0.0.1")), b = node(config("127.0.0.2"));
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->nids(), std::vector<Nid>{nid("127.0.0.1@tcp")});
  Served served(*b);
  User user(*a);
  for (size_t i = 0; i < user.memory.size(); ++i) user.memory[i] = std::byte(i * 7);
  const Event put = user.transfer(false, nid("127.0.0.2@tcp"), 1 << 20);
  EXPECT_EQ(put.status, 0);
  EXPECT_EQ(put.kind, EventKind::kAck);
  const Event arrived = served.next();
  EXPECT_EQ(arrived.kind, EventKind::kPut);
  EXPECT_EQ(arrived.initiator, nid("127.0.0.1@tcp"));
  EXPECT_EQ(arrived.mlength, 1u << 20);
  EXPECT_EQ(served.memory, user.memory);
  std::fill(user.memory.begin(), user.memory.end(), std::byte{0});
  const Event get = user.transfer(true, nid("127.0.0.2@tcp"), 1 << 20);
  EXPECT_EQ(get.status, 0);
  EXPECT_EQ(get.kind, EventKind::kReply);
  EXPECT_EQ(served.memory, user.memory);
  const auto nids = a->ping(nid("127.0.0.2@tcp"), 10s);
  ASSERT_TRUE(nids) << nids.error().code;
  EXPECT_EQ(*nids, std::vector<Nid>{nid("127.0.0.2@tcp")});
  EXPECT_EQ(a->close(), "");
  EXPECT_EQ(b->close(), "");
}

TEST(Instance, errors_say_where_and_how_to_mend) {
  auto why = [](const std::string& yaml) {
    const auto instance = Instance::open({.config = yaml});
    return instance ? "opened" : instance.error().what;
  };
  EXPECT_NE(why("net:\n    - net type: nonsense\n").find("config:2"), std::string::npos)
      << why("net:\n    - net type: nonsense\n");
  EXPECT_NE(why("ulnet:\n    workers: 1000\n").find("workers"), std::string::npos);
  EXPECT_NE(why(config("203.0.113.1")), "opened");  // not an address of this machine
  const auto missing = Instance::open({.config_path = "/nonexistent/file.yaml"});
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().what.find("/nonexistent/file.yaml"), std::string::npos);
}

TEST(Instance, more_configuration_comes_whole_or_not_at_all) {
  const auto instance = node(fmt::format("ulnet:\n    workers: 1\n    unprivileged_ports: true\n    accept_port: {}\n",
                                         port_of_this_process()));
  ASSERT_NE(instance, nullptr);
  const std::string good = "net:\n    - net type: tcp\n      local NI(s):\n        - nid: 127.0.0.3@tcp\n";
  const std::string bad = good + "route:\n    - net: tcp5\n      gateway: 127.0.0.9@tcp9\n";  // nothing leads there
  EXPECT_FALSE(instance->apply(bad));
  EXPECT_TRUE(instance->nids().empty());
  const auto applied = instance->apply(good);
  EXPECT_TRUE(applied) << applied.error().what;
  EXPECT_EQ(instance->nids().size(), 1u);
}

/// TCP connections that a listener at this address accepted.
size_t connections_at(const std::string& address) {
  unsigned b[4];
  EXPECT_EQ(sscanf(address.c_str(), "%u.%u.%u.%u", &b[0], &b[1], &b[2], &b[3]), 4);
  const std::string at = fmt::format("{:02X}{:02X}{:02X}{:02X}:{:04X}", b[3], b[2], b[1], b[0], port_of_this_process());
  std::ifstream table("/proc/net/tcp");
  size_t count = 0;
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string number, local, remote, state;
    words >> number >> local >> remote >> state;
    count += local == at && state == "01";  // ESTABLISHED
  }
  return count;
}

// Goal: if a parameter of socklnd is set while a node runs, connections that are made later have it.
TEST(Instance, parameters_of_socklnd_follow_at_run_time) {
  for (const bool typed : {true, false}) {
    const auto a = node(config("127.0.0.2"));
    const auto b = node(config("127.0.0.3"));
    ASSERT_TRUE(a != nullptr && b != nullptr);
    for (const auto& one : {a.get(), b.get()})
      ASSERT_TRUE(one->apply(fmt::format("ulnet:\n    socklnd:\n        typed_conns: {}\n", typed)));
    Served served(*b);
    User user(*a);
    EXPECT_EQ(user.transfer(false, nid("127.0.0.3@tcp"), 1 << 20).status, 0);
    EXPECT_EQ(served.next().mlength, 1u << 20);
    // If both nodes connect at once, the connection that is not kept also exists for a moment.
    const auto as_set = [typed] { return (connections_at("127.0.0.3") + connections_at("127.0.0.2") > 1) == typed; };
    for (int wait = 0; wait < 1000 && !as_set(); ++wait) std::this_thread::sleep_for(10ms);
    EXPECT_TRUE(as_set()) << "typed_conns: " << typed;
    EXPECT_EQ(a->close(), "");
    EXPECT_EQ(b->close(), "");
  }
}

TEST(Instance, calls_after_close_are_refused) {
  const auto instance = node("");
  ASSERT_NE(instance, nullptr);
  EXPECT_EQ(instance->close(), "");
  EXPECT_EQ(instance->submitter_open(WorkerId{0}).error().code, -ESHUTDOWN);
  EXPECT_EQ(instance->portal_open(PortalIndex{9}, WorkerId{0}).error().code, -ESHUTDOWN);
  EXPECT_EQ(instance->apply("").error().code, -ESHUTDOWN);
  EXPECT_EQ(instance->ping(kLoNid).error().code, -ESHUTDOWN);
  EXPECT_TRUE(instance->nids().empty());
}

TEST(Instance, close_takes_back_what_is_bound_without_events) {
  const auto instance = node("");
  ASSERT_NE(instance, nullptr);
  Served served(*instance);
  User user(*instance);
  EXPECT_EQ(instance->close(), "");  // no MD is left at a worker
  std::array<Event, 4> events;
  EXPECT_EQ(served.submitter.eq_poll(served.eq, events), 0u);
  EXPECT_EQ(user.submitter.eq_poll(user.eq, events), 0u);
}

TEST(Instance, attached_workers_are_turned_by_the_caller) {
  auto opened = Instance::open({.config = "ulnet:\n    workers: 1\n", .mode = InstanceMode::kAttach});
  // Opening does not wait for a worker: with loopback only it returns before a worker turns.
  ASSERT_TRUE(opened) << opened.error().what;
  Instance& instance = **opened;
  std::atomic<bool> stop{false};
  std::thread turner([&] {
    while (!stop.load())
      if (instance.turn(WorkerId{0}) == 0) instance.wait(WorkerId{0}, 10ms);
  });
  {
    Served served(instance);
    User user(instance);
    EXPECT_EQ(user.transfer(false, kLoNid, 4096).status, 0);
    EXPECT_EQ(instance.busy_cycles(), 0u);
    EXPECT_EQ(instance.close(), "");
  }
  stop = true;
  turner.join();
}

// Goal: the log gets the severities that `ulnet: log` allows, from the start on, and follows a change of it.
TEST(Instance, log_level) {
  std::mutex mutex;
  std::vector<std::string> log;
  const auto has = [&](const char* words) {
    const std::lock_guard lock(mutex);
    return std::any_of(log.begin(), log.end(), [&](const auto& line) { return line.find(words) != std::string::npos; });
  };
  const auto ni = [](const char* address) {
    return fmt::format("net:\n    - net type: tcp\n      local NI(s):\n        - nid: {}@tcp\n", address);
  };
  auto opened = Instance::open({.config = config("127.0.0.1") + "    log: warning\n", .log = [&](const auto& line) {
                                  const std::lock_guard lock(mutex);
                                  log.push_back(line);
                                }});
  ASSERT_TRUE(opened) << opened.error().what;
  Instance& instance = **opened;
  EXPECT_FALSE(has("127.0.0.1@tcp: added"));
  EXPECT_TRUE(instance.apply("ulnet:\n    log: info\n"));
  EXPECT_TRUE(instance.apply(ni("127.0.0.2")));
  EXPECT_TRUE(has("127.0.0.2@tcp: added"));
  EXPECT_TRUE(instance.apply("ulnet:\n    log: error\n"));
  EXPECT_TRUE(instance.apply(ni("127.0.0.3")));
  EXPECT_FALSE(has("127.0.0.3@tcp: added"));
  EXPECT_EQ(instance.close(), "");
}

// If a node gives up at the end, close() returns the cause, and the log has it.
TEST(Instance, attached_and_turned_by_one_thread_it_closes_at_rest) {
  for (const std::string& yaml : {std::string("ulnet:\n    workers: 2\n"), config("127.0.0.1")}) {
    for (const bool turned : {false, true}) {
      auto opened = Instance::open({.config = yaml, .mode = InstanceMode::kAttach});
      ASSERT_TRUE(opened) << opened.error().what;
      Instance& instance = **opened;
      Submitter& submitter = *instance.submitter_open(WorkerId{0}).value();
      for (unsigned w = 0; turned && w < instance.worker_count(); ++w) {
        while (instance.turn(WorkerId{uint16_t(w)}) > 0) {
        }
        instance.wait(WorkerId{uint16_t(w)}, 0ms);
      }
      EXPECT_TRUE(submitter.eq_open(4));
      EXPECT_EQ(instance.close(), "") << yaml;
      EXPECT_EQ(instance.turn(WorkerId{0}), 0u);
    }
  }
}

TEST(Instance, attached_and_not_opened_leaves_nothing_behind) {
  const auto owner = node(config("127.0.0.1"));  // of the address and port
  ASSERT_NE(owner, nullptr);
  std::vector<std::string> log;
  const auto refused = Instance::open({.config = config("127.0.0.1"),
                                       .mode = InstanceMode::kAttach,
                                       .log = [&](const std::string& line) { log.push_back(line); }});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, -EADDRINUSE);
  for (const std::string& line : log) EXPECT_EQ(line.find("without waiting"), std::string::npos) << line;
}

// An attached worker belongs to the thread that turns it. When that thread has ended, no other thread can turn it.
TEST(Instance, an_attached_worker_whose_thread_has_left_is_given_up) {
  auto opened = Instance::open({.config = "ulnet:\n    workers: 2\n", .mode = InstanceMode::kAttach});
  ASSERT_TRUE(opened) << opened.error().what;
  Instance& instance = **opened;
  std::thread([&] {
    while (instance.turn(WorkerId{1}) > 0) {
    }
  }).join();
  EXPECT_NE(instance.close(), "");
}

// An io_uring takes calls of one thread only: a second thread is refused.
TEST(Instance, an_attached_worker_is_turned_by_one_thread_only) {
  auto opened = Instance::open({.config = config("127.0.0.1"), .mode = InstanceMode::kAttach});
  ASSERT_TRUE(opened) << opened.error().what;
  Instance& instance = **opened;
  ASSERT_TRUE(instance.submitter_open(WorkerId{0}));
  while (instance.turn(WorkerId{0}) == 0) std::this_thread::yield();
  ASSERT_TRUE(instance.submitter_open(WorkerId{0}));  // the worker has work
  std::thread([&] {
    for (int i = 0; i < 100; ++i) EXPECT_EQ(instance.turn(WorkerId{0}), 0u);
    instance.wait(WorkerId{0}, 1ms);
  }).join();
  EXPECT_EQ(instance.close(), "");
}

// The other thread sleeps long: close() wakes it.
TEST(Instance, an_attached_worker_is_turned_by_its_thread_until_close_returns) {
  auto opened = Instance::open({.config = "ulnet:\n    workers: 2\n", .mode = InstanceMode::kAttach});
  ASSERT_TRUE(opened) << opened.error().what;
  Instance& instance = **opened;
  std::atomic<bool> stop{false}, turned{false};
  std::thread other([&] {
    while (!stop.load()) {
      if (instance.turn(WorkerId{1}) == 0) instance.wait(WorkerId{1}, turned ? 10ms : 1h);
      turned = true;
    }
  });
  while (instance.submitter_open(WorkerId{1}).has_value() && !turned) std::this_thread::yield();
  EXPECT_EQ(instance.close(), "");
  stop = true;
  other.join();
}

TEST(Instance, opens_and_closes_many_times) {
  for (int i = 0; i < 30; ++i) {
    const auto instance = node(config("127.0.0.1"));
    ASSERT_NE(instance, nullptr) << i;
    if (i % 2 == 0) {
      EXPECT_EQ(instance->close(), "") << i;
    }
  }
}

// Goal: two nodes over TCP pass the generator's check of every byte.
TEST(Instance, verified_load_between_two_nodes) {
  const auto a = node(config("127.0.0.1")), b = node(config("127.0.0.2"));
  ASSERT_TRUE(a && b);
  perf::Target target(*b->submitter_open(WorkerId{0}).value());
  ASSERT_TRUE(b->portal_open(PortalIndex{perf::kTargetPortal}, WorkerId{0}));
  ASSERT_TRUE(target.attach());
  for (perf::Operation operation : {perf::Operation::kPing, perf::Operation::kPut, perf::Operation::kGet}) {
    perf::Job job;
    job.operation = operation;
    job.target.nid = nid("127.0.0.2@tcp");
    job.sizes = {0, 1, 4096, 16384, 100001, 262144};
    job.concurrency = {4};
    job.count = 200;
    job.warmup = 0ms;
    job.verify = true;
    Submitter& submitter = *a->submitter_open(WorkerId{0}).value();
    auto session = perf::Session::start(
        submitter, job, {.busy_cycles = [&] { return a->busy_cycles(); }, .counts = a->counts_reader()});
    ASSERT_TRUE(session) << session.error().what;
    ASSERT_TRUE((*session)->wait(100s));
    for (const perf::RunResult& r : (*session)->results()) {
      EXPECT_TRUE(r.ok()) << int(operation) << " " << r.size;
      EXPECT_EQ(r.completed, 200u);
      EXPECT_EQ(r.verified, 200u);
      ASSERT_EQ(r.rails.size(), 1u);
      EXPECT_EQ(r.rails[0].nid, nid("127.0.0.1@tcp"));
      EXPECT_GE(r.rails[0].messages, r.completed - 4);  // a counter may be a moment behind the event
      EXPECT_EQ(r.workers.size(), a->worker_count());
      ASSERT_TRUE(r.resends);
      EXPECT_EQ(r.resends->resent, 0u);
    }
    a->submitter_close(submitter);
  }
  const auto counts = a->counts_reader();
  EXPECT_EQ(a->close(), "");
  EXPECT_EQ(b->close(), "");
  EXPECT_EQ(target.counts().failed, 0u);
  ASSERT_EQ(counts().rails.size(), 1u) << "not as long as the Instance";
  EXPECT_GE(counts().rails[0].puts_sent, 6 * 200u);
  EXPECT_TRUE(a->counts_reader()().rails.empty()) << "the Instance is closed";
}

}  // namespace
}  // namespace ulnet
