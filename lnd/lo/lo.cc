// Worker half of the loopback LND (lo.h).
#include "lnd/lo/lo.h"

#include <algorithm>

#include "dataplane/state/payload.h"

namespace ulnet {
namespace {

// Nothing was received and nobody will resend: both ends of a loopback are this node.
constexpr Completion kRefused{-EPROTO, LndStatus::kLocalError};
constexpr Completion kCancelled{-ECANCELED, LndStatus::kOk};
constexpr Completion kForced{-ECANCELED, LndStatus::kLocalAborted};
constexpr Completion kBroken{-ECONNRESET, LndStatus::kRemoteError};
constexpr Completion kExpired{-ETIMEDOUT, LndStatus::kLocalTimeout};
constexpr Completion kStopped{-ESHUTDOWN, LndStatus::kLocalAborted};

}  // namespace

void LoLnd::submit(Tx& tx, Instant now) {
  tx.lnd[0] = 0;
  if (any_stopped_ && tx.ni == stopped_) return finish(tx, kStopped, now);
  waiting_.push_back(tx);
  if (tx.deadline < deadline_bound_) deadline_bound_ = tx.deadline;
}

void LoLnd::deliver(Tx& tx, Instant now) {
  Entry& entry = *slots_.take();
  tx.lnd[0] = uint64_t(reinterpret_cast<uintptr_t>(&entry));
  entry.state = State::kOpening;
  entry.tx = &tx;
  entry.begin(tx.header, tx.ni, tx.ni_slice, tx.peer_ni, tx.peer, kLoNid);
  switch (core_.rx_header(entry, now)) {
    case RxVerdict::kReceive: receive(entry, now); break;
    case RxVerdict::kHold: entry.state = State::kHeld; break;
    case RxVerdict::kTaken: ULNET_CHECK(!"a slot that is not movable was taken"); break;
    case RxVerdict::kRefused: ULNET_CHECK(!"a slot without a token was refused"); break;
    case RxVerdict::kProtocolError: refuse(entry, now); break;
  }
}

void LoLnd::receive(Entry& entry, Instant now) {
  Completion how{};
  if (entry.tx != nullptr) {
    PayloadCursor to(entry.into), from(entry.tx->payload);
    payload_copy(to, from);
  } else if (entry.header.payload_length > 0) {
    how = kBroken;
  }
  close(entry, how, now);
}

// The sender's side ends well whatever became of the payload: as over a wire, it cannot know.
void LoLnd::close(Entry& entry, Completion how, Instant now) {
  core_.rx_done(entry, how, now);
  Tx* tx = entry.tx;  // read now: rx_done may have led to cancel()
  slots_.give(entry);
  if (tx != nullptr) finish(*tx, {}, now);
}

void LoLnd::refuse(Entry& entry, Instant now) {
  Tx* tx = entry.tx;
  slots_.give(entry);
  if (tx != nullptr) finish(*tx, kRefused, now);
}

// The rest is done by poll(): the core may resume many slots in a row, and each brings work of its own with it.
void LoLnd::resume(RxSlot& slot, Instant) {
  Entry& entry = static_cast<Entry&>(slot);
  ULNET_CHECK(entry.state == State::kHeld);
  entry.state = State::kReady;
  ready_.push_back(entry);
}

void LoLnd::divert(RxSlot& slot, Instant now) {
  Entry& entry = static_cast<Entry&>(slot);
  if (slots_.find(slots_.handle(entry)) == nullptr || entry.state != State::kReady) return;
  if (entry.verdict != RxVerdict::kReceive) return;
  ready_.remove(entry);
  entry.state = State::kOpening;
  close(entry, kCancelled, now);
  stop_answer();
}

void LoLnd::cancel(Tx& tx, bool force, Instant now) {
  if (tx.lnd[0] == 0) {
    waiting_.remove(tx);
    finish(tx, tx.deadline <= now ? kExpired : kCancelled, now);
    stop_answer();
  } else if (force) {
    auto* entry = reinterpret_cast<Entry*>(uintptr_t(tx.lnd[0]));
    entry->tx = nullptr;
    finish(tx, tx.deadline <= now ? kExpired : kForced, now);
  }
}

unsigned LoLnd::poll(unsigned budget, Instant now) {
  unsigned done = 0;
  for (; done < budget && !ready_.empty(); ++done) {
    Entry& entry = *ready_.pop_front();
    entry.state = State::kOpening;
    if (entry.verdict == RxVerdict::kReceive)
      receive(entry, now);
    else
      refuse(entry, now);
  }
  for (; done < budget && !waiting_.empty() && slots_.out() < slots_.capacity(); ++done) {
    deliver(*waiting_.pop_front(), now);
  }
  stop_answer();
  return done;
}

// Starts over after each, since tx_done may lead back here and change the list. Only a node that holds kLoSlots
// messages has anything to look at.
unsigned LoLnd::timers(Instant now) {
  unsigned done = 0;
  while (!waiting_.empty() && deadline_bound_ <= now && done < kTimerBudget) {
    Instant earliest = kForever;
    Tx* tx = waiting_.front();
    for (; tx != nullptr && tx->deadline > now; tx = waiting_.after(*tx)) earliest = std::min(earliest, tx->deadline);
    if (tx == nullptr) {
      deadline_bound_ = earliest;
      break;
    }
    waiting_.remove(*tx);
    finish(*tx, kExpired, now);
    ++done;
  }
  stop_answer();
  return done;
}

bool LoLnd::pending() {
  return !ready_.empty() || (!waiting_.empty() && slots_.out() < slots_.capacity());
}

void LoLnd::from_control(const LndMsg& msg, Instant now) {
  stopped_ = msg.as<LoStopMsg>().ni;
  any_stopped_ = answer_due_ = true;
  while (Tx* tx = waiting_.pop_front()) finish(*tx, kStopped, now);
  stop_answer();
}

void LoLnd::stop_answer() {
  if (!answer_due_ || !idle()) return;
  answer_due_ = false;
  core_.to_control(stop_answer_, LoStoppedMsg{stopped_});
}

}  // namespace ulnet
