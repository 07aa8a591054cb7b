#include "tests/cluster/sim_tcp_io.h"

#include <algorithm>
#include <cstring>

#include "dataplane/base/check.h"

namespace ulnet::test {

// ---- NetIo ---------------------------------------------------------------------------------------------------------

SimNetIo::~SimNetIo() {
  std::erase_if(tcp_.listeners_, [&](const auto& entry) { return entry.second.first == this; });
  std::erase_if(tcp_.nodes_, [&](const auto& entry) { return entry.second == this; });
  for (const SocketId id : open_)
    if (SimTcp::Socket* socket = tcp_.find(id)) tcp_.close(*socket, true);
}

Result<ListenerId> SimNetIo::listen(const Endpoint& at, int, const SocketOptions&) {
  if (std::find(addresses_.begin(), addresses_.end(), at.address) == addresses_.end())
    return fail(EADDRNOTAVAIL, "not an address of this node");
  if (tcp_.listeners_.contains(at)) return fail(EADDRINUSE, "somebody listens there already");
  tcp_.listeners_[at] = {this, tcp_.next_listener_};
  return tcp_.next_listener_++;
}

void SimNetIo::unlisten(ListenerId id) {
  std::erase_if(tcp_.listeners_, [&](const auto& entry) { return entry.second.second == id; });
}

Result<SocketId> SimNetIo::connect(const IpAddress& local, const Endpoint& remote, const SocketOptions& options) {
  if (std::find(addresses_.begin(), addresses_.end(), local) == addresses_.end())
    return fail(EADDRNOTAVAIL, "not an address of this node");
  if (!options.interface.empty()) {
    if (tcp_.hold_error != 0) return fail(tcp_.hold_error, "may not hold a socket");
    tcp_.held.emplace_back(local, options.interface);
  }
  Endpoint from{local, uint16_t(options.privileged_ports ? 1023 : 60999)};
  const uint16_t last = options.privileged_ports ? 512 : 32768;
  while (tcp_.ports_in_use_.contains(from)) {
    if (from.port == last) return fail(EADDRINUSE, "no source port is left");
    --from.port;
  }
  tcp_.ports_in_use_.insert(from);
  SimTcp::Socket& socket = tcp_.create(from, remote);
  socket.dialler = true;
  socket.connecting = true;
  socket.connect_began = tcp_.now_;
  socket.net = this;
  if (tcp_.record) {
    tcp_.connections.push_back({from, remote, tcp_.now_, {}, {}, {}});
    socket.trace = &tcp_.connections.back();
  }
  open_.insert(SocketId(socket.id));
  tcp_.schedule(tcp_.now_ + tcp_.travel(), [tcp = &tcp_, id = socket.id] { tcp->syn(id); });
  return SocketId(socket.id);
}

Result<void> SimNetIo::hold(SocketId id, const std::string& interface) {
  if (tcp_.hold_error != 0) return fail(tcp_.hold_error, "may not hold a socket");
  tcp_.held.emplace_back(local_endpoint(id).address, interface);
  return {};
}

int SimNetIo::read(SocketId id, std::span<std::byte> out) {
  SimTcp::Socket* socket = tcp_.find(id);
  if (socket == nullptr) return -ECONNRESET;
  const size_t got = tcp_.read(*socket, out.data(), tcp_.cut(out.size()));
  if (got > 0) return int(got);
  if (socket->error != 0) return socket->error;
  return socket->fin_received ? 0 : -EAGAIN;
}

int SimNetIo::write(SocketId id, std::span<const std::byte> in) {
  SimTcp::Socket* socket = tcp_.find(id);
  if (socket == nullptr) return -ECONNRESET;
  if (socket->error != 0) return socket->error;
  if (socket->connecting) return -EAGAIN;
  const size_t put = tcp_.write(*socket, in.data(), tcp_.cut(in.size()));
  return put > 0 ? int(put) : -EAGAIN;
}

void SimNetIo::want(SocketId id, bool readable, bool writable) {
  if (SimTcp::Socket* socket = tcp_.find(id)) {
    socket->want_read = readable;
    socket->want_write = writable;
  }
}

Endpoint SimNetIo::local_endpoint(SocketId id) {
  SimTcp::Socket* socket = tcp_.find(id);
  return socket == nullptr ? Endpoint{} : socket->local;
}

void SimNetIo::close(SocketId id) {
  ULNET_CHECK(open_.erase(id) == 1);
  std::erase_if(events_, [&](const NetEvent& event) { return event.socket == id; });
  if (SimTcp::Socket* socket = tcp_.find(id)) tcp_.close(*socket, false);
}

StreamSource SimNetIo::detach(SocketId id) {
  ULNET_CHECK(open_.erase(id) == 1);
  if (SimTcp::Socket* socket = tcp_.find(id)) socket->net = nullptr;
  return {int64_t(id)};
}

void SimNetIo::discard(StreamSource source) {
  if (SimTcp::Socket* socket = tcp_.find(uint64_t(source.number))) tcp_.close(*socket, false);
}

unsigned SimNetIo::poll(std::span<NetEvent> out, Instant now) {
  tcp_.advance(now);
  unsigned count = 0;
  while (count < out.size() && !events_.empty()) {
    out[count] = events_.front();
    events_.pop_front();
    if (out[count++].kind == NetEventKind::kFailed) open_.erase(out[count - 1].socket);
  }
  for (const SocketId id : open_) {
    const SimTcp::Socket* socket = tcp_.find(id);
    if (socket != nullptr && socket->connecting) continue;
    const bool broken = socket == nullptr || socket->error != 0;
    const bool readable = broken || (socket->want_read && (socket->receive.size() > 0 || socket->fin_received));
    const bool writable =
        !broken && socket->want_write && socket->send.size() + socket->in_flight < socket->send_capacity;
    if (readable && count < out.size()) out[count++] = {NetEventKind::kReadable, id, 0, {}, 0};
    if (writable && count < out.size()) out[count++] = {NetEventKind::kWritable, id, 0, {}, 0};
  }
  return count;
}

void SimNetIo::accepted(uint64_t socket, ListenerId listener, const Endpoint& remote) {
  open_.insert(SocketId(socket));
  events_.push_back({NetEventKind::kAccepted, SocketId(socket), listener, remote, 0});
}

void SimNetIo::connected(SocketId id) {
  events_.push_back({NetEventKind::kConnected, id, 0, {}, 0});
}

void SimNetIo::failed(SocketId id, int error) {
  events_.push_back({NetEventKind::kFailed, id, 0, {}, error});
}

// ---- StreamEngine --------------------------------------------------------------------------------------------------

void SimPipe::to_memory(const Payload& window) {
  ULNET_CHECK(taken && out_ == 0 && bytes_.size() == in_ && place + in_ <= window.length);
  PayloadCursor cursor(window);
  cursor.advance(place);
  while (bytes_.size() > 0) {
    iovec piece;
    ULNET_CHECK(cursor.pieces({&piece, 1}, uint32_t(bytes_.size())) == 1);
    const size_t got = bytes_.pop(static_cast<std::byte*>(piece.iov_base), piece.iov_len);
    cursor.advance(uint32_t(got));
  }
  in_ = 0;
}

void SimPipe::give_back() {
  ULNET_CHECK(taken);
  taken = false;
  --tcp_.pipes.out;
  bytes_.clear();
  in_ = out_ = place = 0;
}

void SimPipe::push(const std::byte* from, size_t count) {
  ULNET_CHECK(taken && count <= room());
  bytes_.push(from, count);
  in_ += uint32_t(count);
}

void SimPipe::pop(size_t count) {
  std::vector<std::byte> gone(count);
  ULNET_CHECK(taken && bytes_.pop(gone.data(), count) == count);
  out_ += uint32_t(count);
}

SimEngine::~SimEngine() {
  for (Stream& stream : streams_)
    if (SimTcp::Socket* socket = stream.used && !stream.closing ? tcp_.find(stream.socket) : nullptr)
      tcp_.close(*socket, true);
}

SimEngine::Stream& SimEngine::at(StreamId id) {
  ULNET_CHECK(id.index < streams_.size());
  Stream& stream = streams_[id.index];
  ULNET_CHECK(stream.used && stream.generation == id.generation);
  return stream;
}

Result<StreamId> SimEngine::attach(StreamSource source, void* owner) {
  const auto free = std::find_if(streams_.begin(), streams_.end(), [](const Stream& s) { return !s.used; });
  if (free == streams_.end()) return fail(ENOSPC, "all streams of the engine are in use");
  const uint32_t generation = free->generation + 1;
  *free = Stream{};
  free->used = true;
  free->generation = generation;
  free->socket = uint64_t(source.number);
  free->owner = owner;
  const auto index = uint32_t(free - streams_.begin());
  if (SimTcp::Socket* socket = tcp_.find(free->socket)) {
    ULNET_CHECK(socket->net == nullptr && socket->engine == nullptr);
    socket->engine = this;
    socket->stream = index;
  }
  return StreamId{index, generation};
}

void SimEngine::receive(StreamId id, std::span<const iovec> pieces, uint32_t) {
  Stream& stream = at(id);
  ULNET_CHECK(!stream.closing && !stream.receives() && !pieces.empty() && pieces.size() <= socklnd::kStreamPieces);
  for (const Pending& pending : events_)
    ULNET_CHECK(pending.stream != id.index || pending.event.kind != StreamEventKind::kReceived);
  stream.receive.assign(pieces.begin(), pieces.end());
  stream.receive_submitted = false;
  submitted_.push_back(id.index);
}

void SimEngine::send(StreamId id, std::span<const iovec> pieces, bool) {
  Stream& stream = at(id);
  ULNET_CHECK(!stream.closing && !stream.sends() && !pieces.empty() && pieces.size() <= socklnd::kStreamPieces);
  stream.send.assign(pieces.begin(), pieces.end());
  stream.send_submitted = false;
  stream.send_all = tcp_.options_.random_segments && tcp_.rng_.one_in(2);
  stream.send_lent = stream.send_refused = false;
  stream.sent = 0;
  submitted_.push_back(id.index);
}

/// Now and then copies.
void SimEngine::send_lent(StreamId id, std::span<const iovec> pieces, bool more) {
  send(id, pieces, more);
  at(id).send_lent = !tcp_.rng_.one_in(8);
  at(id).send_refused = tcp_.lent_sends_left-- == 0;
}

socklnd::StreamPipe* SimEngine::pipe_take() {
  if (tcp_.options_.pipes == 0 || (tcp_.pipes_refused && tcp_.rng_.one_in(4))) return nullptr;
  const auto free = std::find_if(pipes_.begin(), pipes_.end(), [](const auto& pipe) { return !pipe->taken; });
  SimPipe* pipe = free == pipes_.end() ? nullptr : free->get();
  if (pipe == nullptr) {
    if (pipes_.size() == tcp_.options_.pipes) return nullptr;
    pipe = pipes_.emplace_back(std::make_unique<SimPipe>(tcp_, 1 + tcp_.rng_.below(300'000))).get();
  }
  pipe->taken = true;
  ++tcp_.pipes.taken;
  ++tcp_.pipes.out;
  return pipe;
}

void SimEngine::receive_piped(StreamId id, socklnd::StreamPipe& pipe, uint32_t most) {
  Stream& stream = at(id);
  ULNET_CHECK(!stream.closing && !stream.receives() && most > 0);
  stream.receive_pipe = &static_cast<SimPipe&>(pipe);
  stream.receive_most = most;
  stream.receive_least = std::min<size_t>(most, 8000);
  stream.receive_submitted = false;
  submitted_.push_back(id.index);
}

void SimEngine::receive_any(StreamId id) {
  at(id).receive_least = 1;
  look(id.index);
}

void SimEngine::send_piped(StreamId id, socklnd::StreamPipe& pipe, uint32_t bytes, bool) {
  Stream& stream = at(id);
  auto& from = static_cast<SimPipe&>(pipe);
  ULNET_CHECK(!stream.closing && !stream.sends() && from.taken && bytes > 0 && bytes <= from.bytes().size());
  stream.send_pipe = &from;
  stream.send_bytes = bytes;
  stream.send_submitted = false;
  stream.send_all = tcp_.rng_.one_in(2);
  stream.sent = 0;
  submitted_.push_back(id.index);
}

void SimEngine::cancel_receive(StreamId id) {
  Stream& stream = at(id);
  if (!stream.receives()) return;  // done already: its event is on the way
  complete(id.index, StreamEventKind::kReceived, -ECANCELED, uint32_t(tcp_.rng_.below(3)));
}

void SimEngine::close(StreamId id, bool abort) {
  Stream& stream = at(id);
  ULNET_CHECK(!stream.closing);
  stream.closing = true;
  const uint32_t slow = tcp_.rng_.one_in(tcp_.options_.slow_close_one_in) ? 1 + uint32_t(tcp_.rng_.below(4)) : 0;
  if (stream.receives()) complete(id.index, StreamEventKind::kReceived, -ECANCELED, slow);
  if (stream.sends()) send_ended(id.index, -ECANCELED, slow);
  complete(id.index, StreamEventKind::kClosed, 0, slow);
  if (SimTcp::Socket* socket = tcp_.find(stream.socket)) tcp_.close(*socket, abort);
}

uint32_t SimEngine::unsent_bytes(StreamId id) {
  const SimTcp::Socket* socket = tcp_.find(at(id).socket);
  return socket == nullptr ? 0 : uint32_t(socket->send.size() + socket->in_flight);
}

void SimEngine::resend_within(StreamId id, Duration stalled, Duration within) {
  tcp_.resend_limit = {tcp_.resend_limit.calls + 1, stalled, within};
  SimTcp::Socket* socket = tcp_.find(at(id).socket);
  if (socket == nullptr) return;
  const bool sends_again = socket->blocked_since != kNever && within > Duration{0};
  socket->user_timeout = sends_again ? stalled + within : Duration{0};
}

void SimEngine::complete(uint32_t index, StreamEventKind kind, int32_t result, uint32_t polls_left) {
  Stream& stream = streams_[index];
  Pending pending{{kind, result, stream.owner}, index, polls_left, {}};
  if (kind == StreamEventKind::kReceived) {
    if (result == -ECANCELED) pending.scribble = stream.receive;
    stream.receive.clear();
    stream.receive_pipe = nullptr;
  } else if (kind == StreamEventKind::kSent) {
    stream.send.clear();
    stream.send_pipe = nullptr;
  }
  events_.push_back(std::move(pending));
}

void SimEngine::try_receive(uint32_t index) {
  Stream& stream = streams_[index];
  if (!stream.receives() || !stream.receive_submitted) return;
  SimTcp::Socket* socket = tcp_.find(stream.socket);
  if (socket == nullptr) return complete(index, StreamEventKind::kReceived, -ECONNRESET);
  if (socket->receive.size() == 0) {
    if (socket->error != 0) return complete(index, StreamEventKind::kReceived, socket->error);
    if (socket->fin_received) complete(index, StreamEventKind::kReceived, 0);
    return;
  }
  if (stream.receive_pipe != nullptr) return try_receive_piped(index, *socket);
  size_t left = tcp_.cut(socket->receive.size());
  size_t total = 0;
  const std::vector<iovec> pieces = stream.receive;
  for (const iovec& piece : pieces) {
    const size_t got = tcp_.read(*socket, static_cast<std::byte*>(piece.iov_base), std::min(left, piece.iov_len));
    total += got;
    left -= got;
    if (left == 0) break;
  }
  complete(index, StreamEventKind::kReceived, int32_t(total));
}

void SimEngine::try_receive_piped(uint32_t index, SimTcp::Socket& socket) {
  Stream& stream = streams_[index];
  SimPipe& pipe = *stream.receive_pipe;
  if (socket.receive.size() < stream.receive_least && socket.error == 0 && !socket.fin_received) return;
  if (pipe.room() == 0) {
    ++tcp_.pipes.full;
    return complete(index, StreamEventKind::kReceived, -ENOSPC);
  }
  std::vector<std::byte> bytes(std::min({tcp_.cut(socket.receive.size()), stream.receive_most, pipe.room()}));
  const size_t got = tcp_.read(socket, bytes.data(), bytes.size());
  pipe.push(bytes.data(), got);
  complete(index, StreamEventKind::kReceived, int32_t(got));
}

void SimEngine::try_send_piped(uint32_t index, SimTcp::Socket& socket) {
  Stream& stream = streams_[index];
  const size_t left = stream.send_bytes - stream.sent;
  const size_t put = tcp_.write(socket, stream.send_pipe->bytes().data(), stream.send_all ? left : tcp_.cut(left));
  stream.send_pipe->pop(put);
  stream.sent += put;
  if (stream.sent == stream.send_bytes || (stream.sent > 0 && !stream.send_all))
    complete(index, StreamEventKind::kSent, int32_t(stream.sent));
}

/// The send comes back unfinished: with the bytes that went, or, if there are none, with the error.
void SimEngine::send_ended(uint32_t index, int32_t error, uint32_t polls_left) {
  const size_t sent = streams_[index].sent;
  complete(index, StreamEventKind::kSent, sent > 0 ? int32_t(sent) : error, polls_left);
}

void SimEngine::try_send(uint32_t index) {
  Stream& stream = streams_[index];
  if (!stream.sends() || !stream.send_submitted) return;
  SimTcp::Socket* socket = tcp_.find(stream.socket);
  if (socket == nullptr) return send_ended(index, -ECONNRESET);
  if (socket->error != 0) return send_ended(index, socket->error);
  if (stream.send_pipe != nullptr) return try_send_piped(index, *socket);
  if (stream.send_refused) return send_ended(index, -ENOBUFS);
  size_t bytes = 0;
  for (const iovec& piece : stream.send) bytes += piece.iov_len;
  size_t left = stream.send_all ? bytes - stream.sent : tcp_.cut(bytes);
  size_t skip = stream.sent;
  for (const iovec& piece : stream.send) {
    const size_t before = std::min(skip, piece.iov_len);
    skip -= before;
    const size_t want = std::min(left, piece.iov_len - before);
    if (want == 0 && left > 0) continue;
    const size_t put =
        tcp_.write(*socket, static_cast<const std::byte*>(piece.iov_base) + before, want, stream.send_lent);
    stream.sent += put;
    left -= put;
    if (put < want || left == 0) break;
  }
  if (stream.sent == bytes || (stream.sent > 0 && !stream.send_all))
    complete(index, StreamEventKind::kSent, int32_t(stream.sent));
}

void SimEngine::look(uint32_t index) {
  Stream& stream = streams_[index];
  if (!stream.used || stream.closing) return;
  try_receive(index);
  try_send(index);
}

void SimEngine::flush() {
  std::vector<uint32_t> fresh;
  fresh.swap(submitted_);
  for (const uint32_t index : fresh) {
    Stream& stream = streams_[index];
    if (!stream.used || stream.closing) continue;
    stream.receive_submitted = stream.receives();
    stream.send_submitted = stream.sends();
    look(index);
  }
}

unsigned SimEngine::poll(std::span<StreamEvent> out, Instant now) {
  tcp_.advance(now);
  if (events_.empty()) return 0;
  unsigned count = 0;
  std::deque<Pending> later;
  while (count < out.size() && !events_.empty()) {
    Pending pending = std::move(events_.front());
    events_.pop_front();
    const bool closed = pending.event.kind == StreamEventKind::kClosed;
    const bool early = closed && std::any_of(later.begin(), later.end(),
                                             [&](const Pending& other) { return other.stream == pending.stream; });
    if (pending.polls_left > 0 || early) {
      if (pending.polls_left > 0) --pending.polls_left;
      later.push_back(std::move(pending));
      continue;
    }
    const bool late = pending.event.kind == StreamEventKind::kReceived && streams_[pending.stream].closing;
    if (late && pending.event.result >= 0) pending.event.result = -ECANCELED;
    // Until this event the memory belongs to the engine. The fill exposes code that has reused it too early.
    for (const iovec& piece : pending.scribble) std::memset(piece.iov_base, 0xDD, std::min<size_t>(piece.iov_len, 16));
    if (closed) streams_[pending.stream].used = false;
    out[count++] = pending.event;
  }
  events_.insert(events_.begin(), std::make_move_iterator(later.begin()), std::make_move_iterator(later.end()));
  return count;
}

}  // namespace ulnet::test
