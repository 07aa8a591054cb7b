// An Instance: Host, LNDs and one Node, with the control thread that turns it. Calls of application threads become
// tasks of the control thread; the hard part is the order of the end (see Impl::close).
#include <array>
#include <atomic>
#include <deque>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "config/apply.h"
#include "config/load.h"
#include "control/api/counts_reader.h"
#include "control/lib/boot.h"
#include "control/lib/node_turnables.h"
#include "control/lib/turners.h"
#include "control/lib/ulnet.hh"
#include "control/node.h"
#include "control/node_config.h"
#include "dataplane/base/nid_text.h"
#include "dataplane/host/arena.h"
#include "dataplane/host/clock.h"
#include "dataplane/host/random_seed.h"
#include "dataplane/host/thread_helper.h"
#include "lnd/net/kernel/devices.h"

namespace ulnet {
namespace {

std::string problems_text(const config::Problems& problems) {
  std::string text;
  for (const config::Problem& problem : problems) {
    if (!text.empty()) text += "\n";
    text += config::problem_text(problem);
  }
  return text;
}

/// The errors of the changes, each with its place in the file.
config::Problem change_errors(const config::ChangeList& changes, config::Problems errors) {
  const int code = errors.front().code;
  for (config::Problem& error : errors) error = placed(changes, std::move(error));
  return config::problem_of(code, problems_text(errors));
}

DpdkMode dpdk_mode(InstanceMode mode) {
  switch (mode) {
    case InstanceMode::kSockets: return DpdkMode::kNone;
    case InstanceMode::kOwnEal: return DpdkMode::kOwn;
    case InstanceMode::kAttach: return DpdkMode::kAttach;
  }
  return DpdkMode::kNone;
}

/// How long submitter_open() waits for submitters of the worker that are being closed. A submitter ends when the last
/// of its operations has ended.
constexpr Duration kSubmitterOpenWait = 5s;

}  // namespace

struct Instance::Impl final : ControlTurnable {
  ~Impl() override { (void)close(); }

  config::Checked<void> start(const InstanceOptions& options);
  config::Checked<void> start_node(const config::DesiredState& state, const InstanceOptions& options);
  config::Checked<void> apply(config::ChangeList changes);
  std::string close();
  Result<void> turn_with(WorkerId worker, Turnable& item);
  void turn_without(WorkerId worker, Turnable& item);

  /// Runs `task` on the control thread. False: that thread has ended, or is about to.
  bool post(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      if (ended_) return false;
      tasks_.push_back(std::move(task));
    }
    host->control_gate().notify_stored();
    return true;
  }
  /// Runs `work` on the control thread and waits for its result; `otherwise` when that thread has ended.
  template <class F>
  auto call(F work, decltype(work()) otherwise) -> decltype(work()) {
    std::promise<decltype(work())> promise;
    auto result = promise.get_future();
    if (!post([&] { promise.set_value(work()); })) return otherwise;
    return result.get();
  }

  /// Runs `start` on the control thread and waits for its `done`.
  template <class F>
  config::Checked<RegionId> region_call(F start) {
    std::promise<config::Checked<RegionId>> promise;
    auto result = promise.get_future();
    const auto done = [&](config::Checked<RegionId> how) { promise.set_value(std::move(how)); };
    if (!post([&] { start(done); })) return config::fail(ESHUTDOWN, "the instance is closed");
    return result.get();
  }

  // ControlTurnable
  unsigned turn(Instant now) override;
  [[nodiscard]] bool pending() override {
    const std::lock_guard lock(mutex_);
    return !tasks_.empty() || node->control_pending();
  }
  [[nodiscard]] Instant next_deadline() override { return node->next_deadline(); }
  void wait_fds(std::vector<int>& out) override { node->wait_fds(out); }

