// Control's way to the workers: nothing sent is lost; what finds a ring full waits here, in order, and goes at the next
// flush. Thread: control.
#pragma once
#include <deque>
#include <vector>

#include "control/timers.h"
#include "dataplane/state/inbox.h"

namespace ulnet {

class Outbox {
 public:
  Outbox(Mesh& mesh, Timers& timers) : mesh_(mesh), waiting_(mesh.worker_count), retry_(timers, TimerName::kOutbox) {}

  /// Sends, now or later. An object in `msg` changes its owner as its kind says (dataplane/state/ring_messages.h).
  void send(WorkerId to, const ControlMsg& msg);
  void send_all(const ControlMsg& msg);
  /// Retries what waits; returns how many went.
  unsigned flush();
  /// True when something waits.
  [[nodiscard]] bool waiting() const;

 private:
  Mesh& mesh_;
  std::vector<std::deque<ControlMsg>> waiting_;  // by worker
  SlowTimer retry_;
};

}  // namespace ulnet
