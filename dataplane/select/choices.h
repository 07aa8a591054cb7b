// The results of a choice of path, by kind.
#pragma once
#include "dataplane/select/path.h"

namespace ulnet {

struct Choices {
  /// There is no path. `code`: negative errno of the message; `health`: the side at fault.
  static PathChoice error(int32_t code, LndStatus health) {
    PathChoice choice;
    choice.kind = PathKind::kError;
    choice.error = code;
    choice.health = health;
    return choice;
  }
  /// Control has to look `nid` up first. `discover`: as PathChoice::discover.
  static PathChoice park(const Nid& nid, bool discover = false) {
    PathChoice choice;
    choice.kind = PathKind::kPark;
    choice.ask = nid;
    choice.discover = discover;
    return choice;
  }
  /// From `ni` to `hop`, an NI of `peer`. `dest`: the destination in the header.
  static PathChoice path(const NiView& ni, const PeerView& peer, const PeerNiView& hop, const Nid& dest) {
    PathChoice choice;
    choice.kind = PathKind::kPath;
    choice.ni = &ni;
    choice.hop = &hop;
    choice.hop_peer = &peer;
    choice.dest = dest;
    choice.src = ni.nid;
    return choice;
  }
};

}  // namespace ulnet
