// When to send again without an answer. The wait follows the measured round trips (RFC 6298), and doubles with each
// repeat up to the timeout that the connection was set up with. A repeat makes round trips ambiguous, so the longer
// wait stays until one is measured again (Karn's rule). The connection fails after the time that its retry count and
// that timeout allow, however many repeats that were. Pure. Thread: the worker of the queue pair.
#pragma once
#include <algorithm>
#include <chrono>

#include "dataplane/base/time.h"

namespace ulnet::rc::roce {

inline constexpr Duration kRetryLeast = 4ms;    ///< a peer whose thread was interrupted is no loss
inline constexpr Duration kRetryFirst = 100ms;  ///< before the first round trip

class RetryTimer {
 public:
  /// `timeout`: of one wait; 0: waits have no end. `retries`: that many repeats after it.
  RetryTimer(Duration timeout, unsigned retries)
      : most_(timeout > Duration{0} ? timeout : kRetryFirst),
        patience_(timeout > Duration{0} ? timeout * (int64_t{retries} + 1) : Duration::max()),
        wait_(std::min(kRetryFirst, most_)) {}

  [[nodiscard]] Instant deadline() const { return deadline_; }
  [[nodiscard]] bool running() const { return deadline_ != kForever; }
  /// Something is under way, and nothing was before.
  void start(Instant now) {
    since_ = now;
    deadline_ = now + wait();
  }
  /// Something was acknowledged. `more`: and something else is under way.
  void progress(bool more, Instant now) {
    if (more) {
      start(now);
    } else {
      stop();
    }
  }
  void stop() { deadline_ = kForever; }
  /// The peer has answered that it needs a pause. Later waits are short again.
  void pause() {
    backoff_ = 0;
    stop();
  }
  /// The deadline has passed. True: send again; false: the connection has failed.
  [[nodiscard]] bool expire(Instant now) {
    if (patience_ != Duration::max() && now - since_ >= patience_) return false;
    backoff_ = std::min(backoff_ + 1, 16u);
    Duration next = wait();
    if (patience_ != Duration::max()) next = std::min(next, since_ + patience_ - now);
    deadline_ = now + next;
    return true;
  }
  /// A round trip of a packet that was sent once.
  void sample(Duration trip) {
    backoff_ = 0;
    if (smooth_ == Duration{0}) {
      smooth_ = trip;
      spread_ = trip / 2;
    } else {
      const Duration off = trip > smooth_ ? trip - smooth_ : smooth_ - trip;
      spread_ += (off - spread_) / 4;
      smooth_ += (trip - smooth_) / 8;
    }
    wait_ = std::clamp(smooth_ + 4 * spread_, std::min(kRetryLeast, most_), most_);
  }
  /// The present one.
  [[nodiscard]] Duration wait() const { return std::min(wait_ * (int64_t{1} << backoff_), most_); }

 private:
  Duration most_, patience_, wait_;
  Duration smooth_{}, spread_{};
  unsigned backoff_ = 0;
  Instant since_ = kNever;  ///< of the last progress
  Instant deadline_ = kForever;
};

}  // namespace ulnet::rc::roce
