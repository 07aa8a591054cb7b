// The numbers that a sender changes after a choice of path: one rule for workers, and for explain.h, which plays sends.
// `Notes` stores the numbers: WorkerNotes in the objects that the worker owns, SendOverlay beside them.
// Source: docs/wire/lnet.md §6.4.
#pragma once
#include "dataplane/select/path.h"
#include "dataplane/state/slices.h"

namespace ulnet {

/// The next hop, and the route to it, have had their turn; nothing is sent yet.
template <class Notes>
void note_turn(Notes& notes, const PathChoice& choice) {
  notes.peer_ni_chosen(*choice.hop, notes.next_choice());
  if (choice.route != nullptr) notes.route_chosen(*choice.route, notes.next_route_choice());
}

/// A message with a payload of `bytes` takes the path.
template <class Notes>
void note_sent(Notes& notes, const PathChoice& choice, uint32_t bytes) {
  const int64_t number = notes.next_choice();
  notes.ni_chosen(*choice.ni, number);
  notes.peer_ni_chosen(*choice.hop, number);
  if (choice.final_ni != nullptr) notes.peer_ni_chosen(*choice.final_ni, number);
  if (choice.route != nullptr) notes.route_chosen(*choice.route, notes.next_route_choice());
  notes.credits_taken(*choice.ni, *choice.hop, bytes);
}

/// The worker's own sequences, and its notes of what it has sent since it read the gauges of other workers.
class WorkerNotes {
 public:
  WorkerNotes(WorkerId worker, Rotation& rotation, uint32_t turn) : worker_(worker), rotation_(rotation), turn_(turn) {}
  int64_t next_choice() { return next(rotation_.choices); }
  int64_t next_route_choice() { return next(rotation_.route_choices); }
  void ni_chosen(const NiView& ni, int64_t number) { ni.slices[worker_.value]->sequence.set(number); }
  void peer_ni_chosen(const PeerNiView& ni, int64_t number) { ni.locals[worker_.value]->sequence.set(number); }
  void route_chosen(const RouteView& route, int64_t number) {
    if (route.id < kRoutesMax) rotation_.routes[route.id].set(number);
  }
  void credits_taken(const NiView& ni, const PeerNiView& hop, uint32_t bytes) {
    ni.slices[worker_.value]->loads[hop.server.value].note_sent(turn_);
    hop.locals[worker_.value]->load.note_sent(turn_, bytes);
  }

 private:
  static int64_t next(Gauge& last) {
    last.add(1);
    return last.get();
  }
  const WorkerId worker_;
  Rotation& rotation_;
  const uint32_t turn_;
};

}  // namespace ulnet
