// The worker half of o2iblnd with a fake LNet core and the simulated provider, for scripts and random runs. The fake
// checks the ownership rules of lnd/lnd.h: each Tx and each slot ends exactly once, and nobody writes into memory that
// went back. Virtual time, single thread.
#pragma once
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "lnd/o2iblnd/ib_lnd.h"
#include "tests/script/ib/ib_net.h"

namespace ulnet::test {

inline constexpr NiId kIbNi{1};
inline constexpr uint16_t kIbPort = 987;
inline constexpr uint16_t kDepth = 8;
inline constexpr RegionId kArena{1}, kOtherRegion{3};  ///< two regions with the same memory
inline constexpr PeerNiId kPeerNi{7};

[[nodiscard]] inline Nid ib_nid(unsigned node) {
  return Nid::v4(Net::of(NetType::kO2ib, 0), 0x0A000001 + node);
}
[[nodiscard]] inline rc::IpAddress ib_address(unsigned node) {
  return rc::IpAddress::of_v4(0x0A000001 + node);
}
[[nodiscard]] inline uint64_t ib_stamp(unsigned node) {
  return 1000 + node;
}
/// Ends of what `from` sends to `to`.
[[nodiscard]] inline o2iblnd::Ends ib_ends(unsigned from, unsigned to) {
  return {ib_nid(from), ib_nid(to), ib_stamp(from), ib_stamp(to)};
}
/// The payload of the message with these match bits: at most 1 MiB.
[[nodiscard]] const std::byte* ib_payload(uint64_t bits);
[[nodiscard]] rc::QpNeeds ib_needs();

/// Registered memory of a node, in blocks that hold any payload.
class Arena {
 public:
  static constexpr uint32_t kBlocks = 48, kBlockBytes = (1 << 20) + 8192;
  Arena() : used_(kBlocks) {
    void* at = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    memory_.reset(static_cast<std::byte*>(at));
  }
  [[nodiscard]] std::byte* take();
  void give(std::byte* block);
  [[nodiscard]] uint32_t out() const { return out_; }
  [[nodiscard]] std::span<std::byte> all() { return {memory_.get(), kBytes}; }

 private:
  static constexpr size_t kBytes = size_t{kBlocks} * kBlockBytes;
  struct Unmap {
    void operator()(std::byte* memory) const { ::munmap(memory, kBytes); }
  };
  std::unique_ptr<std::byte, Unmap> memory_;  ///< pages come into being when a test uses them
  std::vector<bool> used_;
  uint32_t out_ = 0;
};

/// A Tx of the fake core.
struct IbTx : Tx {
  uint64_t bits = 0;
  std::byte* memory = nullptr;  ///< of the payload, or of the sink
  Segment segments[3];          ///< more than one write can have
  bool done = false, answered = false, waits = false;
  Completion how;
  uint32_t got = 0;  ///< get_done()
  int32_t get_error = 0;
};

class IbCore : public LndCore {
 public:
  IbCore(IbNet& net, unsigned number, const o2iblnd::IbConfig& config, unsigned staging_blocks);
  virtual ~IbCore() = default;

  // Calls of the driver.
  RxVerdict rx_header(RxSlot& slot, Instant now) override;
  void rx_done(RxSlot& slot, Completion how, Instant now) override;
  void tx_done(Tx& tx, Completion how, Instant now) override;
  void get_done(Tx& tx, uint32_t bytes, int32_t error, Instant now) override;
  void tx_waits(Tx& tx, Instant) override { static_cast<IbTx&>(tx).waits = true; }
  void tx_connected(Tx& tx, Instant) override { EXPECT_TRUE(std::exchange(static_cast<IbTx&>(tx).waits, false)); }
  void to_control(Owed& owed, const LndMsg& msg) override;
  bool ask_control(const LndMsg& msg) override { return for_control.push_back(msg), true; }
  WorkerId worker_id() const override { return WorkerId{0}; }

  /// A PUT to node `to`, named by its match bits.
  IbTx& put(unsigned to, uint64_t bits, uint32_t bytes);
  /// A GET, with a sink or without. A REPLY to its GET_REQ has as many thousand bytes as the last three digits of the
  /// bits say.
  IbTx& get(unsigned to, uint64_t bits, uint32_t bytes, bool sink = true);
  /// Goes on with a held slot.
  void resume(RxSlot& slot, RxVerdict verdict);
  void release(RxSlot& slot);
  /// The REPLY to a GET_REQ that was accepted.
  void reply(uint64_t token);

  /// One turn of control and worker.
  void turn(Instant now);
  void to_worker(const LndMsg& msg) { for_worker.push_back(msg); }

  IbNet& net;
  const unsigned number;
  std::vector<std::byte> staging;
  Instant now = kNever;
  Arena arena;
  std::unique_ptr<rc::Provider> provider;
  std::unique_ptr<o2iblnd::IbLnd> lnd;
  // The rings between the halves. A message may lie there for some turns.
  std::deque<LndMsg> for_control, for_worker;
  List<Owed, OwedTag> owed;     ///< wait for room in the ring to control
  size_t ring_room = SIZE_MAX;  ///< of the ring to control
  bool worker_first = false;    ///< in each turn; control finds the worker's messages before its events
  std::function<bool()> late = [] { return false; };  ///< the ring is not looked at in this turn

  // The decisions of the core.
  std::function<RxVerdict(RxSlot&)> on_header = [](RxSlot&) { return RxVerdict::kReceive; };
  uint32_t into_limit = UINT32_MAX;
  RegionId into_region = kArena;  ///< of the second segment of each window
  bool reply_at_once = true;
  std::function<void(Tx&)> on_put = [](Tx&) {};  ///< may change a PUT of this side before the driver gets it
  RegionId from_region = kArena;                 ///< of the last segment of a payload that is sent
  /// Called at the end of each tx_done(): it may call the driver again.
  std::function<void(IbTx&)> on_done = [](IbTx&) {};

  // For tests to look at.
  struct Rx {
    std::byte* memory = nullptr;
    Segment segments[2];
  };
  std::map<RxSlot*, Rx> receiving;
  std::vector<RxSlot*> held, taken;
  std::vector<uint64_t> owed_tokens;
  std::map<uint64_t, uint64_t> bits_of_token;
  std::vector<uint64_t> received;  ///< bits of messages that came whole
  std::vector<std::pair<uint64_t, Completion>> broken_receives;
  std::vector<std::byte> broken_bytes;  ///< of the last of them
  std::deque<IbTx> txs;
  uint32_t unfinished = 0;
  uint64_t slots_open = 0;

 protected:
  virtual void control_turn() = 0;
  virtual void from_worker(const LndMsg& msg) = 0;

 private:
  IbTx& make(unsigned to, uint64_t bits);
  void give_memory(RxSlot& slot);
};

}  // namespace ulnet::test
