#include "tests/replay/message_lnd.h"

#include <gtest/gtest.h>

#include "dataplane/state/payload.h"

namespace ulnet::test {

void MessageLnd::receive(const WireMessage& message, const NiParams& ni, const PeerPlace& place, Instant now) {
  auto made = std::make_unique<Slot>();
  Slot& slot = *made;
  slots_[&slot] = std::move(made);
  slot.payload = message.payload;
  slot.begin(message.header, ni.id, ni.slices[0], place.id, place.slice, message.from);
  const RxVerdict verdict = core_.rx_header(slot, now);
  if (verdict != RxVerdict::kHold) go_on(slot, verdict, now);
}

void MessageLnd::resume(RxSlot& slot, Instant now) {
  go_on(*slots_.at(&slot), slot.verdict, now);
}

void MessageLnd::go_on(Slot& slot, RxVerdict verdict, Instant now) {
  ASSERT_NE(verdict, RxVerdict::kTaken) << "only movable slots are taken";
  const auto mine = slots_.extract(&slot);
  if (verdict != RxVerdict::kReceive) return;
  const Segment segment{slot.payload.data(), uint32_t(slot.payload.size())};
  PayloadCursor from({&segment, 1, 0, segment.bytes}), into(slot.into);
  payload_copy(into, from);
  core_.rx_done(slot, {}, now);
}

void MessageLnd::submit(Tx& tx, Instant) {
  WireMessage& message = sent_.emplace_back();
  message.from = tx.header.src_nid;
  message.to = tx.next_hop;
  message.header = tx.header;
  message.payload.resize(tx.payload.length);
  const Segment segment{message.payload.data(), uint32_t(message.payload.size())};
  PayloadCursor from(tx.payload), into({&segment, 1, 0, segment.bytes});
  payload_copy(into, from);
  done_.push_back(&tx);
}

unsigned MessageLnd::poll(unsigned budget, Instant now) {
  unsigned count = 0;
  for (; count < budget && !done_.empty(); ++count) {
    Tx* tx = done_.front();
    done_.pop_front();
    core_.tx_done(*tx, {}, now);
  }
  return count;
}

const NiParams* MessageControl::ni(const Nid& nid) const {
  for (const auto& [id, params] : nis_)
    if (params.nid == nid) return &params;
  return nullptr;
}

Result<void> MessageControl::ni_start(const NiParams& params, Instant) {
  nis_[params.id] = params;
  return {};
}

unsigned MessageControl::turn(Instant) {
  for (const NiId ni : stopping_) {
    nis_.erase(ni);
    host_.ni_stopped(ni);
  }
  return unsigned(std::exchange(stopping_, {}).size());
}

}  // namespace ulnet::test
