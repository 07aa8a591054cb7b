// Exhaustive search through the states of a model, depth first. The search looks for three faults:
//   - a state that the model finds wrong in itself;
//   - a state without any further step but faults that is not converged (deadlock, or a stop in the wrong state);
//   - a cycle of steps without a fault (live-lock).
// When there is none, every run in which the faults have ended comes to a converged state.
//
// A model has the types State and Step, and these functions: initial(), steps(state), take(state, step),
// wrong_in(state), not_converged(state), text_of(state), text_of(state, step), and hash(state, add). The last one calls
// `add` with 64-bit numbers that stand for the state. Step::fault() is true for steps that nobody may rely on.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ulnet::model {

struct SearchResult {
  size_t states = 0;
  size_t steps = 0;
  size_t converged = 0;            ///< final states that are converged
  bool complete = false;           ///< no state was left out
  std::string wrong;               ///< "" or what was found
  std::vector<std::string> trace;  ///< the steps that lead there
  /// The finding with its steps, for the message of a test.
  [[nodiscard]] std::string story() const;
};

/// A hash of 126 bits that stands for a visited state. Among 10^8 states, two hashes are equal once in 10^22 searches.
struct Mark {
  uint64_t a = 0;  ///< 0 = free
  uint64_t b : 63 = 0;
  uint64_t on_path : 1 = 0;
};
class Marker {
 public:
  void add(uint64_t value);
  [[nodiscard]] Mark mark() const;

 private:
  uint64_t a_ = 0x9E3779B97F4A7C15ull, b_ = 0xC2B2AE3D27D4EB4Full;
};

/// The marks of all states seen, in a table that doubles.
class Seen {
 public:
  Seen() : marks_(1u << 12) {}
  /// The mark of that state, which may be a free one.
  Mark& find(const Mark& key);
  void add(const Mark& key);

 private:
  std::vector<Mark> marks_;
  size_t count_ = 0;
};

template <class Model>
class Search {
 public:
  using State = decltype(std::declval<Model&>().initial());
  using Steps = decltype(std::declval<Model&>().steps(std::declval<const State&>()));

  Search(Model& model, size_t states_max) : model_(model), states_max_(states_max) {}

  SearchResult run() {
    enter(model_.initial());
    // A step that needs no fault and leads to a state of the path is a cycle.
    while (!path_.empty() && result_.wrong.empty() && result_.states <= states_max_) {
      Place& place = path_.back();
      if (place.next == place.steps.size()) {
        seen_.find(place.mark).on_path = 0;
        path_.pop_back();
        continue;
      }
      ++result_.steps;
      enter(model_.take(place.state, place.steps[place.next++]));
    }
    result_.complete = path_.empty();
    if (!result_.wrong.empty()) tell();
    return std::move(result_);
  }

 private:
  struct Place {
    State state;
    Mark mark;
    Steps steps;
    size_t next = 0;
  };

  void enter(State state) {
    Marker marker;
    model_.hash(state, [&](uint64_t value) { marker.add(value); });
    Mark mark = marker.mark();
    if (const Mark& before = seen_.find(mark); before.a != 0) {
      // Faults only ever use budgets up, so a cycle has none in it.
      if (before.on_path != 0) result_.wrong = "a cycle";
      return;
    }
    ++result_.states;
    mark.on_path = 1;
    seen_.add(mark);
    result_.wrong = model_.wrong_in(state);
    Steps steps = model_.steps(state);
    if (result_.wrong.empty() && std::all_of(steps.begin(), steps.end(), [](const auto& one) { return one.fault(); })) {
      result_.wrong = model_.not_converged(state);
      result_.converged += result_.wrong.empty();
    }
    path_.push_back({std::move(state), mark, std::move(steps)});
  }

  void tell() {
    for (const Place& place : path_)
      if (place.next > 0) result_.trace.push_back(model_.text_of(place.state, place.steps[place.next - 1]));
    result_.trace.push_back("state:\n" + model_.text_of(path_.back().state));
  }

  Model& model_;
  const size_t states_max_;
  std::vector<Place> path_;
  Seen seen_;
  SearchResult result_;
};

/// Stops at the first thing that is wrong, or after `states_max` states.
template <class Model>
[[nodiscard]] SearchResult search(Model& model, size_t states_max) {
  return Search<Model>(model, states_max).run();
}

}  // namespace ulnet::model
