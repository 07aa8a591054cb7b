// Stand between a driver and its worker in a test, and make a node behave as another implementation would.
#pragma once
#include <algorithm>
#include <vector>

#include "lnd/lnd.h"

namespace ulnet::test {

/// Passes everything on.
class CoreBetween : public LndCore {
 public:
  explicit CoreBetween(LndCore& core) : core_(core) {}
  virtual ~CoreBetween() = default;
  RxVerdict rx_header(RxSlot& slot, Instant now) override { return core_.rx_header(slot, now); }
  void rx_done(RxSlot& slot, Completion how, Instant now) override { core_.rx_done(slot, how, now); }
  void tx_done(Tx& tx, Completion how, Instant now) override { core_.tx_done(tx, how, now); }
  void get_done(Tx& tx, uint32_t bytes, int32_t error, Instant now) override {
    core_.get_done(tx, bytes, error, now);
  }
  void tx_waits(Tx& tx, Instant now) override { core_.tx_waits(tx, now); }
  void tx_connected(Tx& tx, Instant now) override { core_.tx_connected(tx, now); }
  void to_control(Owed& owed, const LndMsg& msg) override { core_.to_control(owed, msg); }
  [[nodiscard]] bool ask_control(const LndMsg& msg) override { return core_.ask_control(msg); }
  [[nodiscard]] WorkerId worker_id() const override { return core_.worker_id(); }

 private:
  LndCore& core_;
};

/// A node of an older version, where its ping info does not say so: a push to it is a protocol error. Knows no NIDs but
/// those that the node starts with.
class DownrevCore final : public CoreBetween {
 public:
  /// `refused` counts the pushes.
  DownrevCore(LndCore& core, std::vector<Nid> own, uint64_t& refused)
      : CoreBetween(core), own_(std::move(own)), refused_(refused) {}

  RxVerdict rx_header(RxSlot& slot, Instant now) override {
    const wire::Header& header = slot.header;
    const bool here = std::find(own_.begin(), own_.end(), header.dest_nid) != own_.end();
    if (!here || header.type != wire::MsgType::kPut || header.put().portal != 0)
      return CoreBetween::rx_header(slot, now);
    ++refused_;
    return RxVerdict::kProtocolError;
  }

 private:
  const std::vector<Nid> own_;
  uint64_t& refused_;
};

/// Every REPLY to the node names the NID `as` as its source.
class RenamedRepliesCore final : public CoreBetween {
 public:
  RenamedRepliesCore(LndCore& core, const Nid& as) : CoreBetween(core), as_(as) {}

  RxVerdict rx_header(RxSlot& slot, Instant now) override {
    if (slot.header.type == wire::MsgType::kReply) slot.header.src_nid = as_;
    return CoreBetween::rx_header(slot, now);
  }

 private:
  const Nid as_;
};

}  // namespace ulnet::test
