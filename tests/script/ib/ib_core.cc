#include "tests/script/ib/ib_core.h"

#include <algorithm>
#include <cstring>

#include "dataplane/base/rng.h"

namespace ulnet::test {

using namespace o2iblnd;

namespace {

constexpr std::byte kGone{0xDD};
constexpr uint32_t kCanary = 16;

uint64_t bits_of(const RxSlot& slot) {
  return slot.header.type == wire::MsgType::kGet ? slot.header.get().match_bits : slot.header.put().match_bits;
}

}  // namespace

const std::byte* ib_payload(uint64_t bits) {
  constexpr size_t kStarts = 1 << 16;
  static const std::vector<std::byte> kAll = [] {
    std::vector<std::byte> all((1 << 20) + kStarts);
    Rng rng(4711);
    for (std::byte& one : all) one = std::byte(uint8_t(rng.next()));
    return all;
  }();
  return kAll.data() + bits * 2654435761u % kStarts;
}

rc::QpNeeds ib_needs() {
  return {.worker = WorkerId{0},
          .receives = receive_buffers_of(kDepth),
          .sends = 2 * kDepth + 4,
          .buffer_bytes = kMessageMax,
          .work = 6 * kDepth,
          .keys = 2 * kDepth,
          .pieces = 2};
}

std::byte* Arena::take() {
  const auto free = std::find(used_.begin(), used_.end(), false);
  ULNET_CHECK(free != used_.end());
  *free = true;
  ++out_;
  return memory_.get() + size_t(free - used_.begin()) * kBlockBytes;
}

void Arena::give(std::byte* block) {
  const size_t index = size_t(block - memory_.get()) / kBlockBytes;
  ULNET_CHECK(used_[index]);
  used_[index] = false;
  --out_;
}

IbCore::IbCore(IbNet& in, unsigned which, const IbConfig& config, unsigned staging_blocks)
    : net(in),
      number(which),
      staging(staging_blocks * Staging::kBlockBytes),
      provider(in.make_node({ib_address(which)}, 1)) {
  lnd = std::make_unique<IbLnd>(*this, provider->worker(WorkerId{0}), config, staging);
  EXPECT_TRUE(provider->control().region_add(kStagingRegion, staging));
  EXPECT_TRUE(provider->control().region_add(kOtherRegion, arena.all()));
  EXPECT_TRUE(provider->control().region_add(kArena, arena.all()));
}

// --- The core --------------------------------------------------------------------------------------------------------

IbTx& IbCore::make(unsigned to, uint64_t bits) {
  IbTx& tx = txs.emplace_back();
  tx.bits = bits;
  tx.header.src_nid = ib_nid(number);
  tx.header.dest_nid = tx.next_hop = ib_nid(to);
  tx.ni = kIbNi;
  tx.peer_ni = PeerNiId{kPeerNi.value + to};
  tx.memory = arena.take();
  ++unfinished;
  return tx;
}

IbTx& IbCore::put(unsigned to, uint64_t bits, uint32_t bytes) {
  IbTx& tx = make(to, bits);
  tx.header.type = wire::MsgType::kPut;
  tx.header.payload_length = bytes;
  wire::PutBody body;
  body.match_bits = bits;
  tx.header.set(body);
  on_put(tx);
  std::memcpy(tx.memory, ib_payload(bits), bytes);
  tx.segments[0] = {tx.memory, bytes / 3, kArena};
  tx.segments[1] = {tx.memory + bytes / 3, bytes / 4, kArena};
  tx.segments[2] = {tx.memory + bytes / 3 + bytes / 4, bytes - bytes / 3 - bytes / 4, from_region};
  tx.payload = {tx.segments, 3, 0, bytes};
  lnd->submit(tx, now);
  return tx;
}

IbTx& IbCore::get(unsigned to, uint64_t bits, uint32_t bytes, bool sink) {
  IbTx& tx = make(to, bits);
  tx.header.type = wire::MsgType::kGet;
  tx.header.payload_length = 0;
  wire::GetBody body;
  body.match_bits = bits;
  body.sink_length = bytes;
  tx.header.set(body);
  std::fill_n(tx.memory, bytes + kCanary, std::byte{0});
  tx.segments[0] = {tx.memory, bytes / 2, kArena};
  tx.segments[1] = {tx.memory + bytes / 2, bytes - bytes / 2, kArena};
  if (sink) tx.sink = {tx.segments, 2, 0, bytes};
  lnd->submit(tx, now);
  return tx;
}

void IbCore::tx_done(Tx& which, Completion how, Instant) {
  auto& tx = static_cast<IbTx&>(which);
  ASSERT_FALSE(tx.done) << "reported done twice";
  tx.done = true;
  tx.how = how;
  EXPECT_TRUE(how.error != 0 || !tx.waits) << "sent without a connection";
  --unfinished;
  std::fill_n(tx.memory, std::max(tx.payload.length, tx.sink.length), kGone);  // so that a late use shows
  arena.give(tx.memory);
  on_done(tx);
}

void IbCore::get_done(Tx& which, uint32_t bytes, int32_t error, Instant when) {
  auto& tx = static_cast<IbTx&>(which);
  tx.answered = true;
  tx.got = bytes;
  tx.get_error = error;
  EXPECT_LE(bytes, tx.sink.length);
  ASSERT_EQ(std::memcmp(tx.memory, ib_payload(tx.bits), bytes), 0);
  tx_done(tx, {}, when);
}

void IbCore::give_memory(RxSlot& slot) {
  Rx& rx = receiving[&slot];
  const uint32_t length = std::min(slot.header.payload_length, into_limit);
  rx.memory = arena.take();
  std::fill_n(rx.memory, length + 2 * kCanary, std::byte{0xCA});
  rx.segments[0] = {rx.memory, kCanary + length / 2, kArena};
  rx.segments[1] = {rx.memory + kCanary + length / 2, length - length / 2, into_region};
  slot.into = {rx.segments, 2, kCanary, length};
}

RxVerdict IbCore::rx_header(RxSlot& slot, Instant) {
  ++slots_open;
  // As receive_header() in dataplane/stages/receive.cc demands it of a driver.
  EXPECT_TRUE(slot.token == 0 || (slot.rdma_request && slot.header.type == wire::MsgType::kGet));
  EXPECT_FALSE(slot.rdma_request && slot.movable);
  EXPECT_FALSE(receiving.contains(&slot));
  const RxVerdict verdict = on_header(slot);
  if (slot.token != 0) bits_of_token[slot.token] = bits_of(slot);
  if (verdict == RxVerdict::kHold) held.push_back(&slot);
  if (verdict == RxVerdict::kTaken) taken.push_back(&slot);
  if (verdict == RxVerdict::kRefused) slot.refused = -ENOENT;
  if (verdict == RxVerdict::kReceive && slot.token == 0) give_memory(slot);
  if (verdict == RxVerdict::kReceive && slot.token != 0) owed_tokens.push_back(slot.token);
  if (verdict == RxVerdict::kProtocolError) --slots_open;
  return verdict;
}

void IbCore::rx_done(RxSlot& slot, Completion how, Instant) {
  --slots_open;
  if (slot.token != 0) return;
  ASSERT_TRUE(receiving.contains(&slot));
  const Rx rx = receiving.at(&slot);
  receiving.erase(&slot);
  const uint64_t bits = bits_of(slot);
  for (uint32_t i = 0; i < kCanary; ++i) {
    ASSERT_EQ(rx.memory[i], std::byte{0xCA});
    ASSERT_EQ(rx.memory[kCanary + slot.into.length + i], std::byte{0xCA});
  }
  if (how.error == 0) {
    ASSERT_EQ(std::memcmp(rx.memory + kCanary, ib_payload(bits), slot.into.length), 0);
    received.push_back(bits);
  } else {
    broken_receives.push_back({bits, how});
    broken_bytes.assign(rx.memory + kCanary, rx.memory + kCanary + slot.into.length);
  }
  std::fill_n(rx.memory, slot.into.length + 2 * kCanary, kGone);
  arena.give(rx.memory);
}

void IbCore::resume(RxSlot& slot, RxVerdict verdict) {
  std::erase(held, &slot);
  slot.verdict = verdict;
  if (verdict == RxVerdict::kRefused) slot.refused = -ENOENT;
  if (verdict == RxVerdict::kReceive && slot.token == 0) give_memory(slot);
  if (verdict == RxVerdict::kReceive && slot.token != 0) owed_tokens.push_back(slot.token);
  if (verdict == RxVerdict::kProtocolError) --slots_open;
  lnd->resume(slot, now);
}

void IbCore::release(RxSlot& slot) {
  std::erase(taken, &slot);
  --slots_open;
  received.push_back(bits_of(slot));
  const Segment& all = slot.arrived_piece;
  ASSERT_EQ(std::memcmp(all.base, ib_payload(bits_of(slot)), all.bytes), 0);
  lnd->release(slot, now);
}

void IbCore::reply(uint64_t token) {
  std::erase(owed_tokens, token);
  const uint64_t bits = bits_of_token.at(token);
  IbTx& tx = make(0, bits);
  const uint32_t bytes = uint32_t(bits % 1000 * 1000);  // thousands of bytes: the last three digits
  tx.header.type = wire::MsgType::kReply;
  tx.header.payload_length = bytes;
  std::memcpy(tx.memory, ib_payload(bits), bytes);
  tx.segments[0] = {tx.memory, bytes, from_region};
  tx.payload = {tx.segments, 1, 0, bytes};
  tx.token = token;
  lnd->submit(tx, now);
}

// --- The halves ------------------------------------------------------------------------------------------------------

void IbCore::to_control(Owed& from, const LndMsg& msg) {
  if (!from.linked() && owed.empty() && for_control.size() < ring_room) return for_control.push_back(msg);
  from.msg = msg;
  if (!from.linked()) owed.push_back(from);
}

void IbCore::turn(Instant when) {
  now = when;
  net.run(now);
  if (!worker_first) control_turn();
  while (!for_worker.empty() && !late()) {
    const LndMsg msg = for_worker.front();
    for_worker.pop_front();
    lnd->from_control(msg, now);
  }
  lnd->poll(64, now);
  if (reply_at_once)
    while (!owed_tokens.empty()) reply(owed_tokens.front());
  lnd->timers(now);
  lnd->flush(now);
  while (!for_control.empty() && !late()) {
    const LndMsg msg = for_control.front();
    for_control.pop_front();
    from_worker(msg);
    if (Owed* next = owed.pop_front()) for_control.push_back(std::get<LndMsg>(next->msg));
  }
  if (worker_first) control_turn();
}

}  // namespace ulnet::test
