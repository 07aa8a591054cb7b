// A driver whose wire is the test. The driver keeps the messages that the node sends, and the node receives the
// messages that the test hands in. One worker; every send succeeds at once, and all peers are connected.
#pragma once
#include <deque>
#include <map>
#include <vector>

#include "lnd/lnd.h"

namespace ulnet::test {

struct WireMessage {
  Nid from, to;  ///< of the hop
  wire::Header header;
  std::vector<std::byte> payload;
};

class MessageControl;

class MessageLnd final : public Lnd {
 public:
  /// Appends each message that the node sends to `sent`.
  MessageLnd(LndCore& core, std::vector<WireMessage>& sent) : core_(core), sent_(sent) {}

  /// `message` has come to the NI `ni` from the peer NI at `place`.
  void receive(const WireMessage& message, const NiParams& ni, const PeerPlace& place, Instant now);

  void submit(Tx& tx, Instant now) override;
  void resume(RxSlot& slot, Instant now) override;
  void release(RxSlot&, Instant) override {}
  void divert(RxSlot&, Instant) override {}
  void cancel(Tx&, bool, Instant) override {}
  unsigned poll(unsigned budget, Instant now) override;
  unsigned timers(Instant) override { return 0; }
  void flush(Instant) override {}
  void from_control(const LndMsg&, Instant) override {}
  Instant next_deadline() override { return kForever; }
  bool pending() override { return !done_.empty(); }
  unsigned wait_fds(std::span<int>) override { return 0; }
  bool idle() const override { return done_.empty() && slots_.empty(); }

 private:
  struct Slot : RxSlot {
    std::vector<std::byte> payload;
  };
  void go_on(Slot& slot, RxVerdict verdict, Instant now);

  LndCore& core_;
  std::vector<WireMessage>& sent_;
  std::deque<Tx*> done_;
  std::map<const RxSlot*, std::unique_ptr<Slot>> slots_;
};

class MessageControl final : public LndControl {
 public:
  explicit MessageControl(LndControlHost& host) : host_(host) {}

  /// The NI with this NID; null when the node has none.
  [[nodiscard]] const NiParams* ni(const Nid& nid) const;
  [[nodiscard]] LndControlHost& host() { return host_; }

  Result<void> ni_start(const NiParams& params, Instant) override;
  void ni_stop(NiId ni, Instant) override { stopping_.push_back(ni); }
  bool names(const PeerSlice&) const override { return true; }  // messages come from wherever the capture says
  void from_worker(WorkerId, const LndMsg&, Instant) override {}
  unsigned turn(Instant) override;
  Instant next_deadline() override { return kForever; }
  void wait_fds(std::vector<int>&) override {}

 private:
  LndControlHost& host_;
  std::map<NiId, NiParams> nis_;
  std::vector<NiId> stopping_;
};

}  // namespace ulnet::test
