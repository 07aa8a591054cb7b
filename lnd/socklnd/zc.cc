#include "lnd/socklnd/zc.h"

#include <algorithm>

#include "dataplane/base/check.h"

namespace ulnet::socklnd {

uint64_t ZcBook::add(Tx& tx) {
  ULNET_CHECK(!full());
  entries_[count_++] = {next_, &tx};
  return next_++;
}

uint32_t ZcBook::lower_bound(uint64_t cookie) const {
  const Entry* begin = entries_.data();
  const Entry* at =
      std::lower_bound(begin, begin + count_, cookie, [](const Entry& entry, uint64_t c) { return entry.cookie < c; });
  return uint32_t(at - begin);
}

bool ZcBook::covers(uint64_t first, uint64_t last) const {
  if (first > last || last - first >= count_) return false;
  const uint32_t at = lower_bound(first);
  const uint64_t run = last - first;
  // Strictly rising entries: when both ends fit, all between them do.
  return at + run < count_ && entries_[at].cookie == first && entries_[at + run].cookie == last;
}

Tx* ZcBook::take(uint64_t cookie) {
  const uint32_t at = lower_bound(cookie);
  if (at == count_ || entries_[at].cookie != cookie) return nullptr;
  Tx* tx = entries_[at].tx;
  std::copy(entries_.data() + at + 1, entries_.data() + count_, entries_.data() + at);
  --count_;
  return tx;
}

}  // namespace ulnet::socklnd
