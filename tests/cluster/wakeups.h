// Checks the wake-ups of simulated threads (dataplane/base/idle_gate.h). Before a thread sleeps, its look must find all
// its pending work. Each item that is sent to the thread must wake it. Between two turns of a simulated thread its gate
// is armed, so that a wake-up leaves a mark.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "control/node.h"

namespace ulnet::test {

/// A number of no worker.
inline constexpr int kControlThread = -1;

/// Before a turn of a worker or of control. `pending`: the look before the sleep finds something; `sent`: a ring to
/// this thread holds items. Called for each turn: googletest's macros cost more than the rest, so they come last.
inline void wake_watched(IdleGate& gate, bool pending, bool sent, int thread) {
  const bool notified = gate.notified();
  gate.notify_stored();  // leaves a mark in a gate that was armed: before its first turn a thread is awake
  const bool armed = gate.disarm();
  const bool sleeps_on = notified && !pending;
  const bool not_woken = armed && !notified && sent;
  if (!sleeps_on && !not_woken) return;
  const std::string name = thread == kControlThread ? "control" : "worker " + std::to_string(thread);
  EXPECT_FALSE(sleeps_on) << name << " was woken, and would sleep on";
  EXPECT_FALSE(not_woken) << name << " was sent something, and not woken";
}
/// To call after a turn: items that the turn left in a ring need no second wake-up.
inline void sleep_watched(IdleGate& gate, bool sent) {
  gate.arm();
  if (sent) gate.notify_stored();
}

inline bool sent_to_worker(Node& node, WorkerId worker) {
  Mesh& mesh = *node.control().mesh;
  if (!mesh.to_worker[worker.value]->empty()) return true;
  for (unsigned from = 0; from < mesh.worker_count; ++from) {
    Mesh::Pair& pair = mesh.pair(from, worker.value);
    if (from != worker.value && (!pair.work.empty() || !pair.back.empty())) return true;
  }
  return false;
}
inline bool sent_to_control(Node& node) {
  for (auto& ring : node.control().mesh->to_control)
    if (!ring->empty()) return true;
  return false;
}

/// Turns a worker of a node that has no threads of its own, or its control side.
inline unsigned turn_watched(Node& node, WorkerId worker, Instant now) {
  IdleGate& gate = node.worker_gate(worker);
  wake_watched(gate, node.worker(worker).pending(), sent_to_worker(node, worker), worker.value);
  const unsigned done = node.turn(worker, now);
  sleep_watched(gate, sent_to_worker(node, worker));
  return done;
}
/// Whether control has a reason for work in a turn at `now`. The test itself may have changed something since the last
/// turn. Each turn frees views, and tries again where a ring was full.
inline bool work_announced(Node& node, Instant now) {
  Control& c = node.control();
  if (node.next_deadline() <= now + kRetrySoon || node.control_pending()) return true;
  if (c.portals_seen != c.portals->revision()) return true;
  return c.dirty.local || c.dirty.node || c.dirty.ping || c.peers->changed() || c.publisher->unretired() > 0;
}
/// `sockets`: a socket may be the reason for work.
inline unsigned turn_control_watched(Node& node, Instant now, bool sockets = false) {
  IdleGate& gate = node.control_gate();
  const bool announced = sockets || work_announced(node, now);
  wake_watched(gate, node.control_pending(), sent_to_control(node), kControlThread);
  const unsigned done = node.turn_control(now);
  if (done > 0 && !announced) ADD_FAILURE() << "control had work that no timer announced (control/timers.h)";
  sleep_watched(gate, sent_to_control(node));
  return done;
}

}  // namespace ulnet::test
