#include "control/api/server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "control/api/listen.h"

namespace ulnet::api {
namespace {

constexpr int kEventsPerPoll = 32;
constexpr size_t kReadBytes = 256u << 10;  // of one client in one poll()
constexpr Duration kAcceptAgain = 100ms;   // after the system had no descriptor or memory for a client
constexpr Duration kDeafMin = 1s;          // after this time without reading, a client may lose its place

struct ServedClient {
  explicit ServedClient(int socket) : fd(socket) {}

  int fd;
  FrameReader reader{kHelloMax};
  std::string output;
  size_t sent = 0;  // of output
  Caller caller;
  bool greeted = false;
  bool closing = false;           // write what is left, then close; nothing is read any more
  bool dead = false;              // closed at the end of poll()
  bool registered = false;        // with epoll
  uint64_t last_read = 0;         // number of the read that brought its last bytes
  Instant taken_at = kNever;      // when the client last took bytes, or when the first unsent byte came
  uint32_t watched = 0;           // events that epoll reports
  std::map<uint64_t, bool> open;  // requests without their final answer; true = paused stream is waiting for drained()

  [[nodiscard]] size_t unsent() const { return output.size() - sent; }
  [[nodiscard]] bool has_paused() const {
    return std::any_of(open.begin(), open.end(), [](const auto& one) { return one.second; });
  }
};

/// Memory that stays free, besides the memory of the request or answer itself.
constexpr size_t kSpareMemory = 1u << 20;

bool memory_is_there(size_t bytes) {
  void* volatile probe = std::malloc(bytes + kSpareMemory);  // volatile: a pair without a use would be left out
  std::free(probe);
  return probe != nullptr;
}

/// Made without Json, whose destructor allocates.
std::string no_memory_text(uint64_t id) {
  return fmt::format(R"({{"id":{},"ok":false,"errors":[{{"verb":"show","entity":"answer","errno":{},"descr":)"
                     R"("ulnetd has not enough memory for this answer"}}]}})",
                     id, -ENOMEM);
}

/// The text of an answer; none if there is no memory for it.
std::optional<std::string> answer_text(uint64_t id, const Answer& answer) {
  size_t bytes = config::json_memory_of(answer.doc);
  for (const ApiError& error : answer.errors) bytes += config::json_memory(error.descr);
  for (const auto* lines : {&answer.notes, &answer.warnings})
    for (const std::string& line : *lines) bytes += config::json_memory(line);
  if (!memory_is_there(bytes)) return std::nullopt;
  return config::json_dump(answer_to_json(id, answer));
}

std::string text_of(uint64_t id, const Answer& answer) {
  auto text = answer_text(id, answer);
  return text ? std::move(*text) : no_memory_text(id);
}

/// Descriptors without a use, so that one can be closed when accept() needs one.
class SpareDescriptors {
 public:
  ~SpareDescriptors() {
    while (give()) {
    }
  }
  /// Duplicates `fd` as often as room is.
  void fill(int fd) {
    for (; count_ < kSpareDescriptors; ++count_)
      if ((fds_[count_] = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < 0) return;
  }
  /// Closes one; false: none is left.
  bool give() {
    if (count_ == 0) return false;
    close(fds_[--count_]);
    return true;
  }

 private:
  std::array<int, kSpareDescriptors> fds_{};
  size_t count_ = 0;
};

/// The error that the client gets when an exception has ended its request.
ApiError failure_of(const Request& request, const std::exception& error) {
  const bool memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  return {verb_text(request.verb),
          request.verb == Verb::kChange ? "change" : request.object,
          memory ? -ENOMEM : -EIO,
          memory ? "ulnetd has not enough memory for this request" : fmt::format("ulnetd failed: {}", error.what()),
          {}};
}

}  // namespace

class Server::Impl {
 public:
  Impl(Listener listener, ServerOptions options, ApiHandler& handler)
      : listener_(std::move(listener)),
        options_(std::move(options)),
        handler_(handler),
        epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = 0;
    epoll_ctl(epoll_, EPOLL_CTL_ADD, listener_.fd(), &event);
    spares_.fill(listener_.fd());
  }
  ~Impl() {
    for (auto& [serial, client] : clients_) close(client.fd);
    close(epoll_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[nodiscard]] int fd() const { return epoll_; }
  [[nodiscard]] size_t client_count() const { return clients_.size(); }

  bool poll(Instant now) {
    now_ = now;
    std::array<epoll_event, kEventsPerPoll> events{};
    int count = epoll_wait(epoll_, events.data(), kEventsPerPoll, 0);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<size_t>(i)];
      auto found = clients_.find(event.data.u64);
      if (event.data.u64 == 0)
        accept_all(now);
      else if (found != clients_.end() && !found->second.dead)
        serve(found->first, found->second, event.events);
    }
    if (accept_again_ <= now) accept_all(now);
    reap();
    return count > 0;
  }

