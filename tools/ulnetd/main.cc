// ulnetd: one LNet node on this machine. The command line and signals; everything else is daemon.h.
#include <fmt/core.h>
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "config/load.h"
#include "config/warn.h"
#include "lnd/net/kernel/devices.h"
#include "tools/ulnetd/check.h"
#include "tools/ulnetd/daemon.h"
#include "tools/ulnetd/log.h"
#ifdef ULNET_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

namespace {

using namespace ulnet;

constexpr int kBadConfiguration = 2;

void notify([[maybe_unused]] const char* state) {
#ifdef ULNET_SYSTEMD
  (void)sd_notify(0, state);
#endif
}

/// Blocks the signals that end a daemon, for this thread and those it starts, and gives the descriptor that reads them.
int signal_descriptor() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

void on_signal(int fd, Daemon& daemon, LogWriter& log) {
  signalfd_siginfo info{};
  while (read(fd, &info, sizeof info) == ssize_t(sizeof info)) {
    if (info.ssi_signo == SIGHUP)
      log.say("SIGHUP ignored: use 'ulnetctl import' to change the running node");
    else
      daemon.stop();
  }
}

/// Loads the configuration; logs all mistakes in it.
bool load(const std::string& path, config::ChangeList& changes, LogWriter& log) {
  config::Imported imported = config::load_file(path);
  for (const config::Problem& warning : imported.warnings) log.say("warning: " + config::problem_text(warning));
  if (imported.errors.empty()) imported.errors = check_configuration(imported.changes, system_devices().get());
  for (const config::Problem& error : imported.errors) log.say("error: " + config::problem_text(error));
  changes = std::move(imported.changes);
  return imported.errors.empty();
}

/// Each connection takes a descriptor, and the usual soft limit of 1024 is made for programs that use select().
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/// Returns each freed block of a mebibyte or more to the system at once. Without a fixed threshold, glibc raises the
/// threshold to the largest block that was ever freed, and keeps twice as much. A few large requests would then stay in
/// memory for ever.
void return_large_blocks() {
  (void)mallopt(M_MMAP_THRESHOLD, 1 << 20);
}

struct Arguments {
  std::string config_path, socket;
  bool check = false;
};

int run(const Arguments& arguments, LogWriter& log) {
  const auto say = [&log](const std::string& line) { log.say(line); };
  DaemonOptions options;
  if (!arguments.config_path.empty() && !load(arguments.config_path, options.changes, log)) return kBadConfiguration;
  if (arguments.check) {
    for (const config::Problem& warning : config::changes_warnings(options.changes, nullptr))
      say("warning: " + config::problem_text(warning));
    say(arguments.config_path.empty() ? "nothing to check: give --config" : "the configuration is good");
    return arguments.config_path.empty() ? kBadConfiguration : 0;
  }
  raise_descriptor_limit();
  return_large_blocks();
  const int signals = signal_descriptor();
  options.socket = arguments.socket;
  options.version = ULNET_VERSION;
  options.log = say;
  options.notify = notify;
  say(fmt::format("version {}, pid {}", ULNET_VERSION, getpid()));
  auto daemon = Daemon::start(std::move(options));
  if (!daemon) {
    say(daemon.error().what);
    return 1;
  }
  (*daemon)->watch(signals, [&] { on_signal(signals, **daemon, log); });
  const int status = (*daemon)->run();
  daemon->reset();
  close(signals);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"ulnetd: an LNet node in user space"};
  Arguments arguments;
  bool foreground = false;
  app.add_option("--config", arguments.config_path, "configuration in YAML (config/reference.md); - is standard input");
  app.add_option("--socket", arguments.socket, "path of the control socket, instead of the path in the configuration");
  app.add_flag("--check", arguments.check, "check the configuration and exit: 0 if it is good, else 2");
  app.add_flag("--foreground", foreground, "stay in the foreground; ulnetd always does");
  app.set_version_flag("--version", ULNET_VERSION);
  CLI11_PARSE(app, argc, argv);
  try {
    LogWriter log(STDERR_FILENO, "ulnetd: ");
    try {
      return run(arguments, log);
    } catch (const std::exception& error) {  // the start needs more memory or threads than the system gives
      log.say(error.what());
    }
  } catch (const std::exception&) {  // no thread even for the log
  }
  return 1;
}
