// The answer to `explain`: the choice of a path with its reasons, as a document. Thread: control. The function that
// sends makes the choice, from the view in force and from the gauges of a worker; the worker does not take part.
#pragma once
#include "config/doc.h"
#include "control/control.h"

namespace ulnet {

/// A message as `explain` describes it.
struct ExplainRequest {
  Nid to;
  Nid from;                           ///< the source NI, or with `forward` the first sender; ANY: chosen
  uint32_t bytes = 0;                 ///< of the payload
  uint32_t numa = UINT32_MAX;         ///< node of the payload's memory
  uint32_t accelerator = UINT32_MAX;  ///< number of the one that holds the payload
  int64_t count = 0;                  ///< messages to play, one after the other, none of which ends; 0: none
  bool response = false;              ///< an ACK or REPLY
  bool forward = false;               ///< a message of another node
  WorkerId worker{};                  ///< the worker that chooses
};

/// Most messages that `count` may play for this destination: each takes time with the candidates that there are.
[[nodiscard]] int64_t explain_count_max(const Control& c, const Nid& to);
/// `explain:`, with one entry. Never fails: an unreachable destination is a result.
[[nodiscard]] config::Doc explain_doc(Control& c, const ExplainRequest& request);

}  // namespace ulnet
