#include "control/regions.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dataplane/base/check.h"

namespace ulnet {
namespace {

std::string text(std::span<std::byte> memory) {
  return fmt::format("{} bytes at {}", memory.size(), fmt::ptr(memory.data()));
}

config::Checked<RegionId> answer(const Checked<void>& result, const MemoryRange& range) {
  if (result) return range.id;
  return config::fail(result.error().code, "cannot register " + text(range.memory) + ": " + result.error().what);
}

}  // namespace

config::Checked<void> Regions::check(std::span<std::byte> memory) const {
  const auto begin = reinterpret_cast<uintptr_t>(memory.data());
  if (stopping_) return config::fail(ESHUTDOWN, "the node is stopping");
  if (begin == 0 || memory.empty()) return config::fail(EINVAL, "a region needs an address and at least 1 byte");
  if (memory.size() > UINTPTR_MAX - begin)
    return config::fail(EINVAL,
                        text(memory) + " reach beyond the end of the address space: correct the number of bytes");
  for (const auto& [id, region] : regions_) {
    const auto other = reinterpret_cast<uintptr_t>(region.memory.data());
    if (begin < other + region.memory.size() && other < begin + memory.size())
      return config::fail(
          EEXIST, fmt::format("{} overlap region {} ({}): remove that region first, or add only the rest", text(memory),
                              id.value, text(region.memory)));
  }
  return {};
}

void Regions::add(std::span<std::byte> memory, bool of_node, Done done) {
  if (auto good = check(memory); !good) return done(tl::unexpected(good.error()));
  const auto id = deps_.registrar.take(true);
  if (!id)
    return done(
        config::fail(ENOSPC, fmt::format("the node has {} regions: remove some, or add larger ones", kRegionsMax)));
  regions_[*id] = {memory, State::kAdding, {}, std::move(done), of_node};
  if (!needed()) return added(*id, *id);
  deps_.registrar.add({{*id, memory}}, [this, id = *id](const auto& result, const auto& refused) {
    added(id, answer(result, result ? MemoryRange{id, {}} : refused));
  });
}

void Regions::added(RegionId id, const config::Checked<RegionId>& result) {
  Region& region = regions_.at(id);
  const Done done = std::move(region.done);
  region.state = State::kReady;
  if (!result)
    regions_.erase(id);
  else if (needed())
    ++revision_, (void)deps_.publish();
  if (done) done(result);
}

void Regions::remove(RegionId id, Done done) {
  const auto found = regions_.find(id);
  if (found == regions_.end() || found->second.of_node || found->second.state == State::kAdding)
    return done(config::fail(ENOENT, fmt::format("there is no region {}: it was removed, or never added", id.value)));
  Region& region = found->second;
  const bool ending = region.state == State::kRemoving && !region.done;
  if (ending) return void(region.done = std::move(done));  // by remove_all()
  if (region.state != State::kReady)
    return done(config::fail(EALREADY, fmt::format("another call removes region {}: wait for its end", id.value)));
  region.done = std::move(done);
  region.state = State::kLeaving;
  region.hidden.reset();
  if (needed()) return ++revision_, leave_.set_now();
  deps_.registrar.give(id);
  removed(id);
}

unsigned Regions::look_at_leaving() {
  unsigned done = 0;
  leave_.stop();
  for (auto& [id, region] : regions_) {
    if (region.state != State::kLeaving) continue;
    if (!region.hidden) region.hidden = deps_.publish();
    if (!deps_.passed(*region.hidden)) {
      leave_.retry(true);
      continue;
    }
    ++done;
    const int64_t users = deps_.users_of(id);
    if (users == 0) {
      begin_removal(id, region);
      continue;
    }
    region.state = State::kReady;
    ++revision_;
    (void)deps_.publish();
    if (const Done tell = std::exchange(region.done, nullptr))
      tell(config::fail(
          EBUSY, fmt::format("{} segments of MDs lie in region {}: unlink these MDs, and wait for their end", users,
                             id.value)));
  }
  return done;
}

void Regions::begin_removal(RegionId id, Region& region) {
  region.state = State::kRemoving;
  deps_.registrar.remove({{id, region.memory}}, [this, id](const auto&, const auto&) { removed(id); });
}

void Regions::removed(RegionId id) {
  const auto region = regions_.extract(id);
  ULNET_CHECK(!region.empty() && region.mapped().state != State::kReady);
  if (region.mapped().done) region.mapped().done(id);
}

void Regions::remove_all() {
  if (!needed()) return;
  for (auto& [id, region] : regions_)
    if (region.state == State::kReady) begin_removal(id, region);
}

void Regions::abort() {
  for (auto& [id, region] : regions_)
    if (const Done done = std::exchange(region.done, nullptr)) done(config::fail(ESHUTDOWN, "the node has stopped"));
}

std::shared_ptr<const RegionTable> Regions::view() const {
  auto table = std::make_shared<RegionTable>();
  for (const auto& [id, region] : regions_)
    if (region.state == State::kReady) table->regions.push_back({region.memory.data(), region.memory.size(), id});
  std::sort(table->regions.begin(), table->regions.end(),
            [](const RegionView& a, const RegionView& b) { return a.base < b.base; });
  return table;
}

unsigned Regions::turn(Instant now) {
  return needed() ? look_at_leaving() + deps_.registrar.turn(now) : 0;
}

}  // namespace ulnet
