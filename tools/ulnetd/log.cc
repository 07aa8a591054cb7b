#include "tools/ulnetd/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

namespace ulnet {

struct LogWriter::State {
  struct Line {
    std::string text;
    uint64_t lost_before = 0;  // lines that found no room between the previous line and this one
  };

  State(int to, std::string begin) : fd(fcntl(to, F_DUPFD_CLOEXEC, 0)), prefix(std::move(begin)) {}
  ~State() {
    if (fd >= 0) close(fd);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const int fd;
  const std::string prefix;
  std::mutex mutex;
  std::condition_variable changed;
  // Under `mutex`:
  std::deque<Line> lines;
  size_t bytes = 0;   // of `lines`
  uint64_t lost = 0;  // found no room after the last line of `lines`
  bool stop = false;
  bool ended = false;
  // The writing thread's own:
  uint64_t missing = 0;      // lines lost and not yet reported
  int error = 0;             // of the last write; 0: the queue was full
  bool broken_line = false;  // a line was written in part
};

namespace {

constexpr size_t kLineExtra = 64;  // memory of a queued line besides its text

/// Writes all of `text`. Errors: errno; `written`: a part went out.
int write_text(int fd, std::string_view text, bool& written) {
  written = false;
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count > 0) {
      written = true;
      text.remove_prefix(size_t(count));
    } else if (count < 0 && errno == EAGAIN) {  // another process has made the descriptor non-blocking
      pollfd one{fd, POLLOUT, 0};
      (void)::poll(&one, 1, -1);
    } else if (count == 0 || errno != EINTR) {
      return count == 0 ? EIO : errno;
    }
  }
  return 0;
}

/// Blocks all signals for the threads that start during its lifetime. The program's signals belong to other threads. A
/// write() to a closed pipe then returns an error and raises no SIGPIPE.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

LogWriter::LogWriter(int fd, std::string prefix) : state_(std::make_shared<State>(fd, std::move(prefix))) {
  const SignalsBlocked blocked;
  std::thread([state = state_] { write_all(*state); }).detach();
}

LogWriter::~LogWriter() {
  std::unique_lock lock(state_->mutex);
  state_->stop = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, kFlushMax, [this] { return state_->ended; });
}

void LogWriter::say(std::string_view line) noexcept {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  state.changed.notify_all();
  const size_t bytes = state.prefix.size() + line.size() + 1 + kLineExtra;
  if (state.bytes + bytes > kBytesMax) {
    ++state.lost;
    return;
  }
  try {
    state.lines.push_back({fmt::format("{}{}\n", state.prefix, line), state.lost});
    state.lost = 0;
    state.bytes += bytes;
  } catch (const std::bad_alloc&) {
    ++state.lost;
  }
}

/// The writing thread. The lock is not held during a write, and the thread allocates nothing.
void LogWriter::write_all(State& state) {
  std::unique_lock lock(state.mutex);
  while (true) {
    state.changed.wait(lock, [&state] { return state.stop || !state.lines.empty() || state.lost > 0; });
    State::Line line;
    if (!state.lines.empty()) {
      line = std::move(state.lines.front());
      state.lines.pop_front();
      state.bytes -= line.text.size() + kLineExtra;
    } else if (state.lost > 0) {
      line.lost_before = std::exchange(state.lost, 0);
    } else {
      break;
    }
    lock.unlock();
    report_missing(state, line.lost_before);
    if (!line.text.empty() && !put(state, line.text)) ++state.missing;
    lock.lock();
  }
  state.ended = true;
  state.changed.notify_all();
}

bool LogWriter::put(State& state, std::string_view text) {
  bool written = false;
  if (state.broken_line) state.error = write_text(state.fd, "\n", written);
  if (!state.broken_line || written) {
    state.error = write_text(state.fd, text, written);
    state.broken_line = state.error != 0 && written;
  }
  return state.error == 0;
}

void LogWriter::report_missing(State& state, uint64_t lost) {
  state.missing += lost;
  if (state.missing == 0) return;
  const char* why = state.error == 0 ? "the reader of the log was too slow" : strerrordesc_np(state.error);
  std::array<char, 256> text;
  const auto end = fmt::format_to_n(text.data(), text.size(), "{}log lines missing here: {} ({})\n", state.prefix,
                                    state.missing, why == nullptr ? "write failed" : why);
  if (put(state, {text.data(), size_t(end.out - text.data())})) state.missing = 0;
}

}  // namespace ulnet
