// The server side of the control socket. Server has no thread: control adds fd() to its epoll and calls poll() when
// fd() is readable. poll() never blocks and does a bounded amount of work; the rest comes with the next call. The
// bounds in schema.h limit the memory that a client can use by sending, or by not reading. If the process has used up
// its descriptors, clients are still served: kSpareDescriptors are kept back for them.
#pragma once
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "control/api/schema.h"
#include "dataplane/base/time.h"
#include "dataplane/host/memory_reserve.h"

namespace ulnet::api {

/// One request of one client. Never reused while the server lives.
struct RequestId {
  uint64_t client = 0;
  uint64_t id = 0;
  auto operator<=>(const RequestId&) const = default;
};

/// Answers requests. Called from within Server::poll().
class ApiHandler {
 public:
  virtual ~ApiHandler() = default;
  /// A request. Answer it with Server::reply(), now or later, until an answer without `more` has been given.
  virtual void request(RequestId id, const Request& request) = 0;
  /// The client has left before the final answer to this request. A change that has not begun is withdrawn.
  virtual void gone(RequestId id) {}
  /// Most of the bytes that wait for the client have been sent: a stream that paused (Server::backlog()) may go on.
  virtual void drained(RequestId id) {}
};

struct ServerOptions {
  std::string path = kDefaultSocket;
  std::string group;  ///< group that owns the socket; empty = that of the process
  unsigned mode = 0660;
  std::string role = "ulnetd";
  std::string version;
  MemoryReserve* reserve = nullptr;  ///< of the thread that polls; bytes of clients do not take from it
};

class Server {
 public:
  /// Listens. The directory is made when only it is missing; a socket that nobody listens on any more is replaced.
  /// Errors (a sentence): another ulnetd listens there, a path that is too long or no socket, no permission, no such
  /// group.
  [[nodiscard]] static tl::expected<std::unique_ptr<Server>, std::string> open(const ServerOptions& options,
                                                                               ApiHandler& handler);
  /// Closes all connections (what was answered but not sent is lost) and removes the socket.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Readable when poll() has something to do; an epoll descriptor, so that one is enough for all connections.
  [[nodiscard]] int fd() const;
  /// One bounded turn: accepts, reads, hands requests to the handler, writes. False = nothing was there to do. An
  /// exception of the handler (no memory) becomes the answer of that request.
  bool poll(Instant now);
  /// When poll() is due although fd() is not readable: a client waits, and the system had no descriptor for it.
  [[nodiscard]] Instant next_deadline() const;

  /// Answers a request. With answer.more the request stays open. An id that is gone is ignored; an answer that is too
  /// large for a frame becomes an error (send large lists as parts).
  void reply(RequestId id, const Answer& answer);
  /// False: the request has been answered, or its client has left or was given up.
  [[nodiscard]] bool is_open(RequestId id) const;
  /// Bytes that wait to be sent to this request's client. A stream should pause above kOutputLow and go on when
  /// drained() comes.
  [[nodiscard]] size_t backlog(RequestId id) const;
  /// True when every answer given so far has been sent: for a clean stop.
  [[nodiscard]] bool flushed() const;
  [[nodiscard]] size_t client_count() const;

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ulnet::api
