#include "tests/model/search.h"

#include <algorithm>
#include <memory>
#include <unordered_map>

namespace ulnet::model {
namespace {

class Search {
 public:
  Search(const ModelOptions& options, size_t states_max) : options_(options), states_max_(states_max) {}

  SearchResult run() {
    auto model = std::make_unique<Model>(options_);
    enter(*model);
    // Depth first: a step that needs no fault and leads to a state of the path is a cycle.
    while (!path_.empty() && result_.wrong.empty() && result_.states <= states_max_) {
      Place& place = path_.back();
      if (place.next == place.steps.size()) {
        on_path_[place.number] = false;
        path_.pop_back();
        if (!taken_.empty()) taken_.pop_back();
        model.reset();  // of the state that was left
        continue;
      }
      const Step step = place.steps[place.next++];
      if (model == nullptr) model = again();
      model->take(step);
      taken_.push_back(step);
      if (!enter(*model)) {
        taken_.pop_back();
        model.reset();
      }
    }
    result_.complete = path_.empty();
    if (!result_.wrong.empty()) tell();
    return std::move(result_);
  }

 private:
  struct Place {
    size_t number = 0;
    std::vector<Step> steps;
    size_t next = 0;
  };

  std::unique_ptr<Model> again() {
    auto model = std::make_unique<Model>(options_);
    for (const Step& step : taken_) model->take(step);
    return model;
  }

  /// False when the state has been seen before.
  bool enter(const Model& model) {
    const auto [found, fresh] = numbers_.try_emplace(model.key(), numbers_.size());
    if (!fresh) {
      // Faults only ever use budgets up, so a cycle has none in it.
      if (on_path_[found->second]) result_.wrong = "a cycle";
      if (!result_.wrong.empty()) keep_last();
      return false;
    }
    ++result_.states;
    on_path_.push_back(true);
    Place place{found->second, model.steps(), 0};
    const bool ends = std::all_of(place.steps.begin(), place.steps.end(), [](const Step& one) { return one.fault(); });
    if (ends) {
      result_.wrong = model.not_converged();
      result_.converged += result_.wrong.empty();
    }
    path_.push_back(std::move(place));
    return true;
  }

  void keep_last() { last_ = taken_; }

  void tell() {
    if (!last_.empty()) taken_ = last_;
    Model model(options_);
    for (const Step& step : taken_) {
      result_.trace.push_back(model.text_of(step));
      model.take(step);
    }
    result_.trace.push_back("state: " + model.key());
  }

  const ModelOptions options_;
  const size_t states_max_;
  std::vector<Place> path_;
  std::vector<Step> taken_, last_;
  std::unordered_map<std::string, size_t> numbers_;
  std::vector<bool> on_path_;
  SearchResult result_;
};

}  // namespace

SearchResult search(const ModelOptions& options, size_t states_max) {
  return Search(options, states_max).run();
}

}  // namespace ulnet::model