  [[nodiscard]] Instant next_deadline() const { return accept_again_; }

  void reply(RequestId id, const Answer& answer) {
    auto found = clients_.find(id.client);
    if (found == clients_.end() || found->second.dead || found->second.open.count(id.id) == 0) return;
    ServedClient& client = found->second;
    try {
      auto body = answer_text(id.id, answer);
      const bool as_it_is = body && body->size() <= kFrameMax;
      if (!body)
        body = no_memory_text(id.id);
      else if (!as_it_is)
        body = text_of(id.id, answer_error("show", "answer", -E2BIG,
                                           "the answer is too large; "
                                           "ask for a part of it (--net, --nid, less --verbose)"));
      if (!as_it_is || !answer.more) client.open.erase(id.id);
      send(id.client, client, *body);
    } catch (const std::bad_alloc&) {
      return give_up(client);  // not even for the error
    }
    auto stream = client.open.find(id.id);
    if (stream == client.open.end() || client.dead) return;
    stream->second = client.unsent() > kOutputLow;
    watch(id.client, client);
  }

  [[nodiscard]] bool is_open(RequestId id) const {
    const auto found = clients_.find(id.client);
    return found != clients_.end() && !found->second.dead && found->second.open.contains(id.id);
  }

  [[nodiscard]] size_t backlog(RequestId id) const {
    auto found = clients_.find(id.client);
    return found == clients_.end() ? 0 : found->second.unsent();
  }

  [[nodiscard]] bool flushed() const {
    for (const auto& [serial, client] : clients_) {
      if (client.unsent() > 0 && !client.dead) return false;
    }
    return true;
  }

 private:
  void serve(uint64_t serial, ServedClient& client, uint32_t events) {
    try {
      if ((events & EPOLLOUT) != 0) {
        write_some(serial, client);
        drained_tell(serial, client);
      }
      if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read_some(serial, client);
    } catch (const std::exception&) {
      give_up(client);  // no memory for its bytes
    }
  }

