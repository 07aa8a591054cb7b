// Event queues. One worker owns each; only MDs homed there name it. Events go to a callback on that worker, or into a
// ring that the application polls. A full ring loses no event: the message or MD whose event it is waits in line, and
// keeps its slot. Some submitters owe events for as many receives as are left for all others. For these, only as many
// receives are accepted as the queue has room for. Further receives are held, and dropped when the queue has had no
// room for kEqStuckMax.
#pragma once
#include <atomic>
#include <memory>
#include <new>

#include "dataplane/base/idle_gate.h"
#include "dataplane/base/list.h"
#include "dataplane/base/ring.h"
#include "dataplane/base/time.h"
#include "dataplane/state/event.h"

namespace ulnet {

class Submitter;
struct RxSlot;
struct RxTag;

struct EventTag {};
/// An object that can owe an event. Linked while its event waits for room.
struct EventSource : Linked<EventTag> {
  enum class Of : uint8_t { kOperation, kIncoming, kMd };
  explicit EventSource(Of object) : of(object) {}
  const Of of;
};

/// Called on the worker that owns the queue; must not block.
using EventCallback = void (*)(void* context, const Event& event);

struct EqWaitTag {};
struct EqPushedTag {};
struct EventQueue : Linked<EqWaitTag>, Linked<EqPushedTag> {
  std::unique_ptr<SpscRing<Event>> ring;  ///< worker: w, application: r; null for callback queues
  IdleGate gate;                          ///< the application sleeps on it, if it has opened it
  EventCallback callback = nullptr;
  void* context = nullptr;
  List<EventSource, EventTag> waiting;  ///< worker only
  List<RxSlot, RxTag> held;             ///< worker only: receives for its MDs, held until events have found room
  Submitter* submitter = nullptr;       ///< worker only: whose it is, while `held` is not empty
  Instant moved = kNever;               ///< worker only: while events wait: when room was last found, or first not
  uint32_t users = 0;                   ///< worker only: MDs, and messages without MD, that owe it an event
  uint32_t generation = 0;
  bool open = false;     ///< worker only: false = events are discarded
  bool closing = false;  ///< worker only: closes when its last user is gone

  /// Worker only: events or receives wait for room.
  [[nodiscard]] bool waits() const { return Linked<EqWaitTag>::linked(); }
  /// Worker only: got events since the application was last notified.
  [[nodiscard]] bool pushed() const { return Linked<EqPushedTag>::linked(); }

  /// Delivers the event that `make` returns, or returns false: the ring is full or others wait already. The event is
  /// made in its place: a copy of what was just written is slow (store_pair()). A worker calls event_post().
  template <class Make>
  [[nodiscard]] bool post(const Make& make) {
    if (!open) return true;  // the application is gone: there is no receiver
    if (callback != nullptr) {
      callback(context, make());
      return true;
    }
    Event* place = waiting.empty() ? ring->back() : nullptr;
    if (place == nullptr) return false;
    new (place) Event(make());
    ring->push_back();
    return true;
  }
};

}  // namespace ulnet
