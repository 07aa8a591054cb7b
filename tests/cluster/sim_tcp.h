// A simulated TCP network, which takes the place of kernel sockets in tests. SimTcp hands out NetIo (one per node) and
// StreamEngine (one per worker) objects. Virtual time only, all randomness from one seed: the same seed gives the same
// run. Simulates delay, bandwidth, segmentation at any byte, bounded socket buffers (and so back-pressure), FIN, RST,
// and refused and unanswered connects. Also simulates partitions, silent nodes and nodes that lose all their sockets.
// Not simulated: loss below TCP (a partition delays what TCP would resend), TIME_WAIT. Single thread.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <tuple>
#include <vector>

#include "dataplane/base/rng.h"
#include "lnd/socklnd/net_io.h"
#include "lnd/socklnd/stream.h"

namespace ulnet::test {

using socklnd::Endpoint;
using socklnd::IpAddress;
using socklnd::ListenerId;
using socklnd::NetEvent;
using socklnd::NetEventKind;
using socklnd::NetIo;
using socklnd::SocketId;
using socklnd::SocketOptions;
using socklnd::StreamEngine;
using socklnd::StreamEvent;
using socklnd::StreamEventKind;
using socklnd::StreamId;
using socklnd::StreamSource;

struct SimTcpOptions {
  uint64_t seed = 1;
  Duration delay = 100us;         ///< one way
  Duration jitter{0};             ///< added at random; never reorders within a connection
  uint32_t segment_max = 1448;    ///< bytes of one segment
  bool random_segments = true;    ///< cut anywhere; complete receives and sends in part, or sends as MSG_WAITALL does
  uint64_t bytes_per_second = 0;  ///< of one direction of one connection; 0: unlimited
  uint32_t send_buffer = 256 * 1024;
  uint32_t receive_buffer = 256 * 1024;
  Duration resend = 200ms;  ///< how soon a partition is tried again
  bool backs_off = false;   ///< each time twice as late, as the kernel does, up to resend_max; SYNs from 1 s on
  Duration resend_max = 120s;
  Duration connect_timeout = 127s;
  unsigned pipes = 0;              ///< of each engine; of random sizes, and now and then refused
  uint32_t slow_close_one_in = 3;  ///< one in this number of closed streams keeps the engine busy for a few polls
};

/// Bytes, first in first out.
class ByteQueue {
 public:
  [[nodiscard]] size_t size() const { return bytes_.size() - head_; }
  void push(const std::byte* from, size_t count) { bytes_.insert(bytes_.end(), from, from + count); }
  size_t pop(std::byte* to, size_t count);
  [[nodiscard]] const std::byte* data() const { return bytes_.data() + head_; }
  void clear() {
    bytes_.clear();
    head_ = 0;
  }

 private:
  std::vector<std::byte> bytes_;
  size_t head_ = 0;
};

/// Bytes that wait to be sent. Lent ones are read from their memory when they leave, as a NIC does.
class SendQueue {
 public:
  [[nodiscard]] size_t size() const { return bytes_.size(); }
  void push(const std::byte* from, size_t count, bool lent);
  void pop(std::byte* to, size_t count);
  void clear();

 private:
  struct Lent {
    uint64_t begin, end;  ///< bytes of the queue, counted from its first one ever
    const std::byte* memory;
  };
  ByteQueue bytes_;
  std::deque<Lent> lent_;
  uint64_t popped_ = 0;
};

/// Bytes and events of one connection (kept when SimTcp::record is set).
struct SimConnection {
  Endpoint dialler, passive;
  Instant opened = kNever;
  std::vector<std::byte> sent[2];  ///< by the dialler, by the passive side
  bool fin[2] = {false, false};
  bool reset[2] = {false, false};
};

class SimNetIo;
class SimEngine;

class SimTcp {
 public:
  explicit SimTcp(const SimTcpOptions& options = {}) : options_(options), rng_(options.seed) {}
  ~SimTcp();

  /// The sockets of a node that has these addresses. Must not outlive the SimTcp.
  std::unique_ptr<NetIo> net_io(std::vector<IpAddress> addresses);
  std::unique_ptr<StreamEngine> engine(uint32_t streams = 4096);

  /// Lets time pass; everything due until `now` happens.
  void advance(Instant now);
  [[nodiscard]] Instant now() const { return now_; }
  /// When something happens next; kForever when all is quiet.
  [[nodiscard]] Instant next_event() const { return events_.empty() ? kForever : events_.top().at; }