  /// Accepts waiting clients. If no descriptor is left, closes a spare one, or an idle client, or a client that does
  /// not read. If there is none of these, the next try comes after kAcceptAgain.
  void accept_all(Instant now) {
    for (int i = 0; i < kEventsPerPoll; ++i) {
      int fd = accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0 && (errno == EMFILE || errno == ENFILE) && client_waits() &&
          (spares_.give() || idle_drop() || deaf_drop()))
        fd = accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return accept_ended(client_waits() ? errno : EAGAIN, now);
      if (clients_.size() >= kClientsMax && !idle_drop() && !deaf_drop()) {
        refuse_unserved(fd, "ulnetd has its maximum number of clients, and all wait for answers; try again later");
        continue;
      }
      try {
        client_add(fd);
      } catch (const std::bad_alloc&) {
        close(fd);
      }
    }
    accept_ended(EAGAIN, now);  // a listener that is readable still comes with the next poll()
  }

  /// True if a client waits: accept() reports a lack of descriptors even if no client waits. Keeps errno.
  [[nodiscard]] bool client_waits() const {
    const int error = errno;
    pollfd one{listener_.fd(), POLLIN, 0};
    const bool waits = ::poll(&one, 1, 0) > 0;
    errno = error;
    return waits;
  }

  void accept_ended(int error, Instant now) {
    const bool nobody_waits = error == EAGAIN || error == EINTR || error == ECONNABORTED;
    accept_again_ = nobody_waits ? kForever : now + kAcceptAgain;
    listener_watch(nobody_waits);
    if (nobody_waits) spares_.fill(listener_.fd());
  }

  void client_add(int fd) {
    uint64_t serial = ++last_serial_;
    ServedClient& client = clients_.emplace(serial, ServedClient(fd)).first->second;
    client.last_read = ++reads_;
    ucred credentials{};
    socklen_t size = sizeof credentials;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0) {
      client.caller.pid = credentials.pid;
      client.caller.uid = credentials.uid;
      client.caller.gid = credentials.gid;
    }
    watch(serial, client);
  }

  /// Sends the reason and closes. The client is not in clients_ yet, or is about to leave it.
  static void refuse_unserved(int fd, const char* why) {
    std::string bytes = frame(text_of(0, answer_error("parser", "request", -EUSERS, why)));
    (void)::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
  }

  /// Closes the oldest client that has not said hello; without one, the client that has been idle for the longest time.
  /// False if all wait for answers.
  bool idle_drop() {
    auto chosen = clients_.end();
    for (auto it = clients_.begin(); it != clients_.end(); ++it) {
      const ServedClient& client = it->second;
      if (client.greeted && (!client.open.empty() || client.unsent() > 0)) continue;
      const bool first = chosen == clients_.end();
      if (first ||
          std::pair(client.greeted, client.last_read) < std::pair(chosen->second.greeted, chosen->second.last_read))
        chosen = it;
    }
    if (chosen == clients_.end()) return false;
    refuse_unserved(chosen->second.fd, "closed after a long idle time: another client needs the connection slot");
    clients_.erase(chosen);
    return true;
  }

  /// The client that has taken nothing of its answers for the longest time; end() when no answer waits.
  [[nodiscard]] std::map<uint64_t, ServedClient>::iterator deafest() {
    auto chosen = clients_.end();
    for (auto it = clients_.begin(); it != clients_.end(); ++it) {
      if (it->second.dead || it->second.unsent() == 0) continue;
      if (chosen == clients_.end() || it->second.taken_at < chosen->second.taken_at) chosen = it;
    }
    return chosen;
  }

  /// Closes a client that does not read its answers. Its requests end as if it had gone. False: all clients read.
  bool deaf_drop() {
    const auto chosen = deafest();
    if (chosen == clients_.end() || now_ - chosen->second.taken_at < kDeafMin) return false;
    give_up(chosen->second);
    reap();
    return true;
  }

  /// Bounds the unsent bytes of all clients together: above the bound, closes the client that has taken nothing for the
  /// longest time.
  void output_bound() {
    while (true) {
      size_t sum = 0;
      for (const auto& [serial, client] : clients_) sum += client.dead ? 0 : client.unsent();
      if (sum <= kOutputTotalMax) return;
      give_up(deafest()->second);
    }
  }

  /// Bounds the unfinished frames of all clients together: above the bound, closes the client that has sent nothing for
  /// the longest time.
  void input_bound() {
    while (true) {
      size_t sum = 0;
      auto chosen = clients_.end();
      for (auto it = clients_.begin(); it != clients_.end(); ++it) {
        const size_t bytes = it->second.dead || it->second.closing ? 0 : it->second.reader.unfinished_bytes();
        sum += bytes;
        if (bytes > 0 && (chosen == clients_.end() || it->second.last_read < chosen->second.last_read)) chosen = it;
      }
      if (sum <= kInputTotalMax) return;
      refuse(
          chosen->first, chosen->second, 0,
          {"parser", "request", -ENOBUFS, "this request was not complete in time; other requests need the memory", {}},
          true);
      give_up(chosen->second);
    }
  }

  void listener_watch(bool on) {
    if (listening_ == on) return;
    listening_ = on;
    epoll_event event{};
    event.events = on ? static_cast<uint32_t>(EPOLLIN) : 0u;
    epoll_ctl(epoll_, EPOLL_CTL_MOD, listener_.fd(), &event);
  }

  void watch(uint64_t serial, ServedClient& client) {
    uint32_t wanted = client.closing ? 0u : static_cast<uint32_t>(EPOLLIN);
    if (client.unsent() > 0 || client.has_paused()) wanted |= static_cast<uint32_t>(EPOLLOUT);
    if (client.registered && wanted == client.watched) return;
    epoll_event event{};
    event.events = wanted;
    event.data.u64 = serial;
    epoll_ctl(epoll_, client.registered ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, client.fd, &event);
    client.registered = true;
    client.watched = wanted;
  }

  void read_some(uint64_t serial, ServedClient& client) {
    std::array<char, 65536> buffer;
    for (size_t total = 0; total < kReadBytes && !client.closing && !client.dead;) {
      ssize_t count = recv(client.fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (count <= 0) {
        client.dead = true;
        return;
      }
      total += static_cast<size_t>(count);
      client.last_read = ++reads_;
      feed(client, {buffer.data(), static_cast<size_t>(count)});
      frames_take(serial, client);
      if (client.reader.unfinished_bytes() > kReadBytes) input_bound();
    }
    if (client.closing && client.unsent() == 0) client.dead = true;
  }

  void feed(ServedClient& client, std::string_view bytes) const {
    const MemoryReserve::Closed closed(options_.reserve);
    client.reader.feed(bytes);
  }

  void frames_take(uint64_t serial, ServedClient& client) {
    while (!client.closing && !client.dead) {
      auto body = client.reader.next();
      if (!body) return refuse(serial, client, 0, {"parser", "request", -EMSGSIZE, body.error(), {}}, true);
      if (!*body) return;
      frame_take(serial, client, **body);
    }
  }

  void frame_take(uint64_t serial, ServedClient& client, const std::string& body) {
    if (!memory_is_there(config::json_memory(body))) {
      return refuse(serial, client, 0,
                    {"parser", "request", -ENOMEM, "ulnetd has not enough memory for this request", {}}, true);
    }
    auto json = config::json_parse(body);
    if (!json) return refuse(serial, client, 0, {"parser", "request", -EINVAL, json.error(), {}}, true);
    if (!client.greeted) return greet(serial, client, *json);
    auto request = request_from_json(*json);
    *json = nullptr;  // freed while there is memory for that
    if (!request) {
      uint64_t id = request.error().id;
      bool close_it = id == 0 || client.open.count(id) != 0;
      return refuse(serial, client, id, request.error().error, close_it);
    }
    const char* verb = verb_text(request->verb);
    if (client.open.count(request->id) != 0) {
      return refuse(serial, client, 0,
                    {verb, "request", -EEXIST, fmt::format("id {} is still waiting for its answer", request->id), {}},
                    true);
    }
    if (client.open.size() >= kOutstandingMax) {
      return refuse(
          serial, client, request->id,
          {verb, "request", -EAGAIN, fmt::format("more than {} requests wait for their answers", kOutstandingMax), {}},
          false);
    }
    request->caller = client.caller;
    client.open.emplace(request->id, false);
    try {
      handler_.request({serial, request->id}, *request);
    } catch (const std::exception& error) {
      Answer answer;
      answer.errors.push_back(failure_of(*request, error));
      reply({serial, request->id}, answer);
    }
  }

  void greet(uint64_t serial, ServedClient& client, const Json& json) {
    auto hello = hello_read(json);
    Json mine = hello_json(options_.role, options_.version);
    mine["pid"] = getpid();
    send(serial, client, config::json_dump(mine));
    if (!hello) return refuse(serial, client, 0, {"parser", "hello", -EPROTO, hello.error(), {}}, true);
    client.caller.role = hello->role;
    client.caller.version = hello->version;
    client.greeted = true;
    client.reader.max_set(kFrameMax);
  }

  void refuse(uint64_t serial, ServedClient& client, uint64_t id, ApiError error, bool close_it) {
    Answer answer;
    answer.errors.push_back(std::move(error));
    client.closing = client.closing || close_it;
    send(serial, client, text_of(id, answer));
  }

  void send(uint64_t serial, ServedClient& client, const std::string& body) {
    if (client.dead) return;
    if (client.unsent() + body.size() > kOutputMax) {
      return give_up(client);  // the client sends requests and does not read the answers
    }
    if (client.unsent() == 0) client.taken_at = now_;
    append(client, body);
    write_some(serial, client);
    if (client.unsent() > kReadBytes) output_bound();
  }

  void append(ServedClient& client, const std::string& body) const {
    const MemoryReserve::Closed closed(options_.reserve);
    client.output += frame(body);
  }

  void write_some(uint64_t serial, ServedClient& client) {
    while (client.unsent() > 0) {
      ssize_t count =
          ::send(client.fd, client.output.data() + client.sent, client.unsent(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) break;
      if (count <= 0) {
        return give_up(client);
      }
      client.sent += static_cast<size_t>(count);
      client.taken_at = now_;
    }
    if (client.unsent() == 0) {
      client.output.clear();
      client.sent = 0;
      if (client.closing) {
        return give_up(client);
      }
    } else if (client.sent > (1u << 20)) {
      client.output.erase(0, client.sent);
      client.sent = 0;
    }
    watch(serial, client);
  }

  void drained_tell(uint64_t serial, ServedClient& client) {
    if (client.dead || client.unsent() > kOutputLow) return;
    std::vector<uint64_t> waiting;
    for (auto& [id, paused] : client.open) {
      if (std::exchange(paused, false)) waiting.push_back(id);
    }
    watch(serial, client);
    for (uint64_t id : waiting) handler_.drained({serial, id});
  }

  /// Gives a client up; reap() takes it away. When that happens outside poll(), the shutdown makes fd() readable.
  static void give_up(ServedClient& client) {
    client.dead = true;
    shutdown(client.fd, SHUT_RDWR);
  }

  void reap() {
    std::vector<RequestId> lost;
    for (auto it = clients_.begin(); it != clients_.end();) {
      if (!it->second.dead) {
        ++it;
        continue;
      }
      for (const auto& [id, paused] : it->second.open) lost.push_back({it->first, id});
      close(it->second.fd);
      it = clients_.erase(it);
      spares_.fill(listener_.fd());
    }
    for (RequestId id : lost) handler_.gone(id);
  }

  Listener listener_;
  ServerOptions options_;
  ApiHandler& handler_;
  int epoll_;
  SpareDescriptors spares_;
  bool listening_ = true;
  Instant now_ = kNever;             // of the last poll()
  Instant accept_again_ = kForever;  // while the listener is not watched
  uint64_t last_serial_ = 0;
  uint64_t reads_ = 0;
  std::map<uint64_t, ServedClient> clients_;  // by serial: the oldest first
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

tl::expected<std::unique_ptr<Server>, std::string> Server::open(const ServerOptions& options, ApiHandler& handler) {
  auto listener = Listener::open(options);
  if (!listener) return tl::unexpected(listener.error());
  auto impl = std::make_unique<Impl>(std::move(*listener), options, handler);
  if (impl->fd() < 0)
    return tl::unexpected(fmt::format("control socket {}: epoll: {}", options.path, std::strerror(errno)));
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

int Server::fd() const {
  return impl_->fd();
}
bool Server::poll(Instant now) {
  return impl_->poll(now);
}
Instant Server::next_deadline() const {
  return impl_->next_deadline();
}
void Server::reply(RequestId id, const Answer& answer) {
  impl_->reply(id, answer);
}
bool Server::is_open(RequestId id) const {
  return impl_->is_open(id);
}
size_t Server::backlog(RequestId id) const {
  return impl_->backlog(id);
}
bool Server::flushed() const {
  return impl_->flushed();
}
size_t Server::client_count() const {
  return impl_->client_count();
}

}  // namespace ulnet::api
