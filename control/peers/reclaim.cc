#include "control/peers/reclaim.h"

#include <algorithm>

#include "dataplane/base/check.h"
#include "dataplane/base/limits.h"

namespace ulnet {
namespace {

// What is in use when it is looked at may be so for as long as its peer stays connected.
constexpr Duration kLookMin = 100ms;
constexpr Duration kLookMax = 60s;

}  // namespace

void PeerEnds::at(PeerNiId id, End& end, Instant when) {
  due_.erase({end.due, id});
  end.due = when;
  if (when != kForever) due_.insert({when, id});
  next_.set_first(due_);
}

void PeerEnds::later(PeerNiId id, End& end, Instant now) {
  end.wait = std::clamp(end.wait * 2, kLookMin, kLookMax);
  at(id, end, now + end.wait);
}

void PeerEnds::begin(const PeerBlocks& blocks, WorkerId server) {
  if (!deps_.send || ends_.contains(blocks.slice.id)) return;
  End& end = ends_[blocks.slice.id];
  end.blocks = &blocks;
  end.server = server;
  unpublished_.push_back(blocks.slice.id);
}

void PeerEnds::cancel(PeerNiId id) {
  const auto found = ends_.find(id);
  if (found == ends_.end()) return;
  at(id, found->second, kForever);
  std::erase(unpublished_, id);
  ends_.erase(found);
}

void PeerEnds::published(Epoch epoch) {
  for (PeerNiId id : unpublished_) {
    End& end = ends_.at(id);
    end.epoch = epoch;
    at(id, end, kNever);
  }
  unpublished_.clear();
}

void PeerEnds::ask(PeerNiId id, End& end) {
  at(id, end, kForever);
  end.asked = ++questions_;
  end.unanswered = unsigned(end.blocks->by_worker.size());
  end.in_use = false;
  for (uint16_t worker = 0; worker < end.blocks->by_worker.size(); ++worker) {
    const PeerSlice* slice = end.server == WorkerId{worker} ? &end.blocks->slice : nullptr;
    deps_.send(WorkerId{worker}, {id, end.asked, end.blocks->by_worker[worker], slice});
  }
}

void PeerEnds::answer(const PeerAnswerMsg& msg, Instant now) {
  const PeerNiId id = msg.peer_ni;
  const auto found = ends_.find(id);
  if (found == ends_.end() || found->second.asked != msg.question) return;  // it came back since
  End& end = found->second;
  ULNET_CHECK(end.unanswered > 0);
  end.in_use |= msg.in_use;
  if (--end.unanswered > 0) return;
  end.asked = 0;
  if (end.in_use || deps_.named(end.blocks->slice)) return later(id, end, now);
  ends_.erase(found);
  deps_.over(id);
}

unsigned PeerEnds::turn(Instant now) {
  unsigned done = 0;
  while (done < kPeerEndsBudget && !due_.empty() && due_.begin()->first <= now) {
    const PeerNiId id = due_.begin()->second;
    End& end = ends_.at(id);
    ++done;
    if (!deps_.passed(end.epoch) || deps_.named(end.blocks->slice))
      later(id, end, now);
    else
      ask(id, end);
  }
  return done;
}

}  // namespace ulnet
