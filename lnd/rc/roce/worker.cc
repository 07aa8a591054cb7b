#include "lnd/rc/roce/worker.h"

namespace ulnet::rc::roce {
namespace {

template <class Tag, class Item>
bool is_linked(const Item& item) {
  return static_cast<const Linked<Tag>&>(item).linked();
}

RemoteKey* next_of(const RemoteKey& key) {
  return reinterpret_cast<RemoteKey*>(uintptr_t(key.provider[0]));
}

/// The list of what came by a key that is closed.
void list_of(RemoteKey& key, KeptList* list) {
  key.provider[1] = uint64_t(reinterpret_cast<uintptr_t>(list));
}
void finish_list(RemoteKey& key) {
  auto* list = reinterpret_cast<KeptList*>(uintptr_t(std::exchange(key.provider[1], 0)));
  if (list != nullptr) key.kept = list->finish();
}

/// Requires: all of the window lies in one.
RegionId region_of(const Payload& window) {
  Segment piece;
  (void)PayloadCursor(window).segments({&piece, 1});
  return piece.region;
}

}  // namespace

RoceWorker::RoceWorker(WorkerId id, Shared& shared)
    : id_(id), shared_(shared), table_(std::make_unique<RoceQp*[]>(kQpPlaces)) {}

void RoceWorker::attach(uint8_t port, WorkerPort& queue) {
  ULNET_CHECK(ports_[port].queue == nullptr);
  ports_[port].queue = &queue;
  port_count_ = std::max(port_count_, port + 1u);
  shared_.attached[port].fetch_or(uint64_t{1} << id_.value, std::memory_order_acq_rel);
}

void RoceWorker::detach(uint8_t port) {
  WorkerPort* queue = std::exchange(ports_[port].queue, nullptr);
  if (queue == nullptr) return;
  kept_lists_.port_closes(*queue);
  shared_.attached[port].fetch_and(~(uint64_t{1} << id_.value), std::memory_order_acq_rel);
  for (unsigned from = 0; from < shared_.handover.workers(); ++from) {
    SpscRing<Arrival>& ring = shared_.handover.ring(from, id_.value);
    Arrival arrival;
    for (uint32_t left = ring.depth(); left > 0 && ring.pop(arrival); --left) {
      if (arrival.port == port)
        queue->release(arrival);
      else
        give_back(arrival);
    }
  }
}

// --- Queue pairs -----------------------------------------------------------------------------------------------------

void RoceWorker::adopt(Qp& any, QpUser& user) {
  RoceQp& qp = roce_qp(any);
  RoceQp*& place = table_[place_of_qpn(qp.number)];
  ULNET_CHECK(qp.worker == id_ && qp.user == nullptr && place == nullptr);
  qp.user = &user;
  place = &qp;
  shared_.handover.tag(id_.value, place_of_qpn(qp.number))
      .store(qp_tag(qp.number, qp.port, qp.remote, qp.local), std::memory_order_release);
  look(qp);
}

void RoceWorker::release(Qp& any) {
  RoceQp& qp = roce_qp(any);
  ULNET_CHECK(qp.user != nullptr && qp.is_drained);
  qp.user = nullptr;
  table_[place_of_qpn(qp.number)] = nullptr;
  shared_.handover.tag(id_.value, place_of_qpn(qp.number)).store(0, std::memory_order_release);
  if (is_linked<ReadyTag>(qp)) ports_[qp.port].ready.remove(qp);
  if (is_linked<SettleTag>(qp)) settle_.remove(qp);
  if (is_linked<OwedTag>(qp)) owed_.remove(qp);
  if (is_linked<LentTag>(qp)) lent_.remove(qp);
  wheel_.disarm(qp);
}

RoceQp* RoceWorker::find(const Arrival& arrival, uint32_t number) {
  RoceQp* qp = table_[place_of_qpn(number)];
  if (qp == nullptr || qp->number != number || qp->port != arrival.port) return nullptr;
  return qp->remote == arrival.source && qp->local == arrival.destination ? qp : nullptr;
}

void RoceWorker::mark_ready(RoceQp& qp) {
  if (!is_linked<ReadyTag>(qp)) ports_[qp.port].ready.push_back(qp);
}

void RoceWorker::mark_settle(RoceQp& qp) {
  if (!is_linked<SettleTag>(qp)) settle_.push_back(qp);
}

void RoceWorker::receive(Qp& any, uint32_t buffer) {
  RoceQp& qp = roce_qp(any);
  if (!qp.is_broken) qp.responder.receive(buffer);
}

Posted RoceWorker::post(RoceQp& qp, std::span<const Segment> from, const Request& what) {
  if (qp.is_broken) return Posted::kYes;
  if (qp.sender == nullptr) look(qp);
  ULNET_CHECK(qp.sender != nullptr);
  if (!qp.sender->requester.fits(what.bytes)) return Posted::kNoRoom;
  qp.sender->requester.post(from, what);
  mark_ready(qp);
  return Posted::kYes;
}

Posted RoceWorker::send(Qp& any, uint32_t buffer, uint32_t bytes, uint64_t token, Wake) {
  RoceQp& qp = roce_qp(any);
  ULNET_CHECK(buffer < qp.sends && bytes <= qp.buffer_bytes);
  const Segment piece{qp.send_buffer(buffer).data(), bytes, {}};
  Request what;
  what.token = token;
  what.bytes = bytes;
  return post(qp, {&piece, bytes == 0 ? 0u : 1u}, what);
}

Posted RoceWorker::write(Qp& any, std::span<const Segment> from, uint32_t key, uint64_t address, uint64_t token) {
  RoceQp& qp = roce_qp(any);
  ULNET_CHECK(!from.empty() && from.size() <= qp.pieces);
  Request what;
  what.token = token;
  what.write = true;
  what.address = address;
  what.key = key;
  for (const Segment& one : from) {
    if (one.region != kKeptRegion && !qp.regions->holds(one)) return Posted::kImpossible;
    what.bytes += one.bytes;
  }
  return post(qp, from, what);
}

Posted RoceWorker::key_open(Qp& any, RemoteKey& key, const Payload& window) {
  RoceQp& qp = roce_qp(any);
  ULNET_CHECK(!key.open && window.length > 0);
  const auto memory = qp.regions->one_piece(window);
  if (!memory) return Posted::kImpossible;
  key.value = 0;
  key.kept = nullptr;
  list_of(key, nullptr);
  if (!qp.is_broken) {
    if (qp.key_table.free_count() == 0) return Posted::kNoRoom;
    KeptList* list = key.may_keep ? kept_lists_.begin(*memory, region_of(window), qp.mtu / 2) : nullptr;
    key.value = *qp.key_table.open(*memory, list);
  }
  key.open = true;
  return Posted::kYes;
}

/// The right ends at once. Until key_closed(), the key is in a list of its queue pair.
Posted RoceWorker::key_close(Qp& any, RemoteKey& key) {
  RoceQp& qp = roce_qp(any);
  ULNET_CHECK(key.open);
  if (qp.is_broken) return Posted::kYes;
  list_of(key, qp.key_table.find(key.value)->list);
  qp.key_table.close(key.value);
  key.provider[0] = 0;
  if (qp.closed_first == nullptr)
    qp.closed_first = &key;
  else
    qp.closed_last->provider[0] = uint64_t(reinterpret_cast<uintptr_t>(&key));
  qp.closed_last = &key;
  mark_settle(qp);
  return Posted::kYes;
}

uint32_t RoceWorker::room(const Qp& any) const {
  const auto& qp = static_cast<const RoceQp&>(any);
  if (qp.is_broken) return 0;
  return qp.sender != nullptr ? qp.sender->requester.room() : qp.work;
}

// --- Between control and queue pairs ---------------------------------------------------------------------------------

/// Control has changed something of this queue pair.
void RoceWorker::look(RoceQp& qp) {
  if (qp.sender == nullptr) qp.sender = qp.made.load(std::memory_order_acquire);
  if (qp.disconnected.load(std::memory_order_acquire) || qp.cause.load(std::memory_order_acquire) != Cause::kNone)
    mark_settle(qp);
}

unsigned RoceWorker::look_at_changes() {
  WorkerRings& mine = rings();
  (void)mine.bell.take();
  unsigned count = 0;
  for (uint32_t number; count < WorkerRings::kLooks && mine.looks.pop(number); ++count)
    if (RoceQp* qp = table_[place_of_qpn(number)]; qp != nullptr && qp->number == number) look(*qp);
  if (!mine.look_at_all.load(std::memory_order_relaxed) || !mine.look_at_all.exchange(false)) return count;
  for (uint32_t place = 0; place < kQpPlaces; ++place)
    if (table_[place] != nullptr) look(*table_[place]);
  return count + 1;
}

void RoceWorker::owe(RoceQp& qp) {
  if (!is_linked<OwedTag>(qp)) owed_.push_back(qp);
}

/// Notes for control, as far as there is room. True: that is all.
bool RoceWorker::pay_some() {
  while (RoceQp* qp = owed_.front()) {
    if (!rings().notes.push({qp->conn, qp->owed})) return false;
    owed_.remove(*qp);
    control_rings_ = true;
  }
  return true;
}

/// If there is no room, control rings this worker when it has taken some.
void RoceWorker::pay() {
  if (!pay_some()) {
    rings().owes.store(true, std::memory_order_seq_cst);
    (void)pay_some();  // control may have looked just before
  }
  if (std::exchange(control_rings_, false)) shared_.control_bell.ring();
}

// --- Events of users -------------------------------------------------------------------------------------------------

void RoceWorker::break_off(RoceQp& qp, Cause cause, Instant now) {
  qp.is_broken = true;
  if (qp.cause.load(std::memory_order_acquire) == Cause::kNone) {  // control has no cause yet
    qp.owed = cause;
    owe(qp);
  }
  qp.user->broken(qp, cause, now);
}

/// A port has packets that refer to memory of this queue pair.
void RoceWorker::await_loans(RoceQp& qp) {
  if (!is_linked<LentTag>(qp)) lent_.push_back(qp);
}

/// Looks again at queue pairs whose memory a port had.
void RoceWorker::look_at_loans(Instant now) {
  for (uint32_t left = std::min(lent_.size(), kLoanBudget); left > 0 && !lent_.empty(); --left)
    settle(*lent_.pop_front(), now);
}

/// Reports the ends of operations and keys, then that of the queue pair.
void RoceWorker::report(RoceQp& qp, Instant now) {
  Sender* sender = qp.sender;
  while (!qp.is_broken && sender != nullptr && sender->requester.done() != nullptr) {
    if (!sender->loans[sender->requester.done_place()].end()) {
      await_loans(qp);
      break;
    }
    const uint64_t token = sender->requester.done()->token;
    sender->requester.take();
    if (token != 0) qp.user->sent(qp, token, now);
  }
  while (!qp.is_broken && qp.closed_first != nullptr) {
    RemoteKey& key = *qp.closed_first;
    qp.closed_first = next_of(key);
    key.open = false;
    finish_list(key);
    qp.user->key_closed(qp, key, now);
  }
  if (qp.is_broken) return;
  Cause cause = qp.responder.failure();
  if (cause == Cause::kNone && sender != nullptr) cause = sender->requester.failure();
  if (cause == Cause::kNone) cause = qp.cause.load(std::memory_order_acquire);
  if (cause == Cause::kNone && qp.disconnected.load(std::memory_order_acquire)) cause = Cause::kClosed;
  if (cause != Cause::kNone) break_off(qp, cause, now);
}

void RoceWorker::settle(RoceQp& qp, Instant now) {
  report(qp, now);
  if (!qp.is_broken || qp.is_drained || !qp.disconnected.load(std::memory_order_acquire)) return;
  if (qp.sender != nullptr && !qp.sender->end_loans()) return await_loans(qp);
  qp.key_table.each_open([](KeyWindow& window) {
    KeptList* list = std::exchange(window.list, nullptr);
    if (KeptPayload* kept = list == nullptr ? nullptr : list->finish()) kept->give_back();
  });
  qp.is_drained = true;
  qp.user->drained(qp, now);  // control may free the queue pair now
}

// --- A turn ----------------------------------------------------------------------------------------------------------

/// The number of packets that the worker may take from this port now. If only other ports have packets for users, the
/// rate is small. The worker then takes a batch from time to time, since single packets cost more. The rest stays in
/// the device.
unsigned RoceWorker::share_of(const PortQueues& port, unsigned budget, Instant now) const {
  if (now < port.needed_until || now >= needed_until_) return budget;
  const unsigned left = port.taken.left(kUnneededRate, now);
  return left < kBatch ? 0 : std::min(budget, left);
}

/// The packets of this port are left alone for a while. The worker may sleep meanwhile.
bool RoceWorker::waits_for_its_share(const PortQueues& port) const {
  return port.queue != nullptr && share_of(port, kBatch, polled_at_) == 0;
}

unsigned RoceWorker::poll(unsigned budget, Instant now) {
  unsigned count = take_handed_over((budget + 1) / 2, now);
  for (unsigned i = 0; i < port_count_ && count < budget; ++i) {
    const unsigned port = (first_port_ + i) % port_count_;
    count += take_from(uint8_t(port), share_of(ports_[port], budget - count, now), now);
  }
  ++first_port_;
  if (count < budget) count += take_handed_over(budget - count, now);
  for (unsigned to = 0; to < shared_.handover.workers(); ++to)
    if (std::exchange(handed_to_[to], false)) shared_.rings[to]->bell.ring();
  unsigned others = look_at_changes();
  for (uint32_t left = std::min(settle_.size(), budget); left > 0 && !settle_.empty(); --left, ++others)
    settle(*settle_.pop_front(), now);
  polled_at_ = now;
  look_at_loans(now);
  return count == 0 ? std::min(others, budget) : count;
}

void RoceWorker::arm(RoceQp& qp) {
  const Instant deadline = qp.sender->requester.deadline();
  Timer& timer = qp;
  if (!timer.armed() || deadline < timer.deadline) wheel_.arm(qp, deadline);  // else it is set again when it fires
}

/// Something has happened: packets may leave, or are awaited.
void RoceWorker::follow(RoceQp& qp, Instant now) {
  if (qp.sender->requester.ready(now))
    mark_ready(qp);
  else
    arm(qp);
}

unsigned RoceWorker::timers(Instant now) {
  return wheel_.advance(now, kTimerBudget, [&](RoceQp& qp) {
    if (qp.is_broken) return;
    Requester& requester = qp.sender->requester;
    requester.expire(now);
    if (requester.failure() != Cause::kNone) return report(qp, now);
    follow(qp, now);
  });
}

/// At once, if packets are left over from the last turn.
Instant RoceWorker::next_deadline() {
  Instant next = wheel_.next_deadline();
  for (const PortQueues& port : ports()) {
    if (!port.ready.empty()) return kNever;
    if (waits_for_its_share(port)) next = std::min(next, polled_at_ + kUnneededRate.every * kBatch);
  }
  return std::min(next, lent_.empty() ? kForever : polled_at_ + kLoanLook);
}

bool RoceWorker::pending() {
  if (rings().bell.is_rung() || !rings().mads_out.empty() || !rings().looks.empty() || !settle_.empty()) return true;
  for (PortQueues& port : ports())
    if (!port.ready.empty() || (port.queue != nullptr && port.queue->pending() && !waits_for_its_share(port)))
      return true;
  for (unsigned from = 0; from < shared_.handover.workers(); ++from)
    if (!shared_.handover.ring(from, id_.value).empty()) return true;
  return false;
}

unsigned RoceWorker::wait_fds(std::span<int> out) {
  const int fd = rings().bell.signal.fd();
  if (fd < 0 || out.empty()) return 0;
  out[0] = fd;
  return 1;
}

}  // namespace ulnet::rc::roce
