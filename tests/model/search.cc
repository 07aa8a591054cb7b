#include "tests/model/search.h"

namespace ulnet::model {

std::string SearchResult::story() const {
  std::string text = wrong + ", by\n";
  for (const std::string& line : trace) text += "  " + line + "\n";
  return text;
}

void Marker::add(uint64_t value) {
  a_ = (a_ ^ value) * 0xFF51AFD7ED558CCDull;
  a_ ^= a_ >> 32;
  b_ = (b_ + value) * 0xC4CEB9FE1A85EC53ull;
  b_ ^= b_ >> 29;
}

Mark Marker::mark() const {
  Mark mark;
  mark.a = a_ | 1;
  mark.b = b_;
  return mark;
}

Mark& Seen::find(const Mark& key) {
  size_t at = size_t(key.a >> 1) & (marks_.size() - 1);
  while (marks_[at].a != 0 && (marks_[at].a != key.a || marks_[at].b != key.b)) at = (at + 1) & (marks_.size() - 1);
  return marks_[at];
}

void Seen::add(const Mark& key) {
  if (++count_ * 2 > marks_.size()) {
    std::vector<Mark> old(marks_.size() * 2);
    old.swap(marks_);
    for (const Mark& one : old)
      if (one.a != 0) find(one) = one;
  }
  find(key) = key;
}

}  // namespace ulnet::model
