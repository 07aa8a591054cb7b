// The recorder of choices that send (chooser.h).
#pragma once
#include <cstdint>

#include "dataplane/select/criterion.h"
#include "dataplane/state/view.h"

namespace ulnet {

/// Records nothing, and costs nothing.
struct NoRecorder {
  static constexpr bool kOn = false;
  struct Step {};
  struct Verdict {
    bool better = false;
    static constexpr Verdict higher(Criterion, int64_t a, int64_t b) { return {a > b}; }
    static constexpr Verdict lower(Criterion, int64_t a, int64_t b) { return {a < b}; }
  };
  static Step begin(StepKind, const RouteView* = nullptr) { return {}; }
  template <class T>
  static void excluded(Step, const T&, Exclusion) {}
  template <class T>
  static void considered(Step, const T&) {}
  template <class T>
  static void compared(Step, const T&, const T&, const Verdict&) {}
  template <class T>
  static void chosen(Step, const T&, Criterion = Criterion::kOnly) {}
};

}  // namespace ulnet
