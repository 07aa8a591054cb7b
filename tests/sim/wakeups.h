// What a sleeping thread relies on: whatever wakes it is found by its look before it sleeps (dataplane/worker/idle.h).
// Between two turns of a simulated thread its gate is armed, so that a wake-up leaves a mark.
#pragma once
#include <gtest/gtest.h>

#include "control/node.h"

namespace ulnet::test {

/// Turns a worker of a node that has no threads of its own, or its control side.
inline unsigned turn_watched(Node& node, WorkerId worker, Instant now) {
  IdleGate& gate = node.worker_gate(worker);
  if (gate.disarm()) {
    EXPECT_TRUE(node.worker(worker).pending()) << "worker " << worker.value << " was woken, and would sleep on";
  }
  const unsigned done = node.turn(worker, now);
  gate.arm();
  return done;
}
inline unsigned turn_control_watched(Node& node, Instant now) {
  IdleGate& gate = node.control_gate();
  if (gate.disarm()) {
    EXPECT_TRUE(node.control_pending()) << "control was woken, and would sleep on";
  }
  const unsigned done = node.turn_control(now);
  gate.arm();
  return done;
}

}  // namespace ulnet::test
