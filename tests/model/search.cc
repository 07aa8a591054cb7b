#include "tests/model/search.h"

#include <algorithm>

namespace ulnet::model {
namespace {

/// A hash of 126 bits that stands for a visited state. Among 10^8 states, two hashes are equal once in 10^22 searches.
struct Mark {
  uint64_t a = 0;  ///< 0 = free
  uint64_t b : 63 = 0;
  uint64_t on_path : 1 = 0;
};

Mark mark_of(const State& state) {
  uint64_t a = 0x9E3779B97F4A7C15ull, b = 0xC2B2AE3D27D4EB4Full;
  const auto add = [&](uint64_t value) {
    a = (a ^ value) * 0xFF51AFD7ED558CCDull;
    a ^= a >> 32;
    b = (b + value) * 0xC4CEB9FE1A85EC53ull;
    b ^= b >> 29;
  };
  add(uint64_t{state.losses} << 16 | uint64_t{state.restarts} << 8 | state.changes);
  for (const uint32_t node : state.nodes) add(node);
  for (const Flight& one : state.flights) {
    add(uint64_t(one.kind) << 24 | uint64_t{one.node} << 16 | uint64_t{one.sender} << 8 | one.token);
    add(one.body);
  }
  Mark mark;
  mark.a = a | 1;
  mark.b = b;
  return mark;
}

/// The marks of all states seen, in a table that doubles.
class Seen {
 public:
  Seen() : marks_(1u << 12) {}
  /// The mark of that state, which may be a free one.
  Mark& find(const Mark& key) {
    size_t at = size_t(key.a >> 1) & (marks_.size() - 1);
    while (marks_[at].a != 0 && (marks_[at].a != key.a || marks_[at].b != key.b)) at = (at + 1) & (marks_.size() - 1);
    return marks_[at];
  }
  void add(const Mark& key) {
    if (++count_ * 2 > marks_.size()) {
      std::vector<Mark> old(marks_.size() * 2);
      old.swap(marks_);
      for (const Mark& one : old)
        if (one.a != 0) find(one) = one;
    }
    find(key) = key;
  }

 private:
  std::vector<Mark> marks_;
  size_t count_ = 0;
};

class Search {
 public:
  Search(const ModelOptions& options, size_t states_max) : model_(options), states_max_(states_max) {}

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
    result_.node_states = model_.node_states();
    if (!result_.wrong.empty()) tell();
    return std::move(result_);
  }

 private:
  struct Place {
    State state;
    Mark mark;
    std::vector<Step> steps;
    size_t next = 0;
  };

  void enter(State state) {
    Mark mark = mark_of(state);
    if (const Mark& before = seen_.find(mark); before.a != 0) {
      // Faults only ever use budgets up, so a cycle has none in it.
      if (before.on_path != 0) result_.wrong = "a cycle";
      return;
    }
    ++result_.states;
    mark.on_path = 1;
    seen_.add(mark);
    std::vector<Step> steps = model_.steps(state);
    if (std::all_of(steps.begin(), steps.end(), [](const Step& one) { return one.fault(); })) {
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

  Model model_;
  const size_t states_max_;
  std::vector<Place> path_;
  Seen seen_;
  SearchResult result_;
};

}  // namespace

SearchResult search(const ModelOptions& options, size_t states_max) {
  return Search(options, states_max).run();
}

}  // namespace ulnet::model
