// One worker half of o2iblnd and one peer that a test plays, on a simulated net.
#pragma once
#include "tests/script/ib/raw_peer.h"

namespace ulnet::test {

class IbScript : public ::testing::Test {
 protected:
  ~IbScript() override {
    if (raw.qp != nullptr) raw.worker().flush(now), raw.broken(*raw.qp, rc::Cause::kClosed, now);
    pass(100s);
    EXPECT_TRUE(end.idle());
    EXPECT_EQ(end.unfinished, 0u);
    EXPECT_EQ(end.slots_open, 0u);
    EXPECT_EQ(end.arena.out(), 0u);
    EXPECT_EQ(net.conns(), 0u);
    EXPECT_EQ(net.counts.no_buffer, 0u);
  }
  /// Time passes in small steps.
  void pass(Duration time = 20ms) {
    const Duration step = time > 1s ? time / 200 : kStep;
    for (const Instant until = now + time; now < until; now += net.step(step)) {
      raw.turn(now);
      end.turn(now);
    }
  }
  /// A connection that node 0 has dialled, by an IMMEDIATE that goes over it.
  void connect() {
    IbTx& tx = end.put(1, 1, 10);
    pass();
    ASSERT_EQ(raw.next().message.type, o2iblnd::MessageType::kImmediate);
    ASSERT_TRUE(tx.done);
    raw.send_noop(1);
    pass();
  }
  static std::vector<std::byte> payload(uint64_t bits, uint32_t bytes) {
    return {ib_payload(bits), ib_payload(bits) + bytes};
  }

  IbNet net{11};
  IbEnd end{net, 0};
  RawPeer raw{net};
  Instant now = kNever + 1s;
};

}  // namespace ulnet::test
