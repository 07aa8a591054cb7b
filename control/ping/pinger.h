// `lnetctl ping`: asks nodes for their ping info by a GET to portal 0. Thread: control. It changes nothing that this
// node knows of the peer: that is discovery. Source: docs/wire/lnet.md §4, docs/wire/lnetctl.md §3.6.
#pragma once
#include <array>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "control/control_port.h"
#include "dataplane/wire/ping_info.h"

namespace ulnet {

/// Bytes of ping info that a ping asks for (docs/wire/lnet.md §4.3).
inline constexpr uint32_t kPingSinkBytes = 3960;
/// Pings under way at once; more wait their turn.
inline constexpr size_t kPingsMax = 64;

struct PingRequest {
  std::vector<Nid> nids;
  Nid source;             ///< ANY = choose
  Duration timeout = 1s;  ///< of each
};

struct PingAnswer {
  Nid nid;
  int32_t error = 0;    ///< negative errno; EIO: no answer in time; EPROTO: not a ping info
  wire::PingInfo info;  ///< when error is 0
};

class Pinger {
 public:
  using Done = std::function<void(std::vector<PingAnswer>)>;
  explicit Pinger(ControlPort& port) : port_(port) {}

  /// Pings each of the NIDs; `done` gets the answers in their order, once, from within turn() or abort().
  void start(const PingRequest& request, uint32_t interfaces_max, Done done);
  /// Starts, times out, reports; returns work done.
  unsigned turn(Instant now);
  [[nodiscard]] Instant next_deadline() const;
  /// Gives up everything with ESHUTDOWN; at_rest() tells when the memory is back.
  void abort();
  [[nodiscard]] bool at_rest() const { return ops_.empty() && queue_.empty(); }

 private:
  struct Batch {
    std::vector<PingAnswer> answers;
    size_t open = 0;
    Done done;
  };
  struct Op final : PortUser {
    std::shared_ptr<Batch> batch;
    size_t index = 0;
    Nid source;
    Duration timeout{};
    uint32_t interfaces_max = 0;
    Instant deadline = kForever;
    MdHandle md;
    bool bound = false, sent = false, answered = false, unlinking = false, gone = false;
    Segment segment;
    std::array<std::byte, kPingSinkBytes> sink;
    void on_event(const Event& event, Instant now) override;
    void answer(int32_t error);
  };
  bool begin(Op& op, Instant now);
  void unlink(Op& op);

  ControlPort& port_;
  Instant now_ = kNever;
  std::deque<std::unique_ptr<Op>> queue_;
  std::list<std::unique_ptr<Op>> ops_;
};

}  // namespace ulnet
