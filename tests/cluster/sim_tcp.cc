#include "tests/cluster/sim_tcp.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "dataplane/base/check.h"
#include "tests/cluster/sim_tcp_io.h"

namespace ulnet::test {
namespace {

constexpr Duration kSynAgain = 1s;

}  // namespace

IpAddress ip(const char* text) {
  IpAddress address;
  if (inet_pton(AF_INET, text, address.bytes.data()) == 1) return address;
  address.v6 = true;
  ULNET_CHECK(inet_pton(AF_INET6, text, address.bytes.data()) == 1);
  return address;
}

size_t ByteQueue::pop(std::byte* to, size_t count) {
  count = std::min(count, size());
  std::copy_n(bytes_.begin() + ptrdiff_t(head_), count, to);
  head_ += count;
  if (head_ == bytes_.size()) {
    clear();
  } else if (head_ > 65536 && head_ > bytes_.size() / 2) {
    bytes_.erase(bytes_.begin(), bytes_.begin() + ptrdiff_t(head_));
    head_ = 0;
  }
  return count;
}

void SendQueue::push(const std::byte* from, size_t count, bool lent) {
  const uint64_t begin = popped_ + size();
  if (!lent) return bytes_.push(from, count);
  const std::vector<std::byte> unread(count, std::byte{0xCC});
  bytes_.push(unread.data(), count);
  lent_.push_back({begin, begin + count, from});
}

void SendQueue::pop(std::byte* to, size_t count) {
  count = bytes_.pop(to, count);
  for (size_t at = 0; at < count && !lent_.empty();) {
    const Lent& lent = lent_.front();
    at = std::max(at, size_t(lent.begin - std::min(lent.begin, popped_)));
    const size_t end = size_t(std::min<uint64_t>(lent.end - popped_, count));
    if (at < end) std::copy_n(lent.memory + (popped_ + at - lent.begin), end - at, to + at);
    at = end;
    if (lent.end <= popped_ + count) lent_.pop_front();
  }
  popped_ += count;
}

void SendQueue::clear() {
  popped_ += size();
  bytes_.clear();
  lent_.clear();
}

SimTcp::~SimTcp() = default;

std::unique_ptr<NetIo> SimTcp::net_io(std::vector<IpAddress> addresses) {
  auto io = std::make_unique<SimNetIo>(*this, addresses);
  for (const IpAddress& address : addresses) nodes_[address] = io.get();
  return io;
}

std::unique_ptr<StreamEngine> SimTcp::engine(uint32_t streams) {
  return std::make_unique<SimEngine>(*this, streams);
}

void SimTcp::advance(Instant now) {
  while (!events_.empty() && events_.top().at <= now) {
    now_ = std::max(now_, events_.top().at);
    auto run = events_.top().run;
    events_.pop();
    run();
  }
  now_ = std::max(now_, now);
}

void SimTcp::partition(const IpAddress& a, const IpAddress& b, bool on) {
  const auto pair = std::minmax(a, b);
  if (on) {
    partitions_.insert(pair);
  } else {
    partitions_.erase(pair);
  }
}

void SimTcp::silence(const IpAddress& address, bool on) {
  if (on) {
    silent_.insert(address);
  } else {
    silent_.erase(address);
  }
}

bool SimTcp::blocked(const IpAddress& a, const IpAddress& b) const {
  return silent_.contains(a) || silent_.contains(b) || partitions_.contains(std::minmax(a, b));
}

void SimTcp::reset_between(const IpAddress& a, const IpAddress& b) {
  std::vector<uint64_t> hit;
  for (auto& [id, socket] : sockets_) {
    const IpAddress& x = socket.local.address;
    const IpAddress& y = socket.remote.address;
    if (!socket.connecting && ((x == a && y == b) || (x == b && y == a))) hit.push_back(id);
  }
  for (const uint64_t id : hit)
    if (Socket* socket = find(id)) reset_received(*socket);
}

void SimTcp::abort(SocketId id) {
  Socket* socket = find(id);
  if (socket != nullptr && !socket->connecting && socket->error == 0) send_reset(*socket);
}

void SimTcp::finish(SocketId id) {
  Socket* socket = find(id);
  if (socket == nullptr || socket->error != 0) return;
  socket->fin_queued = true;
  pump(*socket);
}

void SimTcp::forget_sockets(const IpAddress& address) {
  std::vector<uint64_t> hit;
  for (auto& [id, socket] : sockets_)
    if (socket.local.address == address) hit.push_back(id);
  for (const uint64_t id : hit) {
    Socket& socket = *find(id);
    if (Socket* peer = find(socket.peer)) peer->peer = 0;
    ports_in_use_.erase(socket.local);
    sockets_.erase(id);
  }
}

SimTcp::Socket* SimTcp::find(uint64_t id) {
  const auto it = sockets_.find(id);
  return it == sockets_.end() ? nullptr : &it->second;
}

SimTcp::Socket& SimTcp::create(const Endpoint& local, const Endpoint& remote) {
  Socket& socket = sockets_[next_socket_];
  socket.id = next_socket_++;
  socket.local = local;
  socket.remote = remote;
  socket.send_capacity = options_.send_buffer;
  socket.receive_capacity = options_.receive_buffer;
  return socket;
}

Duration SimTcp::travel() {
  return options_.delay + Duration(int64_t(rng_.below(uint64_t(options_.jitter.count()) + 1)));
}

size_t SimTcp::cut(size_t bytes) {
  if (!options_.random_segments || bytes <= 1 || !rng_.one_in(3)) return bytes;
  return 1 + size_t(rng_.below(rng_.one_in(3) ? std::min<size_t>(bytes, 64) : bytes));
}

void SimTcp::syn(uint64_t id) {
  Socket* socket = find(id);
  if (socket == nullptr || !socket->connecting) return;
  const Endpoint to = socket->remote;
  if (blocked(socket->local.address, to.address) || !nodes_.contains(to.address)) {
    const Duration waited = now_ - socket->connect_began;
    if (waited >= options_.connect_timeout) return connect_failed(id, -ETIMEDOUT);
    const Duration next = options_.backs_off ? waited + kSynAgain : kSynAgain;  // after 1 s, 3 s, 7 s, 15 s ...
    return schedule(std::min(now_ + next, socket->connect_began + options_.connect_timeout), [this, id] { syn(id); });
  }
  const auto listener = listeners_.find(to);
  if (listener == listeners_.end()) {
    return schedule(now_ + travel(), [this, id] { connect_failed(id, -ECONNREFUSED); });
  }
  Socket& passive = create(to, socket->local);
  socket = find(id);
  passive.peer = id;
  passive.trace = socket->trace;
  socket->peer = passive.id;
  listener->second.first->accepted(passive.id, listener->second.second, socket->local);
  passive.net = listener->second.first;
  const uint64_t passive_id = passive.id;
  schedule(now_ + travel(), [this, id, passive_id] {
    Socket* dialler = find(id);
    if (dialler == nullptr) return;
    dialler->connecting = false;
    if (dialler->net != nullptr) dialler->net->connected(SocketId(id));
    if (find(passive_id) == nullptr) reset_received(*dialler);
  });
}

void SimTcp::connect_failed(uint64_t id, int error) {
  Socket* socket = find(id);
  if (socket == nullptr) return;
  if (socket->net != nullptr) socket->net->failed(SocketId(id), error);
  ports_in_use_.erase(socket->local);
  sockets_.erase(id);
}

void SimTcp::pump(Socket& socket) {
  Socket* peer = find(socket.peer);
  while (socket.send.size() > 0 && socket.error == 0) {
    const size_t taken = socket.in_flight + (peer == nullptr ? 0 : peer->receive.size());
    const size_t window = socket.receive_capacity > taken ? socket.receive_capacity - taken : 0;
    size_t count = std::min({socket.send.size(), window, size_t{options_.segment_max}});
    if (count == 0) return;
    count = cut(count);
    Chunk chunk;
    chunk.bytes.resize(count);
    socket.send.pop(chunk.bytes.data(), count);
    socket.in_flight += count;
    put_on_wire(socket, std::move(chunk));
  }
  if (socket.fin_queued && !socket.fin_sent && socket.send.size() == 0 && socket.error == 0) {
    socket.fin_sent = true;
    if (socket.trace != nullptr) socket.trace->fin[socket.dialler ? 0 : 1] = true;
    Chunk chunk;
    chunk.fin = true;
    put_on_wire(socket, std::move(chunk));
  }
}

void SimTcp::put_on_wire(Socket& socket, Chunk chunk) {
  Duration took = travel();
  if (options_.bytes_per_second > 0) {
    const auto slot = Duration(int64_t(chunk.bytes.size() * 1'000'000'000 / options_.bytes_per_second));
    socket.last_arrival = std::max(socket.last_arrival, now_ + options_.delay) + slot;
    took = std::max(took, socket.last_arrival - now_);
  }
  socket.last_arrival = std::max(socket.last_arrival, now_ + took);
  chunk.at = socket.last_arrival;
  socket.wire.push_back(std::move(chunk));
  if (socket.delivery_pending) return;
  socket.delivery_pending = true;
  const uint64_t id = socket.id;
  schedule(socket.wire.front().at, [this, id] { deliver(id); });
}

void SimTcp::deliver(uint64_t id) {
  Socket* socket = find(id);
  if (socket == nullptr || socket->wire.empty()) return;
  if (blocked(socket->local.address, socket->remote.address)) {
    if (!socket->wire.front().reset) return try_again(*socket, [this, id] { deliver(id); });
    socket->wire.pop_front();  // nobody resends a reset
    return reap(id);
  }
  socket->blocked_since = kNever;
  Chunk chunk = std::move(socket->wire.front());
  socket->wire.pop_front();
  Socket* peer = find(socket->peer);
  if (peer != nullptr && chunk.reset) {
    reset_received(*peer);
  } else if (peer == nullptr || (peer->closed && !chunk.fin)) {
    if (!chunk.reset)
      schedule(now_ + travel(), [this, id] {
        if (Socket* sender = find(id)) reset_received(*sender);
      });
  } else if (chunk.fin) {
    peer->fin_received = true;
    if (peer->closed && peer->fin_sent) schedule(now_ + travel(), [this, pid = peer->id] { reap(pid); });
    poke(*peer);
  } else {
    peer->receive.push(chunk.bytes.data(), chunk.bytes.size());
    schedule(now_ + travel(), [this, id, n = chunk.bytes.size()] { acknowledged(id, n); });
    poke(*peer);
  }
  socket = find(id);
  if (socket == nullptr) return;
  socket->delivery_pending = !socket->wire.empty();
  if (socket->delivery_pending) return schedule(std::max(now_, socket->wire.front().at), [this, id] { deliver(id); });
  reap(id);
}

// The time to the next attempt is at most what is left of the user timeout, as in Linux.
void SimTcp::try_again(Socket& socket, std::function<void()> attempt) {
  if (socket.blocked_since == kNever) socket.blocked_since = now_;
  const Duration blocked = now_ - socket.blocked_since;
  Duration next = options_.backs_off ? std::min(blocked + options_.resend, options_.resend_max) : options_.resend;
  if (socket.user_timeout > Duration{0}) {
    if (blocked >= socket.user_timeout) return gave_up(socket);
    next = std::min(next, socket.user_timeout - blocked);
  }
  schedule(now_ + next, std::move(attempt));
}

void SimTcp::gave_up(Socket& socket) {
  if (Socket* peer = find(socket.peer)) peer->peer = 0;  // which learns nothing
  socket.peer = 0;
  if (socket.error == 0) socket.error = -ETIMEDOUT;
  reset_received(socket);
}

void SimTcp::acknowledged(uint64_t id, size_t bytes) {
  Socket* socket = find(id);
  if (socket == nullptr) return;
  if (blocked(socket->local.address, socket->remote.address))
    return try_again(*socket, [this, id, bytes] { acknowledged(id, bytes); });
  socket->in_flight -= std::min(bytes, socket->in_flight);
  pump(*socket);
  poke(*socket);
}

void SimTcp::reset_received(Socket& socket) {
  if (socket.error == 0) socket.error = -ECONNRESET;
  const uint64_t peer = std::exchange(socket.peer, 0);
  socket.send.clear();
  socket.wire.clear();
  socket.delivery_pending = false;
  socket.in_flight = 0;
  poke(socket);
  reap(socket.id);
  reap(peer);
}

void SimTcp::send_reset(Socket& socket) {
  if (socket.trace != nullptr) socket.trace->reset[socket.dialler ? 0 : 1] = true;
  socket.send.clear();
  socket.error = -ECONNRESET;
  Chunk chunk;
  chunk.reset = true;
  put_on_wire(socket, std::move(chunk));
}

void SimTcp::close(Socket& socket, bool abort) {
  socket.closed = true;
  socket.net = nullptr;
  socket.engine = nullptr;
  ports_in_use_.erase(socket.local);
  const uint64_t id = socket.id;
  if (socket.connecting) {
    sockets_.erase(id);
    return;
  }
  if (socket.error == 0 && (abort || socket.receive.size() > 0)) {
    send_reset(socket);
  } else if (socket.error == 0) {
    socket.fin_queued = true;
    pump(socket);
  }
  reap(id);
}

void SimTcp::reap(uint64_t id) {
  Socket* socket = find(id);
  if (socket == nullptr || !socket->closed || !socket->wire.empty()) return;
  const bool over = socket->error != 0 || (socket->fin_sent && (socket->fin_received || find(socket->peer) == nullptr));
  if (!over) return;
  const uint64_t peer_id = socket->peer;
  if (Socket* peer = find(peer_id); peer != nullptr && socket->error == 0) peer->peer = 0;
  sockets_.erase(id);
  reap(peer_id);
}

void SimTcp::poke(Socket& socket) {
  if (socket.engine != nullptr) socket.engine->look(socket.stream);
}

size_t SimTcp::read(Socket& socket, std::byte* to, size_t count) {
  const size_t got = socket.receive.pop(to, count);
  if (Socket* peer = find(socket.peer); peer != nullptr && got > 0) pump(*peer);  // the window has opened
  return got;
}

size_t SimTcp::write(Socket& socket, const std::byte* from, size_t count, bool lent) {
  const size_t used = socket.send.size() + socket.in_flight;
  const size_t room = socket.send_capacity > used ? socket.send_capacity - used : 0;
  count = std::min(count, room);
  socket.send.push(from, count, lent);
  if (lent) lent_bytes += count;
  if (socket.trace != nullptr) {
    auto& sent = socket.trace->sent[socket.dialler ? 0 : 1];
    sent.insert(sent.end(), from, from + count);
  }
  pump(socket);
  return count;
}

}  // namespace ulnet::test
