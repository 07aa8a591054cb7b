// The numbers that a sender changes after a choice of path: one rule for workers, and for explain.h, which plays sends.
// `Notes` stores the numbers: WorkerNotes in the worker's tallies, SendOverlay beside them.
// Source: docs/wire/lnet.md §6.4.
#pragma once
#include "dataplane/select/path.h"

namespace ulnet {

/// The next hop, and the route to it, have had their turn; nothing is sent yet.
template <class Notes>
void note_turn(Notes& notes, const PathChoice& choice) {
  notes.peer_ni_chosen(*choice.hop, notes.next_choice());
  if (choice.route != nullptr) notes.route_chosen(*choice.route, notes.next_route_choice());
}

/// A message takes the path.
template <class Notes>
void note_path(Notes& notes, const PathChoice& choice) {
  const int64_t number = notes.next_choice();
  notes.ni_chosen(*choice.ni, number);
  notes.peer_ni_chosen(*choice.hop, number);
  if (choice.final_ni != nullptr) notes.peer_ni_chosen(*choice.final_ni, number);
  if (choice.route != nullptr) notes.route_chosen(*choice.route, notes.next_route_choice());
}

/// The same, with this number of bytes of header and payload, which are under way from now on. For messages that are
/// played; a worker has under_way_begin() for that.
template <class Notes>
void note_sent(Notes& notes, const PathChoice& choice, uint64_t bytes) {
  note_path(notes, choice);
  notes.taken(*choice.ni, *choice.hop, bytes);
}

class WorkerNotes {
 public:
  explicit WorkerNotes(Tallies& tallies) : tallies_(tallies) {}
  int64_t next_choice() { return next(tallies_.choices); }
  int64_t next_route_choice() { return next(tallies_.route_choices); }
  void ni_chosen(const NiView& ni, int64_t number) { tallies_.ni(ni.slot).tally().chosen(number); }
  /// A destination behind a router may have no memory, and then has no tally either.
  void peer_ni_chosen(const PeerNiView& ni, int64_t number) {
    if (ni.slice != nullptr) tallies_.peer_ni(ni.slot).tally().chosen(number);
  }
  void route_chosen(const RouteView& route, int64_t number) {
    if (route.id < kRoutesMax) tallies_.routes[route.id].set(number);
  }
  void taken(const NiView& ni, const PeerNiView& hop, uint64_t bytes) {
    tallies_.ni(ni.slot).tally().take(bytes);
    tallies_.peer_ni(hop.slot).tally().take(bytes);
  }

 private:
  static int64_t next(Gauge& last) {
    last.add(1);
    return last.get();
  }
  Tallies& tallies_;
};

}  // namespace ulnet
