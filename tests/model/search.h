// Exhaustive search through the states of a Model (discovery_model.h), depth first. The search looks for two faults:
//   - a state without any further step but faults that is not converged (deadlock, or a stop in the wrong state);
//   - a cycle of steps without a fault (live-lock).
// When there is neither, every run in which the faults have ended comes to a converged state.
#pragma once
#include <string>
#include <vector>

#include "tests/model/discovery_model.h"

namespace ulnet::model {

struct SearchResult {
  size_t states = 0;
  size_t steps = 0;
  size_t node_states = 0;          ///< of single nodes; the real machine computes the steps of these only
  size_t converged = 0;            ///< final states that are converged
  bool complete = false;           ///< no state was left out
  std::string wrong;               ///< "" or what was found
  std::vector<std::string> trace;  ///< the steps that lead there
};
/// Stops at the first thing that is wrong, or after `states_max` states.
[[nodiscard]] SearchResult search(const ModelOptions& options, size_t states_max);

}  // namespace ulnet::model
