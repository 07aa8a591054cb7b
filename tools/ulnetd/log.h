// The log of a program: lines to one descriptor. Threads: say() any. LogWriter has one thread for writing, because a
// pipe without a reader, a stopped terminal or a slow disk may block a write for ever. LogWriter does not format,
// rotate or filter.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "dataplane/base/time.h"

namespace ulnet {

class LogWriter {
 public:
  static constexpr size_t kBytesMax = 1u << 20;  ///< of lines that are not yet written; further lines are lost
  static constexpr Duration kFlushMax = 2s;      ///< time that the destructor waits for the descriptor

  /// Each line begins with `prefix`. `fd` is duplicated, so the caller may close it; it stays blocking or not, since
  /// other processes may share it. Throws std::system_error if the system gives no thread.
  LogWriter(int fd, std::string prefix);
  /// Writes the remaining lines, for at most kFlushMax. After that a thread that still blocks in write() is left behind
  /// and ends with the process.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  /// Hands `line` (without its end) to the writing thread. Never blocks, never fails: a line that finds no room, no
  /// memory or a descriptor that refuses it is counted. The count stands in the log once writing works again.
  void say(std::string_view line) noexcept;

 private:
  struct State;
  static void write_all(State& state);
  static bool put(State& state, std::string_view text);
  static void report_missing(State& state, uint64_t lost);
  std::shared_ptr<State> state_;  // shared with the thread, which may outlive this object
};

}  // namespace ulnet