  /// Nothing passes between the two any more, or again.
  void partition(const IpAddress& a, const IpAddress& b, bool on);
  /// The address is silent: everything to and from it is held back, or again not.
  void silence(const IpAddress& address, bool on);
  /// The calls of StreamEngine::resend_within(), and the last of them.
  struct ResendLimit {
    unsigned calls = 0;
    Duration stalled{0}, within{0};
  };
  ResendLimit resend_limit;
  /// All connections between the two get an RST on both sides.
  void reset_between(const IpAddress& a, const IpAddress& b);
  /// RST to the other side; close() the socket afterwards.
  void abort(SocketId id);
  /// FIN to the other side; the socket goes on receiving.
  void finish(SocketId id);
  /// The node loses all sockets without FIN or RST. RST answers each segment that arrives for them later.
  void forget_sockets(const IpAddress& address);
  /// Sockets that exist, on all nodes.
  [[nodiscard]] size_t socket_count() const { return sockets_.size(); }

  /// Of all engines: pipes that are out, and how often one was taken or was full.
  struct Pipes {
    unsigned out = 0, taken = 0, full = 0;
  };
  Pipes pipes;
  bool pipes_refused = true;            ///< now and then, no engine has one
  uint64_t lent_bytes = 0;              ///< that all engines have been lent
  unsigned lent_sends_left = UINT_MAX;  ///< before one is refused with ENOBUFS

  /// How many bytes each engine says that it has sent again.
  uint64_t resent_bytes = 0;

  /// errno with which a NetIo refuses to bind a socket to an interface; 0: it binds.
  int hold_error = 0;
  /// Local addresses and interfaces of the sockets that are bound to an interface.
  std::vector<std::pair<IpAddress, std::string>> held;

  bool record = false;
  std::deque<SimConnection> connections;  ///< when record is set, in the order of their SYNs

 private:
  friend class SimNetIo;
  friend class SimEngine;

  struct Chunk {
    Instant at;
    std::vector<std::byte> bytes;
    bool fin = false;
    bool reset = false;
  };
  struct Socket {
    uint64_t id = 0;
    uint64_t peer = 0;  ///< 0: none (any more)
    Endpoint local, remote;
    bool dialler = false;
    bool connecting = false;
    bool closed = false;  ///< by us: lives on until all is sent
    bool fin_queued = false, fin_sent = false, fin_received = false;
    int error = 0;
    SendQueue send;
    ByteQueue receive;
    size_t in_flight = 0;
    std::deque<Chunk> wire;  ///< from here to the peer
    bool delivery_pending = false;
    Instant last_arrival = kNever;
    Instant connect_began = kNever;
    Instant blocked_since = kNever;  ///< of the bytes on the wire
    Duration user_timeout{0};        ///< TCP_USER_TIMEOUT; 0: none
    SimNetIo* net = nullptr;
    SimEngine* engine = nullptr;
    uint32_t stream = 0;
    bool want_read = true, want_write = false;
    SimConnection* trace = nullptr;
    uint32_t send_capacity = 0, receive_capacity = 0;
  };
  struct Event {
    Instant at;
    uint64_t sequence;
    std::function<void()> run;
    bool operator<(const Event& other) const { return std::tie(at, sequence) > std::tie(other.at, other.sequence); }
  };

  void schedule(Instant at, std::function<void()> run) { events_.push({at, next_sequence_++, std::move(run)}); }
  [[nodiscard]] Socket* find(uint64_t id);
  Socket& create(const Endpoint& local, const Endpoint& remote);
  [[nodiscard]] bool blocked(const IpAddress& a, const IpAddress& b) const;
  [[nodiscard]] Duration travel();
  void syn(uint64_t id);
  void connect_failed(uint64_t id, int error);
  void pump(Socket& socket);
  void put_on_wire(Socket& socket, Chunk chunk);
  void deliver(uint64_t id);
  void try_again(Socket& socket, std::function<void()> attempt);
  void gave_up(Socket& socket);
  void acknowledged(uint64_t id, size_t bytes);
  void reset_received(Socket& socket);
  void send_reset(Socket& socket);
  void close(Socket& socket, bool abort);
  void reap(uint64_t id);
  /// Something changed on the socket: its engine looks at it.
  void poke(Socket& socket);
  [[nodiscard]] size_t read(Socket& socket, std::byte* to, size_t count);
  [[nodiscard]] size_t write(Socket& socket, const std::byte* from, size_t count, bool lent = false);
  [[nodiscard]] size_t cut(size_t bytes);

  const SimTcpOptions options_;
  Rng rng_;
  Instant now_ = kNever;
  uint64_t next_sequence_ = 1;
  uint32_t next_socket_ = 1;
  uint32_t next_listener_ = 1;
  std::priority_queue<Event> events_;
  std::map<uint64_t, Socket> sockets_;
  std::map<Endpoint, std::pair<SimNetIo*, ListenerId>> listeners_;
  std::map<IpAddress, SimNetIo*> nodes_;
  std::set<Endpoint> ports_in_use_;
  std::set<std::pair<IpAddress, IpAddress>> partitions_;
  std::set<IpAddress> silent_;
};

/// "10.0.0.1" or "fd00::1" as an address; aborts on nonsense.
[[nodiscard]] IpAddress ip(const char* text);

}  // namespace ulnet::test
