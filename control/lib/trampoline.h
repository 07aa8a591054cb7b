// A callback of the C API, as a worker calls it.
#pragma once
#include "control/lib/ulnet.h"
#include "dataplane/state/event.h"

namespace ulnet {

struct Trampoline {
  ulnet_callback_t callback = nullptr;
  void* context = nullptr;
};

/// On the home worker. `context`: a Trampoline.
inline void trampoline_event(void* context, const Event& event) {
  const Trampoline& to = *static_cast<const Trampoline*>(context);
  to.callback(to.context, reinterpret_cast<const ulnet_event_t*>(&event));
}

}  // namespace ulnet
