#include "control/routes/routing.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

namespace ulnet {
namespace {

/// Most buffers of one block: what a pool grows and shrinks by.
constexpr std::array<uint32_t, kRouterPools> kBlockBuffers{256, 1024, 64};
/// A router that stops waits at most so many settle times for its buffers to come back.
constexpr int kStopSettles = 3;
/// How often a router that stops looks whether its buffers are back.
constexpr Duration kStopCheck = 1s;
/// Time to the next try after a driver refused the memory of a block.
constexpr Duration kRefusedRetry = 1s;

}  // namespace

std::unique_ptr<RouterMemory> RouterMemory::make(MemorySource& source, uint32_t numa, WorkerId worker, unsigned pool,
                                                 uint32_t count) {
  std::unique_ptr<RouterMemory> memory(new (std::nothrow) RouterMemory(source, worker));
  if (memory == nullptr) return nullptr;
  const size_t each = kRouterPoolBytes[pool];
  if (each > 0) {
    memory->block.memory = source.map(each * count, numa);
    memory->block.numa = numa;
    if (memory->block.memory == nullptr) return nullptr;
    memory->all = {memory->block.memory, uint32_t(each * count)};
  }
  RouterBlock& block = memory->block;
  block.pool = pool;
  block.count = count;
  block.buffers.reset(new (std::nothrow) RouterBuffer[count]());
  if (block.buffers == nullptr) return nullptr;
  for (uint32_t i = 0; i < count; ++i) {
    block.buffers[i].block = &block;
    if (each > 0) block.buffers[i].segment = {block.memory + i * each, uint32_t(each)};
  }
  return memory;
}

RouterMemory::~RouterMemory() {
  if (all.bytes > 0) source_.unmap(all.base, all.bytes);
}

uint32_t Routing::wanted(WorkerId worker, unsigned pool, const config::Buffers& buffers) const {
  const int64_t total = pool == 0 ? buffers.tiny : pool == 1 ? buffers.small : buffers.large;
  const int64_t share = total / deps_.workers + (int64_t(worker.value) < total % deps_.workers ? 1 : 0);
  return uint32_t(std::clamp<int64_t>(share, 1, UINT32_MAX / 2));
}

uint32_t Routing::buffers_of(WorkerId worker, unsigned pool, bool coming) const {
  uint32_t count = 0;
  for (const auto& memory : blocks_)
    if (!memory->retiring && memory->worker == worker && memory->block.pool == pool &&
        (coming || memory->state == RouterMemory::State::kGiven))
      count += memory->block.count;
  return count;
}

void Routing::give(RouterMemory& memory) {
  memory.state = RouterMemory::State::kRegistering;
  if (!deps_.registrar.needed() || memory.all.bytes == 0) return registered(memory, {});
  deps_.registrar.segments_add({&memory.all, 1},
                               [this, &memory](const auto& result, const auto&) { registered(memory, result); });
}

void Routing::registered(RouterMemory& memory, const Checked<void>& result) {
  if (!result) {
    memory.state = RouterMemory::State::kRefused;
    if (!std::exchange(warned_, true))
      deps_.log(fmt::format(
          "warning: this router has too few buffers: cannot register {} bytes: {}; set fewer (large_buffers)",
          memory.all.bytes, result.error().what));
    return memory.retiring ? again_.set_now() : again_.set_in(kRefusedRetry);
  }
  if (memory.retiring) return release(memory);
  for (uint32_t i = 0; i < memory.block.count; ++i) memory.block.buffers[i].segment.region = memory.all.region;
  memory.state = RouterMemory::State::kGiven;
  deps_.outbox.send(memory.worker, RouterBlockMsg{&memory.block});
  all_given();
}

/// True if each block is at its worker, or leaves.
bool Routing::complete() const {
  return std::all_of(blocks_.begin(), blocks_.end(),
                     [](const auto& one) { return one->retiring || one->state == RouterMemory::State::kGiven; });
}

// Pools come in blocks: their minima count from when all are there. A router begins then, too.
void Routing::all_given() {
  if (!complete()) return;
  warned_ = false;
  if (std::exchange(fresh_, false)) deps_.outbox.send_all(ResetPoolsMsg{});
  if (state_ == RoutingState::kStarting) next_.set(starts_);
}

/// Registers refused blocks again, and forgets those that retire.
bool Routing::try_refused(Instant now) {
  if (!again_.due(now)) return false;
  again_.stop();
  const auto refused = [](const auto& one) { return one->state == RouterMemory::State::kRefused; };
  std::erase_if(blocks_, [&](const auto& one) { return refused(one) && one->retiring; });
  for (const auto& one : blocks_)
    if (refused(one)) give(*one);
  all_given();
  return true;
}

void Routing::release(RouterMemory& memory) {
  memory.state = RouterMemory::State::kReleasing;
  if (memory.all.region == RegionId{}) return forget(memory);
  deps_.registrar.segments_remove({&memory.all, 1}, [this, &memory] { forget(memory); });
}

void Routing::forget(const RouterMemory& memory) {
  std::erase_if(blocks_, [&](const auto& one) { return one.get() == &memory; });
  all_given();
}

void Routing::retire(RouterMemory& memory) {
  memory.retiring = true;
  if (memory.state == RouterMemory::State::kRefused) again_.set_now();
  if (memory.state == RouterMemory::State::kGiven) deps_.outbox.send(memory.worker, RouterRetireMsg{&memory.block});
}

// Allocates first, so that a failure changes nothing; then withdraws whole blocks, the newest first. What a withdrawn
// block had too many is made up for by a smaller one.
bool Routing::fit(const config::Buffers& buffers) {
  std::vector<std::unique_ptr<RouterMemory>> fresh;
  std::vector<RouterMemory*> leaving;
  for (uint16_t w = 0; w < deps_.workers; ++w) {
    for (unsigned pool = 0; pool < kRouterPools; ++pool) {
      const uint32_t want = wanted(WorkerId{w}, pool, buffers);
      uint32_t have = buffers_of(WorkerId{w}, pool, true);
      for (auto it = blocks_.rbegin(); it != blocks_.rend() && have > want; ++it) {
        RouterMemory& memory = **it;
        if (memory.retiring || memory.worker.value != w || memory.block.pool != pool) continue;
        leaving.push_back(&memory);
        have -= memory.block.count;
      }
      while (have < want) {
        auto memory = RouterMemory::make(deps_.memory, deps_.groups.numa(WorkerId{w}), WorkerId{w}, pool,
                                         std::min(want - have, kBlockBuffers[pool]));
        if (memory == nullptr) return false;
        have += memory->block.count;
        fresh.push_back(std::move(memory));
      }
    }
  }
  for (auto& memory : fresh) {
    blocks_.push_back(std::move(memory));
    give(*blocks_.back());
  }
  for (RouterMemory* memory : leaving) retire(*memory);
  return true;
}

config::Checked<void> Routing::enable(bool at_once, Instant now) {
  if (state_ == RoutingState::kEnabled || (state_ == RoutingState::kStarting && !at_once)) return {};
  const bool fresh = blocks_.empty();
  if (!fit(buffers_))
    return config::fail(ENOMEM, "there is no memory for the router buffers: set fewer (large_buffers)");
  fresh_ |= fresh;
  state_ = at_once && complete() ? RoutingState::kEnabled : RoutingState::kStarting;
  since_ = now;
  starts_ = at_once ? now : now + settle_;
  next_.stop();
  all_given();
  return {};
}

void Routing::disable(Instant now) {
  if (state_ == RoutingState::kDisabled || state_ == RoutingState::kStopping) return;
  state_ = RoutingState::kStopping;
  since_ = now;
  next_.set(now + settle_);
}

void Routing::abort() {
  state_ = RoutingState::kDisabled;
  next_.stop();
  for (auto& memory : blocks_)
    if (!memory->retiring) retire(*memory);
}

config::Checked<void> Routing::set_buffers(const config::Buffers& buffers) {
  const bool on = state_ == RoutingState::kEnabled || state_ == RoutingState::kStarting;
  if (on && !fit(buffers))
    return config::fail(ENOMEM, "there is no memory for that many router buffers: set fewer (large_buffers)");
  buffers_ = buffers;
  return {};
}

void Routing::retired(RouterBlock& block) {
  const auto found =
      std::find_if(blocks_.begin(), blocks_.end(), [&](const auto& memory) { return &memory->block == &block; });
  ULNET_CHECK(found != blocks_.end() && (*found)->retiring);
  release(**found);
}

bool Routing::turn(Instant now, const std::function<bool()>& idle) {
  (void)try_refused(now);
  if (!next_.due(now)) return false;
  if (state_ == RoutingState::kStarting) {
    next_.stop();
    if (!complete()) return false;  // all_given() sets the timer again
    state_ = RoutingState::kEnabled;
    return true;
  }
  if (state_ != RoutingState::kStopping) return false;
  if (now < since_ + kStopSettles * settle_ && !idle()) {
    next_.set(now + kStopCheck);
    return false;
  }
  abort();
  return true;
}

void NetWatch::pinged(const Nid& target, const Nid& source, Instant now) {
  const LocalNi* ni = nis_.find(target);
  if (ni == nullptr || nis_.find(source) != nullptr) return;
  heard_[ni->net] = now;
  if (ni->silent) next_.set_now();
}

bool NetWatch::turn(Instant now, bool routing) {
  std::erase_if(heard_, [&](const auto& one) { return !nis_.net_local(one.first); });
  next_.stop();
  bool changed = false;
  for (LocalNis::LocalNet& net : nis_.nets()) {
    const Instant silent_at = heard_.try_emplace(net.net, now).first->second + limit_;
    const bool silent = routing && now >= silent_at;
    if (routing && !silent) next_.set_by(silent_at);
    for (LocalNi& ni : net.nis) changed |= std::exchange(ni.silent, silent) != silent;
  }
  return changed;
}

}  // namespace ulnet
