// The next hop of a forwarded message, chosen by its header. The choice holds until the payload is here, or
// the view changes.
#pragma once
#include "dataplane/base/ids.h"

namespace ulnet {

struct PeerView;
struct PeerNiView;

struct ChosenHop {
  const PeerView* peer = nullptr;  ///< null: none was chosen
  const PeerNiView* ni = nullptr;
  const PeerNiView* final_ni = nullptr;  ///< routed: the destination's, when it is known
  bool routed = false;
  Epoch epoch{};  ///< of the view that the pointers are in: with another one, they mean nothing
};

}  // namespace ulnet