  std::unique_ptr<Host> host;
  std::optional<Drivers> drivers;
  std::unique_ptr<Devices> devices;
  std::unique_ptr<HostMemory> memory;  // of the workers; null on a machine with one NUMA node
  std::optional<ThreadHelper> helper;  // its thread starts if a driver needs it
  std::unique_ptr<Node> node;
  struct CountsReader {
    std::function<NodeCounts()> read;
    std::shared_ptr<std::atomic<bool>> over;  // nobody can call it any more
  };
  std::list<CountsReader> counts_readers;  // control thread; they go before the node
  std::vector<std::unique_ptr<Turnable>> turnables;
  Turners turners;  // of mode kAttach
  std::thread thread;
  bool attach = false;
  config::LogLevel log_level = config::LogLevel::kInfo;  // `ulnet: log`; control thread, once it runs

 private:
  std::mutex mutex_;
  std::deque<std::function<void()>> tasks_;  // under mutex_
  bool ended_ = false;                       // under mutex_: no more tasks
  std::atomic<bool> control_ended_{false};   // `thread` is about to end
  std::mutex closing_;                       // one close() at a time
  bool closed_ = false;                      // under closing_
};

unsigned Instance::Impl::turn(Instant now) {
  std::deque<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (auto& task : tasks) task();
  const unsigned done = unsigned(tasks.size()) + node->turn_control(now);
  if (node->stopped()) host->stop_control();
  return done;
}

config::Checked<void> Instance::Impl::start(const InstanceOptions& options) {
  config::Imported imported;
  if (!options.config_path.empty()) {
    imported = config::load_file(options.config_path);
  } else if (!options.config.empty()) {
    imported = config::load_text(options.config, "config");
  }
  if (options.log)
    for (const config::Problem& warning : imported.warnings) options.log("warning: " + config::problem_text(warning));
  if (!imported.errors.empty()) return config::fail(imported.errors.front().code, problems_text(imported.errors));
  config::Problems problems;
  const config::DesiredState state = config::state_of(imported.changes, problems);
  if (!problems.empty()) return config::fail(problems.front().code, problems_text(problems));
  if (auto started = start_node(state, options); !started) return started;

  imported.changes.insert(imported.changes.begin(), {config::LnetConfigure{}, {}});
  node->applier().set_start_up(true);  // nobody turns control yet
  try {
    thread = std::thread([this] {
      host->run_control(*this);
      control_ended_.store(true, std::memory_order_release);
    });
  } catch (const std::system_error&) {
    return config::fail(EAGAIN, "cannot start the control thread");
  }
  auto applied = apply(std::move(imported.changes));
  (void)call([this] { return node->applier().set_start_up(false), true; }, false);
  return applied;
}

config::Checked<void> Instance::Impl::start_node(const config::DesiredState& state, const InstanceOptions& options) {
  attach = options.mode == InstanceMode::kAttach;
  auto host_config = boot_host(state, dpdk_mode(options.mode));
  if (!host_config) return tl::unexpected(host_config.error());
  auto started = Host::start(*host_config);
  if (!started) return tl::unexpected(config::problem_of("cannot start the threads", started.error()));
  host = std::move(*started);

  const uint64_t incarnation = real_time_ns();
  devices = system_devices();
  auto opened = Drivers::open(boot_drivers(state), {.workers = host->worker_count(), .incarnation = incarnation});
  if (!opened) return tl::unexpected(config::problem_of("cannot start the drivers", opened.error()));
  drivers.emplace(std::move(*opened));

  NodeDeps deps;
  deps.seed = random_seed();
  deps.incarnation = incarnation;
  deps.lnds = drivers->entries();
  deps.devices = devices.get();
  memory = worker_memory(host->arenas(), host->topology());
  deps.worker_memory = memory.get();
  log_level = state.ulnet.log;
  if (options.log)
    deps.log = [this, write = options.log](const std::string& line) {
      if (level_of(line) <= log_level) write(line);
    };
  deps.real_threads = true;
  deps.control_gate = &host->control_gate();
  deps.helper = &helper.emplace(host->control_gate());
  auto made = Node::create(boot_node(state, host->placement(), host->topology()), std::move(deps), clock_now());
  if (!made) return tl::unexpected(config::problem_of("cannot make the node", made.error()));
  node = std::move(*made);
  node->applier().set_ulnet_changed([this] {
    log_level = node->control().desired.ulnet.log;
    drivers->retune(boot_drivers(node->control().desired), clock_now());
  });
  turnables = worker_turnables(*node);
  turners.start(turnables);
  for (size_t i = 0; i < turnables.size() && !attach; ++i) {
    if (auto added = host->add(WorkerId{uint16_t(i)}, *turnables[i]); !added) {
      return tl::unexpected(config::problem_of("cannot start a worker", added.error()));
    }
  }
  return {};
}

