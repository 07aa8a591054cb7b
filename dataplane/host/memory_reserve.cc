#include "dataplane/host/memory_reserve.h"

#include <atomic>

namespace ulnet {
namespace {

/// For the new-handler, which has no argument.
std::atomic<MemoryReserve*> installed{nullptr};

}  // namespace

MemoryReserve::MemoryReserve() {
  (void)restore();
  installed.store(this);
  before_ = std::set_new_handler(&allocation_failed);
}

MemoryReserve::~MemoryReserve() {
  std::set_new_handler(before_);
  installed.store(nullptr);
  while (count_ > 0) ::operator delete(blocks_[--count_]);
}

/// Of other threads, only `owner_` is read.
bool MemoryReserve::give() {
  if (std::this_thread::get_id() != owner_ || closed_ > 0 || count_ == 0) return false;
  ::operator delete(blocks_[--count_]);
  return true;
}

/// The allocation is tried again afterwards.
void MemoryReserve::allocation_failed() {
  MemoryReserve* reserve = installed.load();
  if (reserve == nullptr || !reserve->give()) throw std::bad_alloc();
}

bool MemoryReserve::restore() {
  const Closed closed(this);
  while (count_ < kBlocks) {
    void* block = ::operator new(kBlockBytes, std::nothrow);
    if (block == nullptr) return false;
    blocks_[count_++] = block;
  }
  return true;
}

}  // namespace ulnet
