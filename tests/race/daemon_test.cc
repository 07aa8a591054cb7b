// Whole daemons under real threads: three nodes on loopback addresses, their control sockets, traffic through the
// router, views that change meanwhile, and a clean stop. Above all for TSan. Needs no privilege.
#include "tools/ulnetd/daemon.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <thread>

#include "config/load.h"
#include "control/api/client.h"
#include "dataplane/base/nid_text.h"
#include "tests/free_port.h"

namespace ulnet::test {
namespace {

class RunningDaemon {
 public:
  RunningDaemon(const std::string& folder, const std::string& name, uint16_t port, const std::string& yaml)
      : RunningDaemon(
            folder, name,
            fmt::format("ulnet:\n  workers: 2\n  idle: interrupt\n  unprivileged_ports: true\n  accept_port: {}\n"
                        "  memory:\n    connections_per_worker: 64\n    messages_per_worker: 1024\n{}",
                        port, yaml)) {}
  /// With this configuration and no other.
  RunningDaemon(const std::string& folder, const std::string& name, const std::string& text) {
    socket_ = folder + "/" + name + ".sock";
    config::Imported imported = config::load_text(text, name);
    for (const auto& error : imported.errors) ADD_FAILURE() << config::problem_text(error);
    DaemonOptions options;
    options.changes = imported.changes;
    options.socket = socket_;
    options.version = "test";
    options.log = [this](const std::string& line) {
      const std::lock_guard lock(lines_mutex_);
      lines_ += line + "\n";
    };
    options.notify = [this](const char* what) {
      if (std::string_view(what) == "READY=1") ready_ = true;
    };
    EXPECT_EQ(pipe(wake_), 0);
    auto started = Daemon::start(std::move(options));
    if (!started) {
      ADD_FAILURE() << started.error().what;
      return;
    }
    daemon_ = std::move(*started);
    daemon_->watch(wake_[0], [this] {
      char byte;
      (void)!read(wake_[0], &byte, 1);
      daemon_->stop();
    });
    thread_ = std::thread([this] { status_ = daemon_->run(); });
    for (int i = 0; i < 12000 && !ready_; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_TRUE(ready_) << name;
  }
  ~RunningDaemon() {
    if (thread_.joinable()) {
      EXPECT_EQ(stop(), 0);
    }
    daemon_.reset();
    close(wake_[0]);
    close(wake_[1]);
  }
  int stop() {
    (void)!write(wake_[1], "x", 1);
    thread_.join();
    return status_;
  }
  api::Answer call(api::Verb verb, const std::string& object, config::Json args = config::Json::object()) {
    auto client = api::Client::connect({.path = socket_, .role = "test", .version = "test"});
    if (!client) return api::answer_error("test", "connect", client.error().code, client.error().descr);
    api::Request request;
    request.verb = verb;
    request.object = object;
    request.args = std::move(args);
    auto answer = client->call(std::move(request));
    return answer ? *answer : api::answer_error("test", "call", answer.error().code, answer.error().descr);
  }
  api::Answer change(const std::string& yaml) { return change(config::load_text(yaml, "test").changes); }
  api::Answer change(config::ChangeList changes) {
    auto client = api::Client::connect({.path = socket_, .role = "test", .version = "test"});
    if (!client) return api::answer_error("test", "connect", client.error().code, client.error().descr);
    api::Request request;
    request.verb = api::Verb::kChange;
    request.changes = std::move(changes);
    auto answer = client->call(std::move(request));
    return answer ? *answer : api::answer_error("test", "call", answer.error().code, answer.error().descr);
  }
  std::string lines() {
    const std::lock_guard lock(lines_mutex_);
    return lines_;
  }
  std::string ping(const std::string& nid, int timeout_ms = 5000) {
    const api::Answer answer = call(api::Verb::kManage, "ping", {{"nids", {nid}}, {"timeout_ms", timeout_ms}});
    return answer.ok() ? config::emit(answer.doc) : answer.errors.front().descr;
  }

 private:
  std::string socket_;
  int wake_[2] = {-1, -1};
  std::mutex lines_mutex_;
  std::string lines_;  // of the log
  std::unique_ptr<Daemon> daemon_;
  std::thread thread_;
  std::atomic<bool> ready_{false};
  int status_ = -1;
};

// Goal: `ulnet: log` keeps lines of less severity out of the log, from the start and when it is changed.
TEST(Daemon, logs_what_is_severe_enough) {
  const std::string folder = std::filesystem::temp_directory_path() / fmt::format("ulnet-log-{}", getpid());
  std::filesystem::create_directories(folder);
  {
    RunningDaemon node(folder, "node", free_port(),
                       "  log: warning\nnet:\n  - net type: tcp\n    local NI(s):\n      - nid: 127.0.0.1@tcp\n");
    EXPECT_EQ(node.lines(), "");
    EXPECT_EQ(node.change("ulnet:\n  workers: 3\n").warnings,
              std::vector<std::string>{"test:2:12: ulnet.workers takes effect at the next start of ulnetd"});
    EXPECT_EQ(node.lines(), "warning: test:2:12: ulnet.workers takes effect at the next start of ulnetd\n");
    EXPECT_TRUE(node.change("ulnet:\n  log: info\n").ok());
    EXPECT_TRUE(node.change("net:\n  - net type: tcp1\n    nid: 127.0.0.2@tcp1\n").ok());
    EXPECT_NE(node.lines().find("127.0.0.2@tcp1: added"), std::string::npos) << node.lines();
    EXPECT_TRUE(node.change("ulnet:\n  log: error\n  workers: 2\n").ok());
    const std::string before = node.lines();
    EXPECT_TRUE(node.change("ulnet:\n  workers: 4\n").ok());
    EXPECT_EQ(node.lines(), before);
  }
  std::filesystem::remove_all(folder);
}

// Goal: pings pass through a router of real threads while its views change, and all three come to rest.
TEST(Daemon, three_daemons_on_loopback) {
  const std::string folder = std::filesystem::temp_directory_path() / fmt::format("ulnet-race-{}", getpid());
  std::filesystem::create_directories(folder);
  const uint16_t port = free_port();
  {
    const char* net = "net:\n  - net type: {}\n    local NI(s):\n      - nid: {}\n";
    RunningDaemon router(folder, "router", port,
                         "net:\n  - net type: tcp\n    local NI(s):\n      - nid: 127.0.0.2@tcp\n"
                         "  - net type: tcp1\n    local NI(s):\n      - nid: 127.0.0.3@tcp1\n"
                         "buffers:\n  tiny: 64\n  small: 64\n  large: 4\nrouting:\n  enable: 1\n");
    RunningDaemon client(
        folder, "client", port,
        fmt::format(fmt::runtime(net), "tcp", "127.0.0.1@tcp") + "route:\n  - net: tcp1\n    gateway: 127.0.0.2@tcp\n");
    RunningDaemon server(folder, "server", port,
                         "  perf_target: true\n" + fmt::format(fmt::runtime(net), "tcp1", "127.0.0.4@tcp1") +
                             "route:\n  - net: tcp\n    gateway: 127.0.0.3@tcp1\n");
    for (int i = 0; i < 20; ++i) {
      EXPECT_NE(client.ping("127.0.0.4@tcp1").find("primary nid: 127.0.0.4@tcp1"), std::string::npos)
          << client.ping("127.0.0.4@tcp1");
      EXPECT_NE(server.ping("127.0.0.1@tcp").find("primary nid: 127.0.0.1@tcp"), std::string::npos);
      const api::Answer changed =
          router.change(fmt::format("buffers:\n  tiny: {}\n  small: {}\n  large: {}\n", 64 + i, 64 - i, 4 + i % 3));
      EXPECT_TRUE(changed.ok()) << changed.errors.front().descr;
      EXPECT_TRUE(
          client.change(fmt::format("peer:\n  - primary nid: 127.0.1.{}@tcp\n    Multi-Rail: True\n", i + 1)).ok());
      for (const char* object : {"net", "peer", "route", "stats"})
        EXPECT_TRUE(router.call(api::Verb::kShow, object, {{"verbose", 4}}).ok()) << object;
      for (const char* object : {"routing", "global", "export", "status"})
        EXPECT_TRUE(router.call(api::Verb::kShow, object).ok()) << object;
    }
    const Nid inner = nid_parse("127.0.0.2@tcp").value();
    for (const config::NetSet& set : {config::NetSet{.nid = inner, .lnd_tunables = {{"conns_per_peer", 2}}},
                                      config::NetSet{.net = inner.net(), .lnd_tunables = {{"timeout", 9}}}}) {
      const api::Answer changed = router.change({{set, {}}});
      EXPECT_TRUE(changed.ok()) << changed.errors.front().descr;
    }
    const std::string shown = config::emit(router.call(api::Verb::kShow, "net", {{"verbose", 1}, {"net", "tcp"}}).doc);
    EXPECT_NE(shown.find("conns_per_peer: 2\n"), std::string::npos) << shown;
    EXPECT_NE(shown.find("timeout: 9\n"), std::string::npos) << shown;
    EXPECT_NE(client.ping("127.0.0.4@tcp1").find("primary nid: 127.0.0.4@tcp1"), std::string::npos);
    for (const api::CallRow& row : api::protocol()) {
      if (row.call == api::Call::kChange) continue;
      // A watch has no end of its own, so its request is a wrong one.
      const config::Json args =
          row.call == api::Call::kWatch ? config::Json{{"no such argument", 1}} : config::Json::object();
      for (const api::ApiError& error : router.call(row.verb, std::string(row.object), args).errors)
        EXPECT_NE(error.code, -EOPNOTSUPP) << row.object << " is in the table, and nobody answers it";
    }
    EXPECT_EQ(client.ping("127.0.0.9@tcp7"), "failed to ping 127.0.0.9@tcp7: No route to host");
    EXPECT_EQ(server.stop(), 0);
    EXPECT_EQ(router.stop(), 0);
    EXPECT_EQ(client.stop(), 0);
  }
  std::filesystem::remove_all(folder);
}

// Goal: fault rules come and go while workers use them and hold messages for them; no message is lost for good. Method:
// pings in both directions from two threads. At last, all rules are gone, and a ping goes well.
TEST(Daemon, fault_rules_come_and_go_under_traffic) {
  const std::string folder = std::filesystem::temp_directory_path() / fmt::format("ulnet-faults-{}", getpid());
  std::filesystem::create_directories(folder);
  const uint16_t port = free_port();
  {
    const char* net = "net:\n  - net type: tcp\n    local NI(s):\n      - nid: {}\n";
    RunningDaemon left(folder, "left", port, fmt::format(fmt::runtime(net), "127.0.0.1@tcp"));
    RunningDaemon right(folder, "right", port, fmt::format(fmt::runtime(net), "127.0.0.2@tcp"));
    const std::string answer = "primary nid: 127.0.0.2@tcp";
    EXPECT_NE(left.ping("127.0.0.2@tcp").find(answer), std::string::npos);
    std::atomic<bool> over = false;
    std::thread to_right([&] {
      while (!over) (void)left.ping("127.0.0.2@tcp", 500);
    });
    std::thread to_left([&] {
      while (!over) (void)right.ping("127.0.0.1@tcp", 500);
    });
    const auto add = [](RunningDaemon& daemon, config::Json rule) {
      rule["source"] = rule["dest"] = "*@tcp";
      const api::Answer added = daemon.call(api::Verb::kManage, "fault_add", rule);
      EXPECT_TRUE(added.ok()) << added.errors.front().descr;
    };
    for (int i = 0; i < 15; ++i)
      for (RunningDaemon* daemon : {&left, &right}) {
        add(*daemon, {{"rule", "delay"}, {"rate", 1 + i % 2}, {"latency", 1000}});
        add(*daemon, {{"rule", "drop"}, {"rate", 2}, {"health_error", "random"}});
        add(*daemon, {{"rule", "drop"}, {"interval", 1}});
        for (const char* rule : {"drop", "delay"}) {
          EXPECT_TRUE(daemon->call(api::Verb::kShow, "fault", {{"rule", rule}}).ok());
          EXPECT_TRUE(daemon->call(api::Verb::kReset, "fault", {{"rule", rule}}).ok());
          EXPECT_TRUE(daemon->call(api::Verb::kManage, "fault_del", {{"rule", rule}, {"all", true}}).ok());
        }
      }
    over = true;
    to_right.join();
    to_left.join();
    EXPECT_NE(left.ping("127.0.0.2@tcp").find(answer), std::string::npos);
    // Messages that a stopping node delays do not delay its stop.
    add(right, {{"rule", "delay"}, {"rate", 1}, {"latency", 1000}});
    EXPECT_NE(left.ping("127.0.0.2@tcp", 500).find("failed to ping"), std::string::npos);
    EXPECT_EQ(right.stop(), 0);
    EXPECT_EQ(left.stop(), 0);
  }
  std::filesystem::remove_all(folder);
}

// Goal: the last value of `set routing` survives export --backup and a start from the backup, whatever `forwarding` is.
TEST(Daemon, routing_switched_off_stays_off_with_the_backup) {
  const std::string folder = std::filesystem::temp_directory_path() / fmt::format("ulnet-routing-{}", getpid());
  std::filesystem::create_directories(folder);
  const uint16_t port = free_port();
  const std::string router =
      "  forwarding: enabled\nbuffers:\n  tiny: 64\n  small: 64\n  large: 4\n"
      "net:\n  - net type: tcp\n    local NI(s):\n      - nid: 127.0.0.2@tcp\n";
  const auto routes = [](RunningDaemon& daemon) {
    const std::string shown = config::emit(daemon.call(api::Verb::kShow, "routing").doc);
    return shown.find("enable: 1") != std::string::npos;
  };
  const auto backup = [](RunningDaemon& daemon) {
    return config::emit(daemon.call(api::Verb::kShow, "export", {{"backup", true}}).doc);
  };
  std::string off, on;
  {
    RunningDaemon daemon(folder, "first", port, router);
    EXPECT_TRUE(routes(daemon));
    EXPECT_TRUE(daemon.change({{config::SetRouting{false}, {}}}).ok());
    EXPECT_FALSE(routes(daemon));
    off = backup(daemon);
  }
  {
    RunningDaemon daemon(folder, "off", off);
    EXPECT_FALSE(routes(daemon)) << off;
    EXPECT_EQ(backup(daemon), off);
    EXPECT_TRUE(daemon.change({{config::SetRouting{true}, {}}}).ok());
    on = backup(daemon);
  }
  {
    RunningDaemon daemon(folder, "on", on);
    EXPECT_TRUE(routes(daemon)) << on;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ulnet::test
