#include "dataplane/stages/driver_calls.h"

#include "dataplane/stages/egress.h"
#include "dataplane/stages/post.h"
#include "dataplane/stages/receive.h"

namespace ulnet {

RxVerdict DriverCalls::rx_header(RxSlot& slot, Instant) {
  return receive_header(worker_, slot);
}
void DriverCalls::rx_done(RxSlot& slot, Completion how, Instant) {
  receive_done(worker_, slot, how);
}
void DriverCalls::tx_done(Tx& tx, Completion how, Instant) {
  egress_done(worker_, tx, how);
}
void DriverCalls::get_done(Tx& tx, uint32_t bytes, int32_t error, Instant) {
  egress_get_done(worker_, tx, bytes, error);
}
void DriverCalls::tx_waits(Tx& tx, Instant) {
  egress_waits(worker_, tx);
}
void DriverCalls::tx_connected(Tx& tx, Instant) {
  egress_connected(worker_, tx);
}

void DriverCalls::to_control(Owed& owed, const LndMsg& msg) {
  post_control(worker_, owed, numbered(msg));
}
bool DriverCalls::ask_control(const LndMsg& msg) {
  return worker_.control_asks.out() < worker_.driver_asks_most && ulnet::ask_control(worker_, numbered(msg));
}

LndMsg DriverCalls::numbered(LndMsg msg) const {
  msg.lnd = lnd_;
  return msg;
}

}  // namespace ulnet
