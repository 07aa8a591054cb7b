// Control's way to the workers: nothing sent is lost; what finds a ring full waits here, in order, and goes at the next
// flush. Thread: control.
#pragma once
#include <deque>
#include <vector>

#include "dataplane/state/inbox.h"

namespace ulnet {

class Outbox {
 public:
  explicit Outbox(Mesh& mesh) : mesh_(mesh), waiting_(mesh.worker_count) {}

  /// Sends, now or later. The object in `item` is the worker's from here on, as its kind says.
  void send(WorkerId to, const ControlItem& item);
  void send_all(const ControlItem& item);
  /// Retries what waits; returns how many went.
  unsigned flush();
  /// True when something waits: control must not sleep for long.
  [[nodiscard]] bool waiting() const;

 private:
  Mesh& mesh_;
  std::vector<std::deque<ControlItem>> waiting_;  // by worker
};

}  // namespace ulnet