config::Checked<void> Instance::Impl::apply(config::ChangeList changes) {
  std::promise<config::Problems> promise;
  auto result = promise.get_future();
  const bool posted =
      post([&] { node->apply(changes, [&](const config::Problems& errors) { promise.set_value(errors); }); });
  if (!posted) return config::fail(ESHUTDOWN, "the instance is closed");
  const auto errors = result.get();
  if (errors.empty()) return {};
  return tl::unexpected(change_errors(changes, errors));
}

/// First the node stops while control and all workers turn; in mode kAttach this thread turns the workers that no other
/// thread turns. Then control ends. Then the workers are taken off their threads. The Impl holds the memory, so
/// submitters can be polled until the Impl ends.
std::string Instance::Impl::close() {
  const std::lock_guard once(closing_);
  if (closed_) return "";
  closed_ = true;
  if (thread.joinable()) {
    (void)post([this] { node->stop(clock_now()); });
    if (attach) turners.turn_until(control_ended_, [this] { (void)post([this] { node->stop_at_once(); }); });
    thread.join();
    std::deque<std::function<void()>> late;
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      late.swap(tasks_);
    }
    for (auto& task : late) task();  // somebody waits for each; this thread is control now
    node->applier().abort();
    node->control().pinger->abort();
    node->control().regions->abort();
  }
  if (host != nullptr) {
    for (size_t i = 0; i < turnables.size() && !attach; ++i) (void)host->remove(WorkerId{uint16_t(i)}, *turnables[i]);
    host->stop();
  }
  return node != nullptr ? node->stop_leftovers() : "";
}

Result<void> Instance::Impl::turn_with(WorkerId worker, Turnable& item) {
  const std::lock_guard open(closing_);
  if (closed_) return fail(ESHUTDOWN, "the instance is closed");
  return host->add(worker, item);
}

void Instance::Impl::turn_without(WorkerId worker, Turnable& item) {
  const std::lock_guard open(closing_);
  if (!closed_) (void)host->remove(worker, item);
}

