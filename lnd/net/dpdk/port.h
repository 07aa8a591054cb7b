// A packet port: a device that DPDK drives, opened from configuration, with one queue pair per worker. Control opens,
// watches, resets and closes it; workers use their PortQueue. Needs a running EAL. Thread: control.
//
// Resets: control signals every queue to stop (stop_begin()) and wakes the workers. When all queues are stopped
// (stopped()), control closes the device and opens it again (reopen()). Pools stay, so packets that are still held
// survive.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dataplane/base/problem.h"
#include "lnd/net/dpdk/memif_relay_ctl.h"
#include "lnd/net/dpdk/pool_plan.h"
#include "lnd/net/dpdk/port_queue.h"
#include "lnd/net/dpdk/rss.h"
#include "lnd/net/kernel/kernel_link.h"

namespace ulnet::dpdk {

struct LinkState {
  bool up = false;
  uint32_t speed_mbps = 0;  ///< 0 = unknown
  bool operator==(const LinkState&) const = default;
};

/// One queue as `port show` displays it.
struct QueueShown {
  unsigned queue = 0;
  uint64_t rx_packets = 0, rx_bytes = 0, tx_packets = 0, tx_bytes = 0;
  uint64_t polls = 0, polls_empty = 0, interrupts_missed = 0, copied = 0;
  std::array<uint64_t, QueueCounters::kBurstClasses> rx_bursts{}, tx_bursts{};
  std::array<uint64_t, size_t(FrameDrop::kCount)> drops{};
  uint32_t pool_free = 0, pool_size = 0, pool_held = 0, pool_held_max = 0;
  bool sleeps_on_interrupt = false;
};

struct PortShown {
  std::string name, device, driver;
  Mac mac;
  uint16_t mtu = 0;
  uint16_t vlan = 0;
  uint8_t pcp = 0;
  int numa = -1;
  LinkState link;
  PortOffloads offloads;
  std::vector<QueueShown> queues;
  bool is_open = false;    ///< false: the device could not be opened again after a reset
  uint64_t missed = 0;     ///< frames that the device itself had no room for
  uint64_t rx_errors = 0;  ///< frames that the device itself found broken
  uint64_t tx_errors = 0;
  uint64_t no_buffer = 0;  ///< times that the device found its pool empty
  uint64_t resets = 0;
  uint64_t resets_failed = 0;  ///< times that the device could not be opened again
};

class Port {
 public:
  /// Opens and starts. `workers`: how many there are; `index`: unique among ports of the process. The queues are
  /// stopped until start(). Errors: EINVAL (configuration, with the limit), ENODEV, ENOMEM (with the sum),
  /// EBUSY, EACCES.
  [[nodiscard]] static Checked<std::unique_ptr<Port>> open(const PortConfig& config, unsigned workers, unsigned index);
  /// Requires: all queues are stopped and all packets are back.
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  [[nodiscard]] const PortConfig& config() const { return config_; }
  [[nodiscard]] unsigned queue_count() const { return unsigned(queues_.size()); }
  [[nodiscard]] PortQueue& queue(unsigned index) { return *queues_[index]; }
  [[nodiscard]] const Mac& mac() const { return mac_; }
  /// Node of the device; negative: not known. DPDK reports some node for devices that are not on the bus.
  [[nodiscard]] int numa() const { return spec_.kind == DeviceKind::kPci ? numa_ : -1; }
  [[nodiscard]] const RssModel& rss() const { return rss_; }
  [[nodiscard]] const PoolPlan& plan() const { return plan_; }

  /// Lets the workers use the queues. If needs_link(), requires a link.
  void start();
  [[nodiscard]] bool needs_link() const { return traits_of(spec_.kind).needs_link; }
  /// True if a lost link only returns when the device is opened again: memif's client does not connect twice.
  [[nodiscard]] bool loses_link_for_good() const { return relay_ != nullptr && relay_->is_client(); }
  /// Such a link is lost.
  [[nodiscard]] bool lost_link() const { return relay_ != nullptr && relay_->server_lost(); }
  /// True if another interface has the name of the system's interface. The device is then of no use until it is opened
  /// again.
  [[nodiscard]] bool lost_interface() const { return kernel_.replaced(); }
  /// Signals the workers to release the queues; each does so at its next receive().
  void stop_begin();
  [[nodiscard]] bool stopped() const;
  /// Errors: ENOTSUP (reopen() would be of no use).
  [[nodiscard]] Result<void> may_reopen() const;
  /// True: reopen() is due. False: the device is closed and its server has not answered yet; call it again in a
  /// millisecond. Requires stopped() and may_reopen(). Errors: ECONNREFUSED, ETIMEDOUT (the server does not answer);
  /// the device is closed then.
  [[nodiscard]] Checked<bool> ready_to_reopen(Instant now);
  /// Closes the device and opens it again, as it was. Requires stopped() and may_reopen(). Errors: as open(); the
  /// device is closed then, and may be opened again by another call.
  [[nodiscard]] Checked<void> reopen();

  /// Closes the device for good: its queues give their packets back. Requires stopped().
  void close() {
    close_device();
    relay_.reset();
  }

  /// Present state of the link. Cheap, but not free: do not call it per packet.
  [[nodiscard]] LinkState link();
  /// True once after the device has requested a reset.
  [[nodiscard]] bool take_reset_request();
  /// Descriptors that become readable when link() or take_reset_request() may report something new; -1 entries are left
  /// out. If there are none, call both every kLinkPoll.
  void wait_fds(std::vector<int>& out) const;
  /// Reads what these descriptors report. True: one of them was readable.
  bool drain_events(Instant now);
  static constexpr Duration kLinkPoll = 100ms;
  static constexpr Duration kLinkAwait = 10ms;  ///< where the device may be polled only with a link
  static constexpr Duration kGreetingPatience = 5s;

  [[nodiscard]] PortShown show();
  /// All buffers are in their pools.
  [[nodiscard]] bool packets_conserved() const;

 private:
  struct Events;  // flags and a descriptor, set by DPDK's own thread
  explicit Port(const PortConfig& config);
  [[nodiscard]] Checked<void> prepare_kernel_side();
  [[nodiscard]] Checked<void> probe(unsigned index);
  [[nodiscard]] Checked<void> make_pools();
  [[nodiscard]] Checked<void> configure();
  [[nodiscard]] Checked<void> set_up_queues();
  [[nodiscard]] Checked<void> set_mtu();
  [[nodiscard]] Checked<void> start_device();
  [[nodiscard]] tl::unexpected<Problem> no_server() const;
  [[nodiscard]] Checked<void> make_relay();
  bool relay_turn(Instant now);
  void agree_on_rss();
  void find_wait_fds();
  void close_device();

  PortConfig config_;
  DeviceSpec spec_;
  unsigned index_ = 0;
  unsigned queue_wish_ = 0;
  uint16_t port_ = UINT16_MAX;
  bool probed_ = false;
  bool interrupts_ = false;
  bool tells_link_ = false;
  int numa_ = -1;
  Mac mac_;
  std::string driver_;
  PortOffloads offloads_;
  PoolPlan plan_;
  RssModel rss_;
  uint64_t rss_types_ = 0;  // DPDK's bits: fields that the device was set to take into the hash
  KernelLink kernel_;
  std::vector<std::unique_ptr<PortQueue>> queues_;
  std::unique_ptr<Events> events_;
  uint64_t resets_ = 0, resets_failed_ = 0;
  std::unique_ptr<MemifRelay> relay_;  // of memif
  Instant greeting_until_ = kForever;
};

}  // namespace ulnet::dpdk
