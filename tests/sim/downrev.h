// What makes a node in a test one of an older version, where its ping info does not: a push to it is a protocol error.
#pragma once
#include <algorithm>
#include <vector>

#include "lnd/lnd.h"

namespace ulnet::test {

/// Stands between a driver and its worker. Knows no NIDs but those that the node starts with.
class DownrevCore final : public LndCore {
 public:
  /// `refused` counts the pushes.
  DownrevCore(LndCore& core, std::vector<Nid> own, uint64_t& refused)
      : core_(core), own_(std::move(own)), refused_(refused) {}

  RxVerdict rx_header(RxSlot& slot, Instant now) override {
    const wire::Header& header = slot.header;
    const bool here = std::find(own_.begin(), own_.end(), header.dest_nid) != own_.end();
    if (!here || header.type != wire::MsgType::kPut || header.put().portal != 0) return core_.rx_header(slot, now);
    ++refused_;
    return RxVerdict::kProtocolError;
  }
  void rx_done(RxSlot& slot, Completion how, Instant now) override { core_.rx_done(slot, how, now); }
  void tx_done(Tx& tx, Completion how, Instant now) override { core_.tx_done(tx, how, now); }
  void tx_waits(Tx& tx, Instant now) override { core_.tx_waits(tx, now); }
  void tx_connected(Tx& tx, Instant now) override { core_.tx_connected(tx, now); }
  void to_control(Owed& owed) override { core_.to_control(owed); }
  [[nodiscard]] bool ask_control(const LndMsg& msg) override { return core_.ask_control(msg); }
  [[nodiscard]] WorkerId worker_id() const override { return core_.worker_id(); }

 private:
  LndCore& core_;
  const std::vector<Nid> own_;
  uint64_t& refused_;
};

}  // namespace ulnet::test
