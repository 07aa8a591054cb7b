// Queue pairs of our RoCE, two and two, over a simulated wire that loses, repeats and reorders packets, and may have a
// bottleneck. Packets pass through their bytes: headers are encoded and decoded.
#pragma once
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "dataplane/base/rng.h"
#include "lnd/rc/roce/requester.h"
#include "lnd/rc/roce/responder.h"

namespace ulnet::test {

/// `_one_in` n: it happens to one packet in n; 0: never.
struct WireRules {
  uint32_t lose_one_in = 0, repeat_one_in = 0, reorder_one_in = 0;
  Duration delay = 10us;
  uint32_t burst = 256;       ///< packets of one end in one turn
  Duration each{};            ///< of a request in the bottleneck; 0: there is none
  size_t queue_max = 64;      ///< packets in front of the bottleneck; others are lost
  size_t mark_at = SIZE_MAX;  ///< from this many on, a packet is a sign of congestion to its sender
};

inline constexpr uint32_t kRoceBuffers = 16, kRoceBufferBytes = 4096, kRoceWork = 28, kRoceKeys = 8, kRocePieces = 4;

struct RoceEndOptions {
  uint32_t mtu = 1024;
  rc::roce::Psn first{100};
  uint8_t retry_count = 5, rnr_retry_count = 6;
  Duration timeout = 67ms;
  bool post_receives = true;
};

/// One queue pair with its memory.
class RoceEnd {
 public:
  RoceEnd(const RoceEndOptions& options, Rng& rng);
  void send(const std::vector<std::byte>& bytes, uint64_t token);
  void write(std::span<const Segment> from, uint32_t key, const std::byte* to, uint64_t token);
  void receive_all();
  /// Messages and tokens, as they came.
  std::vector<std::vector<std::byte>> messages;
  std::vector<uint64_t> tokens;
  bool repost = true;

  std::vector<std::byte> buffers, send_buffers;
  rc::roce::KeyTable keys;
  rc::roce::Counts counts;
  rc::roce::Requester requester;
  rc::roce::Responder responder;
  uint64_t delivered = 0;  ///< bytes of payload taken

 private:
  friend class RoceWire;
  uint32_t next_send_ = 0;
};

class RoceWire {
 public:
  explicit RoceWire(uint64_t seed) : rng(seed) {}
  /// A pair: its ends are 2 * i and 2 * i + 1.
  void add_pair(const RoceEndOptions& options = {});
  [[nodiscard]] RoceEnd& end(size_t index) { return *ends_[index]; }
  [[nodiscard]] size_t end_count() const { return ends_.size(); }
  /// Turns all ends once, then the time of the next event comes. False: nothing is to come.
  bool step();
  template <class F>
  bool run_until(const F& there, Duration limit = 60s) {
    for (const Instant last = now + limit; !there();)
      if (!step() || now > last) return there();
    return true;
  }
  void run_for(Duration time);
  WireRules rules;
  bool is_cut = false;
  Rng rng;
  Instant now = kNever + 1s;
  uint64_t packets = 0;

 private:
  struct Flight {
    size_t to = 0;
    std::vector<std::byte> bytes;  ///< BTH to payload and padding, and 4 bytes in place of the ICRC
  };
  void turn(size_t index);
  void emit(size_t from, const std::vector<std::byte>& bytes, bool bulk);
  void arrive(const Flight& flight);

  std::vector<std::unique_ptr<RoceEnd>> ends_;
  std::multimap<Instant, Flight> flights_;
  std::deque<Instant> bottleneck_;  ///< when each packet in it leaves
};

[[nodiscard]] std::vector<std::byte> roce_pattern(uint64_t seed, size_t bytes);

}  // namespace ulnet::test
