// What a peer's list and this node's table say differently, as the operator hears of it: the first few, how many more,
// and only when they are others than last time, since the same list comes with every push and check. Thread: control.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dataplane/base/limits.h"
#include "dataplane/base/nid.h"

namespace ulnet {

class Differences {
 public:
  /// `line` is called only for those that are said.
  template <class F>
  void add(uint32_t kind, const Nid& nid, F&& line) {
    mark_ += (nid.hash() + kind) * 0x9E3779B97F4A7C15ull | 1;  // a sum: order does not count
    ++count_;
    if (lines_.size() < kDifferencesSaid) lines_.push_back(line());
  }
  /// Says them, unless they are what `seen` is of; afterwards it is of these.
  void tell(uint64_t& seen, const std::function<void(const std::string&)>& log, const std::string& peer) const {
    const bool news = mark_ != seen;
    seen = mark_;
    if (!news) return;
    for (const std::string& line : lines_) log(line);
    if (count_ > lines_.size())
      log("peer " + peer + ": and " + std::to_string(count_ - lines_.size()) + " more such differences");
  }

 private:
  uint64_t mark_ = 0;
  size_t count_ = 0;
  std::vector<std::string> lines_;
};

}  // namespace ulnet
