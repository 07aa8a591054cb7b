// A core that writes down what an LND tells it: for tests of drivers without a node. Messages are PUTs named by their
// match bits; each receive lands in memory of its own, between canaries, and is checked when it is done.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/nid_text.h"
#include "lnd/lnd.h"

namespace ulnet::test {

/// Byte `i` of the payload of message `bits`.
inline std::byte payload_byte(uint64_t bits, uint32_t i) {
  return std::byte(uint8_t(bits * 31 + i * 7 + 1));
}

/// A Tx with its payload.
struct TestTx : Tx {
  std::vector<std::byte> memory;
  Segment segments[2];
  bool done = false;
  Completion how;
};

class RecordingCore : public LndCore {
 public:
  RecordingCore(std::string& trace, std::string name, WorkerId worker)
      : trace_(trace), name_(std::move(name)), worker_(worker) {}

  /// What rx_header answers; the default receives all.
  std::function<RxVerdict(RxSlot&)> on_header;
  std::function<void(RxSlot&, Completion)> on_rx_done;
  std::function<void(TestTx&)> on_tx_done;
  std::function<void(std::span<Segment>)> on_memory;  ///< of each receive, before the driver has it
  Lnd* lnd = nullptr;
  std::deque<LndMsg> for_control;

  /// A PUT of `bytes` bytes; kept until the core dies.
  TestTx& make_put(NiId ni, const Nid& from, const Nid& to, uint64_t bits, uint32_t bytes) {
    TestTx& tx = txs_.emplace_back();
    tx.header.type = wire::MsgType::kPut;
    tx.header.src_nid = from;
    tx.header.dest_nid = tx.next_hop = to;
    tx.header.payload_length = bytes;
    wire::PutBody body;
    body.match_bits = bits;
    tx.header.set(body);
    tx.ni = ni;
    tx.memory.resize(bytes);
    for (uint32_t i = 0; i < bytes; ++i) tx.memory[i] = payload_byte(bits, i);
    tx.segments[0] = {tx.memory.data(), bytes / 3};
    tx.segments[1] = {tx.memory.data() + bytes / 3, bytes - bytes / 3};
    tx.payload = {tx.segments, 2, 0, bytes};
    return tx;
  }
  /// Answers a held slot.
  void resume(RxSlot& slot, Instant now, RxVerdict verdict = RxVerdict::kReceive) {
    ASSERT_EQ(held.erase(&slot), 1u);
    slot.verdict = verdict;
    if (verdict == RxVerdict::kReceive) give_memory(slot);
    note(now, fmt::format("resume {}", bits_of(slot)));
    lnd->resume(slot, now);
  }
  /// Gives a taken slot back; its payload counts as received now.
  void release(RxSlot& slot, Instant now) {
    ASSERT_EQ(taken.erase(&slot), 1u);
    ASSERT_EQ(slot.arrived.length, slot.header.payload_length);
    const Segment& all = slot.arrived_piece;
    for (uint32_t i = 0; i < all.bytes; ++i) ASSERT_EQ(all.base[i], payload_byte(bits_of(slot), i));
    received.push_back(bits_of(slot));
    note(now, fmt::format("release {}", bits_of(slot)));
    lnd->release(slot, now);
  }

  [[nodiscard]] static uint64_t bits_of(const RxSlot& slot) { return slot.header.put().match_bits; }
  std::vector<uint64_t> received;  // match bits, in order of rx_done without error
  std::vector<uint64_t> seen;      // match bits, in order of rx_header
  std::vector<RxSlot*> receiving;  // accepted, rx_done still to come
  std::set<RxSlot*> held, taken;

  RxVerdict rx_header(RxSlot& slot, Instant now) override {
    EXPECT_FALSE(held.contains(&slot) || taken.contains(&slot));
    EXPECT_EQ(std::count(receiving.begin(), receiving.end(), &slot), 0);
    EXPECT_FALSE(memory_.contains(&slot)) << "slot used again before rx_done";
    EXPECT_EQ(slot.message, nullptr);
    seen.push_back(bits_of(slot));
    const RxVerdict verdict = on_header ? on_header(slot) : RxVerdict::kReceive;
    note(now, fmt::format("rx {} from {} verdict {}", bits_of(slot), nid_text(slot.from_nid), int(verdict)));
    if (verdict == RxVerdict::kHold) held.insert(&slot);
    if (verdict == RxVerdict::kTaken) taken.insert(&slot);
    if (verdict == RxVerdict::kReceive) give_memory(slot);
    return verdict;
  }
  void rx_done(RxSlot& slot, Completion how, Instant now) override {
    ASSERT_TRUE(memory_.contains(&slot));
    std::erase(receiving, &slot);
    const Memory& memory = *memory_.at(&slot);
    const uint64_t bits = bits_of(slot);
    for (int i = 0; i < 8; ++i) EXPECT_EQ(memory.bytes[size_t(i)], kCanary);
    for (size_t i = memory.bytes.size() - 8; i < memory.bytes.size(); ++i) EXPECT_EQ(memory.bytes[i], kCanary);
    if (how.error == 0) {
      received.push_back(bits);
      for (uint32_t i = 0; i < slot.into.length; ++i) ASSERT_EQ(memory.bytes[8 + i], payload_byte(bits, i));
    }
    memory_.erase(&slot);
    note(now, fmt::format("rx_done {} {} {}", bits, how.error, int(how.health)));
    if (on_rx_done) on_rx_done(slot, how);
  }
  void get_done(Tx&, uint32_t, int32_t, Instant) override { ADD_FAILURE() << "no GET was sent"; }
  void tx_done(Tx& tx, Completion how, Instant now) override {
    auto& mine = static_cast<TestTx&>(tx);
    EXPECT_FALSE(mine.done) << "reported done twice";
    mine.done = true;
    mine.how = how;
    note(now, fmt::format("tx_done {} {} {}", tx.header.put().match_bits, how.error, int(how.health)));
    std::fill(mine.memory.begin(), mine.memory.end(),
              std::byte{0xDD});  // it is ours again: who still reads it is found out
    if (on_tx_done) on_tx_done(mine);
  }
  void to_control(Owed&, const LndMsg& msg) override { for_control.push_back(msg); }
  bool ask_control(const LndMsg& msg) override { return for_control.push_back(msg), true; }
  WorkerId worker_id() const override { return worker_; }
  virtual ~RecordingCore() = default;

  uint32_t into_limit = UINT32_MAX;  ///< receive at most so many bytes of each message

 private:
  static constexpr std::byte kCanary{0xCA};
  struct Memory {
    std::vector<std::byte> bytes;
    Segment segments[2];
  };
  void give_memory(RxSlot& slot) {
    auto memory = std::make_unique<Memory>();
    const uint32_t length = std::min(slot.header.payload_length, into_limit);
    memory->bytes.assign(length + 16, kCanary);
    memory->segments[0] = {memory->bytes.data(), 8 + length / 2};
    memory->segments[1] = {memory->bytes.data() + 8 + length / 2, 8 + length - length / 2};
    if (on_memory) on_memory(memory->segments);
    slot.into = {memory->segments, 2, 8, length};
    receiving.push_back(&slot);
    memory_[&slot] = std::move(memory);
  }
  void note(Instant now, const std::string& what) {
    trace_ += fmt::format("{} {} {}\n", now.time_since_epoch().count(), name_, what);
  }
  std::string& trace_;
  const std::string name_;
  const WorkerId worker_;
  std::deque<TestTx> txs_;
  std::map<RxSlot*, std::unique_ptr<Memory>> memory_;
};

}  // namespace ulnet::test
