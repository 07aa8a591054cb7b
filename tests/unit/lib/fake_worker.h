// A stand-in for the home worker of a Submitter, for tests of the application side. FakeWorker takes calls off the
// ring, records them, and answers as the test configures. FakeWorker runs on the test's thread, without network and
// matching.
#pragma once
#include <algorithm>
#include <deque>
#include <functional>
#include <vector>

#include "dataplane/state/submitter.h"

namespace ulnet::test {

class FakeWorker {
 public:
  explicit FakeWorker(Submitter& submitter) : submitter_(submitter), users_(submitter.eq_slots()) {}

  /// The end of a put or get: the event's status, and bytes moved. With `drop` there is no final event at all (a fault
  /// to detect).
  struct Outcome {
    int32_t status = 0;
    bool drop = false;
    bool twice = false;
    uint32_t mlength = kInfinite;  ///< kInfinite = all
  };
  /// A put or get whose end is still to come.
  struct Started : OperationCall {
    EventKind end;
    [[nodiscard]] bool is_get() const { return end == EventKind::kReply; }
  };
  /// Called for each put and get; may touch the memory. Default: success.
  std::function<Outcome(const Started&, const Md&)> on_operation;
  /// While true, puts and gets stay unanswered (unlink ends them with ECANCELED).
  bool hold = false;

  /// Takes at most `budget` calls and answers them; returns how many were taken.
  unsigned run(unsigned budget = UINT32_MAX) {
    unsigned taken = 0;
    CallMsg msg;
    while (taken < budget && submitter_.calls().pop(msg)) {
      ++taken;
      seen.push_back(msg);
      std::visit([this](const auto& call) { handle(call); }, msg);
    }
    if (!hold) {
      std::deque<Started> ready;
      ready.swap(held_);
      for (const Started& op : ready) finish(op);
    }
    return taken;
  }
  /// Ends the held operations with this status.
  void finish_held(int32_t status) {
    std::deque<Started> ready;
    ready.swap(held_);
    for (const Started& op : ready) end(op, status);
  }
  /// Unlinks an MD as the worker does when its threshold has run out.
  void retire(uint32_t index, int32_t status = 0) {
    Md& md = submitter_.md_slot(index);
    ULNET_CHECK(md.bound);
    md.bound = false;
    if (md.eq != nullptr) {
      Event event;
      event.kind = EventKind::kUnlink;
      event.status = status;
      event.user_ptr = md.user_ptr;
      event.md = md.handle;
      post(*md.eq, event);
      --users_[index_of(*md.eq)];
      const uint32_t queue = index_of(*md.eq);
      if (std::find(closing_.begin(), closing_.end(), queue) != closing_.end()) close_if_unused(queue);
    }
    submitter_.worker_free(true, index);
  }
  size_t held() const { return held_.size(); }

  std::vector<CallMsg> seen;

 private:
  void handle(const BindCall& call) {
    Md& md = submitter_.md_slot(call.md);
    ULNET_CHECK(!md.bound);
    md.bound = true;
    if (md.eq != nullptr) ++users_[index_of(*md.eq)];
  }
  void handle(const AttachCall&) {}
  void handle(const PutCall& call) { held_.push_back({call.operation, call.ack ? EventKind::kAck : EventKind::kSend}); }
  void handle(const GetCall& call) { held_.push_back({call.operation, EventKind::kReply}); }
  void handle(const EqOpenCall& call) { submitter_.eq_slot(call.eq).open = true; }
  void handle(const EqCloseCall& call) {
    closing_.push_back(call.eq);
    close_if_unused(call.eq);
  }
  uint32_t index_of(const EventQueue& eq) { return uint32_t(&eq - &submitter_.eq_slot(0)); }
  void close_if_unused(uint32_t index) {
    EventQueue& eq = submitter_.eq_slot(index);
    if (users_[index] != 0) return;
    eq.open = false;
    std::erase(closing_, index);
    submitter_.worker_free(false, index);
  }
  void handle(const UnlinkCall& call) {
    const Md& md = submitter_.md_slot(call.md.index);
    if (!md.bound || md.handle.generation != call.md.generation) return;
    for (auto it = held_.begin(); it != held_.end();) {
      if (it->md.index != call.md.index) {
        ++it;
        continue;
      }
      end(*it, -ECANCELED);
      it = held_.erase(it);
    }
    retire(call.md.index);
  }
  void finish(const Started& op) {
    const Outcome outcome = on_operation ? on_operation(op, submitter_.md_slot(op.md.index)) : Outcome{};
    if (outcome.drop) return;
    end(op, outcome.status, outcome.mlength);
    if (outcome.twice) end(op, outcome.status, outcome.mlength);
  }
  void end(const Started& op, int32_t status, uint32_t mlength = kInfinite) {
    Md& md = submitter_.md_slot(op.md.index);
    if (md.eq == nullptr) return;
    Event event;
    event.kind = op.end;
    event.final = true;
    event.status = status;
    event.portal = op.portal.value;
    event.rlength = op.length;
    event.mlength = status == 0 ? std::min(op.length, mlength) : 0;
    event.offset = op.md_offset;
    event.match_bits = op.match_bits;
    event.user_data = op.user_data;
    event.user_ptr = md.user_ptr;
    event.md = md.handle;
    post(*md.eq, event);
  }
  void post(EventQueue& eq, const Event& event) {
    ULNET_CHECK(eq.post([&] { return event; }));
    if (eq.ring != nullptr) eq.gate.notify(*eq.ring);
  }
  Submitter& submitter_;
  std::deque<Started> held_;
  std::vector<uint32_t> closing_;  // queues that close with their last MD
  std::vector<uint32_t> users_;    // MDs by queue
};

}  // namespace ulnet::test