Instance::Instance(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Instance::~Instance() = default;

config::Checked<std::unique_ptr<Instance>> Instance::open(const InstanceOptions& options) {
  auto impl = std::make_unique<Impl>();
  if (auto started = impl->start(options); !started) return tl::unexpected(started.error());
  return std::unique_ptr<Instance>(new Instance(std::move(impl)));
}

std::string Instance::close() {
  return impl_->close();
}

std::vector<Nid> Instance::nids() {
  return impl_->call(
      [this] {
        std::vector<Nid> nids;
        for (const auto& net : impl_->node->control().nis->nets())
          for (const LocalNi& ni : net.nis)
            if (!ni.closing) nids.push_back(ni.nid);
        return nids;
      },
      {});
}

unsigned Instance::worker_count() const {
  return impl_->host->worker_count();
}

std::vector<std::string> Instance::describe() const {
  std::vector<std::string> lines = impl_->host->describe();
  for (const Drivers::Note& one : impl_->drivers->notes())
    lines.push_back(net_text(Net::of(one.net_type, 0)) + " over " + one.note.text);
  return lines;
}

Result<void> Instance::turn_with(WorkerId worker, Turnable& item) {
  return impl_->turn_with(worker, item);
}

void Instance::turn_without(WorkerId worker, Turnable& item) {
  impl_->turn_without(worker, item);
}

Result<Submitter*> Instance::submitter_open(WorkerId worker, const SubmitterSize& size) {
  const Instant begin = clock_now();
  Nap nap;
  for (;;) {
    const auto opened = impl_->call([&] { return impl_->node->submitter_open(worker, size); },
                                    fail(ESHUTDOWN, "the instance is closed"));
    if (opened) (*opened)->locate_memory_by(impl_->host->locator());
    // In mode kAttach the caller may be the one who has to turn the worker.
    const bool again = !opened && opened.error().code == -EAGAIN && !impl_->attach;
    if (!again || clock_now() - begin >= kSubmitterOpenWait) return opened;
    nap.pause();
  }
}

void Instance::submitter_close(Submitter& submitter, std::function<void()> freed) {
  (void)impl_->call([&] { return impl_->node->submitter_close(submitter, std::move(freed)), true; }, false);
}

Result<void> Instance::portal_open(PortalIndex portal, WorkerId home, PortalMode mode, bool lazy) {
  return impl_->call([&] { return impl_->node->portal_open(portal, home, mode, lazy); },
                     fail(ESHUTDOWN, "the instance is closed"));
}

Result<void> Instance::portal_close(PortalIndex portal) {
  return impl_->call([&] { return impl_->node->portal_close(portal); }, fail(ESHUTDOWN, "the instance is closed"));
}

config::Checked<RegionId> Instance::region_add(std::span<std::byte> memory) {
  return impl_->region_call([&](Regions::Done done) { impl_->node->region_add(memory, std::move(done)); });
}

config::Checked<void> Instance::region_remove(RegionId region) {
  const auto removed =
      impl_->region_call([&](Regions::Done done) { impl_->node->region_remove(region, std::move(done)); });
  return removed ? config::Checked<void>{} : tl::unexpected(removed.error());
}

Result<std::vector<Nid>> Instance::ping(const Nid& nid, Duration timeout) {
  std::promise<std::vector<PingAnswer>> promise;
  auto result = promise.get_future();
  const bool posted = impl_->post([&] {
    impl_->node->ping({.nids = {nid}, .timeout = timeout},
                      [&](std::vector<PingAnswer> answers) { promise.set_value(std::move(answers)); });
  });
  if (!posted) return fail(ESHUTDOWN, "the instance is closed");
  const std::vector<PingAnswer> answers = result.get();
  if (answers.size() != 1) return fail(EIO, "no answer");
  if (answers[0].error != 0) return fail(answers[0].error, "no good answer to the ping");
  std::vector<Nid> nids;
  for (const auto& ni : answers[0].info.nis) nids.push_back(ni.nid);
  return nids;
}

config::Checked<void> Instance::apply(const std::string& yaml) {
  config::Imported imported = config::load_text(yaml, "config");
  if (!imported.errors.empty()) return config::fail(imported.errors.front().code, problems_text(imported.errors));
  return impl_->apply(std::move(imported.changes));
}

uint64_t Instance::busy_cycles() const {
  uint64_t sum = 0;
  for (unsigned i = 0; i < impl_->host->worker_count(); ++i) {
    if (const HostThread* thread = impl_->host->thread(WorkerId{uint16_t(i)})) sum += thread->stats().busy_cycles;
  }
  return sum;
}

std::function<NodeCounts()> Instance::counts_reader() {
  auto over = std::make_shared<std::atomic<bool>>(false);
  const Impl::CountsReader* made = impl_->call(
      [&]() -> const Impl::CountsReader* {
        impl_->counts_readers.remove_if(
            [](const Impl::CountsReader& one) { return one.over->load(std::memory_order_acquire); });
        return &impl_->counts_readers.emplace_back(ulnet::counts_reader(impl_->node->control()), over);
      },
      nullptr);
  if (made == nullptr) return [] { return NodeCounts{}; };
  const std::shared_ptr<void> user(nullptr, [over](void*) { over->store(true, std::memory_order_release); });
  return [made, user] { return made->read(); };
}

unsigned Instance::turn(WorkerId worker) {
  return impl_->turners.turn(worker);
}

void Instance::wait(WorkerId worker, Duration timeout) {
  impl_->turners.wait(worker, timeout);
}

}  // namespace ulnet
