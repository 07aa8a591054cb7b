// Messages between control and the workers of this provider, and from worker to worker, each through rings of its own.
// If a ring is full, packets and messages of the CM are lost, and repeated later. Notes and looks are not lost.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "dataplane/base/ring.h"
#include "lnd/rc/rc.h"
#include "lnd/rc/roce/cm_ctl.h"
#include "lnd/rc/roce/port.h"
#include "lnd/rc/roce/qp_numbers_ctl.h"
#include "lnd/rc/wake_signal.h"

namespace ulnet::rc::roce {

/// A message of the connection manager.
struct MadMessage {
  uint8_t port = 0;
  CmAddresses addresses;
  std::array<std::byte, kMadBytes> mad{};
};

/// About a connection, for control.
struct Note {
  ConnId conn = 0;
  Cause failed = Cause::kNone;  ///< kNone: the first message of the peer has come
};

/// Between control and one worker.
struct WorkerRings {
  static constexpr uint32_t kMads = 128, kNotes = 256, kLooks = 1024;
  // From control.
  SpscRing<MadMessage> mads_out{kMads};
  SpscRing<uint32_t> looks{kLooks};      ///< numbers of queue pairs that control has changed
  std::atomic<bool> look_at_all{false};  ///< `looks` was full
  Bell bell;                             ///< rung for the worker
  // To control.
  SpscRing<MadMessage> mads_in{kMads};
  SpscRing<Note> notes{kNotes};
  std::atomic<bool> owes{false};  ///< `notes` was full: ring the worker when it is not
};

/// Stands for a queue pair, its port and its two addresses. Never 0. Others may have the same, but seldom.
[[nodiscard]] uint64_t qp_tag(uint32_t number, uint8_t port, const IpAddress& remote, const IpAddress& local);

/// Packets that came to another worker than their queue pair's.
class Handover {
 public:
  static constexpr uint32_t kPackets = 64;  ///< under way between two workers
  explicit Handover(unsigned workers) : workers_(workers), rings_(size_t{workers} * workers), tags_(workers) {
    for (auto& ring : rings_) ring = std::make_unique<SpscRing<Arrival>>(kPackets);
    for (auto& tags : tags_) tags = std::make_unique<std::atomic<uint64_t>[]>(kQpPlaces);
  }
  /// The queue pair at a place of a worker; 0: none. The worker writes it, and others hand over nothing else.
  [[nodiscard]] std::atomic<uint64_t>& tag(unsigned worker, uint32_t place) { return tags_[worker][place]; }
  [[nodiscard]] SpscRing<Arrival>& ring(unsigned from, unsigned to) { return *rings_[size_t{from} * workers_ + to]; }
  [[nodiscard]] unsigned workers() const { return workers_; }

 private:
  const unsigned workers_;
  std::vector<std::unique_ptr<SpscRing<Arrival>>> rings_;
  std::vector<std::unique_ptr<std::atomic<uint64_t>[]>> tags_;  ///< by worker and place
};

}  // namespace ulnet::rc::roce
