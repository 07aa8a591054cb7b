#include "lnd/net/packet/neighbours.h"

#include <bit>

namespace ulnet::dpdk {
namespace {

constexpr unsigned kEvictLook = 8;  ///< entries looked at for one that can make room

}  // namespace

Neighbours::Neighbours(const NeighbourConfig& config, NeighbourActions& actions)
    : config_(config),
      actions_(actions),
      entries_(config.capacity),
      parked_(config.parked_max),
      buckets_(std::bit_ceil(size_t{config.capacity} + 1)),
      wheel_(std::make_unique<Wheel<Entry>>()) {}

Neighbours::~Neighbours() {
  ULNET_CHECK(parked_.out() == 0);
}

Neighbours::Entry*& Neighbours::bucket_of(const IpAddress& address) {
  uint64_t high, low;
  std::memcpy(&high, address.bytes.data(), 8);
  std::memcpy(&low, address.bytes.data() + 8, 8);
  const uint64_t mixed = (high ^ (low * 0x9E3779B97F4A7C15ull)) * 0xD6E8FEB86659FD93ull;
  return buckets_[size_t(mixed >> 32) & (buckets_.size() - 1)];
}

Neighbours::Entry* Neighbours::find(const IpAddress& address) {
  Entry* entry = bucket_of(address);
  while (entry != nullptr && entry->address != address) entry = entry->next_in_bucket;
  return entry;
}

Neighbours::Entry* Neighbours::create(const IpAddress& address, Instant now) {
  Entry* entry = entries_.take();
  if (entry == nullptr) {
    Entry* oldest = by_use_.front();
    for (unsigned i = 0; oldest != nullptr && i < kEvictLook && !oldest->waiting.empty(); ++i)
      oldest = by_use_.after(*oldest);
    if (oldest == nullptr || !oldest->waiting.empty()) return nullptr;
    erase(*oldest);
    entry = entries_.take();
  }
  entry->address = address;
  entry->mac = {};
  entry->state = NeighbourState::kAsking;
  entry->asked = 0;
  entry->used = now;
  Entry*& bucket = bucket_of(address);
  entry->next_in_bucket = bucket;
  bucket = entry;
  by_use_.push_back(*entry);
  return entry;
}

void Neighbours::erase(Entry& entry) {
  wheel_->disarm(entry);
  if (static_cast<Linked<LruTag>&>(entry).linked()) by_use_.remove(entry);
  Entry** at = &bucket_of(entry.address);
  while (*at != &entry) at = &(*at)->next_in_bucket;
  *at = entry.next_in_bucket;
  entries_.give(entry);
}

void Neighbours::touch(Entry& entry, Instant now) {
  entry.used = now;
  by_use_.remove(entry);
  by_use_.push_back(entry);
}

void Neighbours::ask(Entry& entry, Instant now) {
  ++entry.asked;
  wheel_->arm(entry, now + config_.retry);
  const bool known = entry.state == NeighbourState::kProbing;
  actions_.neighbour_ask(entry.address, known ? &entry.mac : nullptr);
}

Neighbours::Answer Neighbours::park(Entry& entry, void* packet) {
  Parked* parked = entry.waiting.size() < config_.parked_each_max ? parked_.take() : nullptr;
  if (parked == nullptr) return {Answer::kRefused, FrameDrop::kNeighbourQueueFull};
  parked->packet = packet;
  entry.waiting.push_back(*parked);
  return {Answer::kParked};
}

Neighbours::Answer Neighbours::resolve(const IpAddress& address, void* packet, Instant now) {
  Entry* entry = find(address);
  if (entry == nullptr) {
    entry = create(address, now);
    if (entry == nullptr) return {Answer::kRefused, FrameDrop::kNeighbourTableFull};
    const Answer answer = park(*entry, packet);
    ask(*entry, now);  // even if the packet found no place: the next one may
    return answer;
  }
  if (entry->state == NeighbourState::kStatic) return {Answer::kSend, FrameDrop::kNoRoute, &entry->mac};
  if (entry->used != now) touch(*entry, now);
  switch (entry->state) {
    case NeighbourState::kAsking: return park(*entry, packet);
    case NeighbourState::kSilent: return {Answer::kRefused, FrameDrop::kNeighbourSilent};
    case NeighbourState::kStale:
      entry->state = NeighbourState::kProbing;
      entry->asked = 0;
      ask(*entry, now);
      break;
    case NeighbourState::kReachable:
    case NeighbourState::kProbing:
    case NeighbourState::kStatic: break;
  }
  return {Answer::kSend, FrameDrop::kNoRoute, &entry->mac};
}

/// Sets the state of an entry whose MAC address is known, and releases its parked packets.
void Neighbours::settle(Entry& entry, NeighbourState state, Instant now) {
  entry.state = state;
  entry.asked = 0;
  wheel_->arm(entry, now + (state == NeighbourState::kReachable ? config_.reachable : config_.forget));
  const Mac mac = entry.mac;
  while (Parked* parked = entry.waiting.pop_front()) {
    void* packet = parked->packet;
    parked_.give(*parked);
    actions_.neighbour_ready(packet, mac);
  }
}

bool Neighbours::learn(const IpAddress& address, const Mac& mac, News news, bool create_it, Instant now) {
  if (mac.is_group() || mac.is_zero() || address.is_group() || address.is_unspecified()) return false;
  Entry* entry = find(address);
  if (entry == nullptr) {
    if (!create_it) return false;
    entry = create(address, now);
    if (entry == nullptr) return false;
  }
  if (entry->state == NeighbourState::kStatic) return false;
  const bool known = entry->state != NeighbourState::kAsking && entry->state != NeighbourState::kSilent;
  const bool same = known && entry->mac == mac;
  if (news == News::kDoubtful && known && !same) {
    if (entry->state == NeighbourState::kReachable) settle(*entry, NeighbourState::kStale, now);
    return false;
  }
  if (news == News::kClaim && same) return false;  // no proof that the neighbour hears us
  entry->mac = mac;
  settle(*entry, news == News::kClaim ? NeighbourState::kStale : NeighbourState::kReachable, now);
  return !same;
}

void Neighbours::confirm(const IpAddress& address, Instant now) {
  Entry* entry = find(address);
  if (entry == nullptr) return;
  if (entry->state == NeighbourState::kStale || entry->state == NeighbourState::kProbing)
    settle(*entry, NeighbourState::kReachable, now);
}

Result<void> Neighbours::set_static(const IpAddress& address, const Mac& mac) {
  Entry* entry = find(address);
  if (entry == nullptr) entry = create(address, kNever);
  if (entry == nullptr) return fail(ENOSPC, "no room for one more neighbour");
  entry->mac = mac;
  settle(*entry, NeighbourState::kReachable, kNever);
  wheel_->disarm(*entry);
  if (entry->state != NeighbourState::kStatic && static_cast<Linked<LruTag>&>(*entry).linked()) by_use_.remove(*entry);
  entry->state = NeighbourState::kStatic;
  return {};
}

void Neighbours::fail_waiting(Entry& entry, FrameDrop reason) {
  while (Parked* parked = entry.waiting.pop_front()) {
    void* packet = parked->packet;
    parked_.give(*parked);
    actions_.neighbour_failed(packet, reason);
  }
}

void Neighbours::expire(Entry& entry, Instant now) {
  switch (entry.state) {
    case NeighbourState::kAsking:
    case NeighbourState::kProbing:
      if (entry.asked < config_.tries) return ask(entry, now);
      entry.state = NeighbourState::kSilent;
      wheel_->arm(entry, now + config_.silent);
      return fail_waiting(entry, FrameDrop::kNeighbourSilent);
    case NeighbourState::kReachable:
      entry.state = NeighbourState::kStale;
      wheel_->arm(entry, std::max(entry.used, now - config_.reachable) + config_.forget);
      return;
    case NeighbourState::kStale:
      if (entry.used + config_.forget > now) {
        wheel_->arm(entry, entry.used + config_.forget);
        return;
      }
      return erase(entry);
    case NeighbourState::kSilent: return erase(entry);
    case NeighbourState::kStatic: return;
  }
}

unsigned Neighbours::timers(Instant now, unsigned budget) {
  return wheel_->advance(now, budget, [&](Entry& entry) { expire(entry, now); });
}

void Neighbours::forget_learned() {
  entries_.for_each_out([&](Entry& entry) {
    const bool stays = entry.state == NeighbourState::kStatic || entry.state == NeighbourState::kAsking;
    if (!stays && entry.waiting.empty()) erase(entry);
  });
}

void Neighbours::clear() {
  entries_.for_each_out([&](Entry& entry) {
    fail_waiting(entry, FrameDrop::kStopped);
    if (entry.state != NeighbourState::kStatic) erase(entry);
  });
}

size_t Neighbours::show(std::span<Shown> out) {
  size_t count = 0;
  entries_.for_each_out([&](Entry& entry) {
    if (count < out.size()) out[count++] = {entry.address, entry.mac, entry.state, entry.waiting.size()};
  });
  return count;
}

}  // namespace ulnet::dpdk
