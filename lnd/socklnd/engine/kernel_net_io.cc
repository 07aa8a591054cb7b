// NetIo over kernel sockets and one level-triggered epoll. Thread: control. Set-up and handshakes only, so it may
// allocate; bulk never passes here. Nothing blocks.
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <unordered_map>

#include "dataplane/base/check.h"
#include "dataplane/base/limits.h"
#include "lnd/socklnd/engine/socket_ops.h"
#include "lnd/socklnd/net_io.h"

namespace ulnet::socklnd {
namespace {

constexpr uint16_t kSourcePortFirst = 1023;  // docs/wire/socklnd.md §1
constexpr uint16_t kSourcePortLast = 512;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketAddress to_kernel(const IpAddress& address, uint16_t port) {
  SocketAddress out;
  if (address.v6) {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(port);
    std::memcpy(&in.sin6_addr, address.bytes.data(), 16);
    std::memcpy(&out.storage, &in, sizeof in);
    out.bytes = sizeof in;
  } else {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    std::memcpy(&in.sin_addr, address.bytes.data(), 4);
    std::memcpy(&out.storage, &in, sizeof in);
    out.bytes = sizeof in;
  }
  return out;
}

Endpoint from_kernel(const sockaddr_storage& storage) {
  Endpoint out;
  if (storage.ss_family == AF_INET6) {
    sockaddr_in6 in;
    std::memcpy(&in, &storage, sizeof in);
    out.address.v6 = true;
    std::memcpy(out.address.bytes.data(), &in.sin6_addr, 16);
    out.port = ntohs(in.sin6_port);
  } else if (storage.ss_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, &storage, sizeof in);
    std::memcpy(out.address.bytes.data(), &in.sin_addr, 4);
    out.port = ntohs(in.sin_port);
  }
  return out;
}

void set_int(int fd, int level, int name, int value) {
  (void)setsockopt(fd, level, name, &value, sizeof value);
}

Result<void> bind_to_device(int fd, const std::string& interface) {
  if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface.data(), socklen_t(interface.size())) == 0) return {};
  return fail(errno, "cannot bind the socket to the NI's interface (SO_BINDTODEVICE)");
}

bool set_congestion(int fd, std::string_view name) {
  return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), socklen_t(name.size())) == 0;
}

bool uses_bbr(int fd) {
  std::array<char, 16> name{};
  auto bytes = socklen_t(name.size());
  if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &bytes) != 0) return false;
  return std::string_view(name.data(), bytes).starts_with("bbr");
}

/// ENOTSUP: the system has none of this name, or does not allow it.
Result<void> apply_congestion(int fd, Congestion wanted) {
  if (wanted == Congestion::kSystem) return {};
  if (wanted == Congestion::kAuto) {
    if (uses_bbr(fd) && !set_congestion(fd, "cubic")) (void)set_congestion(fd, "reno");
    return {};
  }
  if (set_congestion(fd, wanted == Congestion::kReno ? "reno" : "cubic")) return {};
  if (errno == ENOENT)  // reno is a part of TCP
    return fail(ENOTSUP, "socklnd.congestion_control: this kernel has no cubic; load tcp_cubic, or use `auto`");
  return fail(ENOTSUP,
              "socklnd.congestion_control: this name is not in net.ipv4.tcp_allowed_congestion_control, which ulnetd "
              "needs without CAP_NET_ADMIN; add it there, or use `auto`");
}

/// The interface that an accepted socket's connection came in over; 0 when the kernel does not say.
unsigned came_in_over(int fd, bool v6) {
  const int level = v6 ? int(IPPROTO_IPV6) : int(IPPROTO_IP);
  set_int(fd, level, v6 ? IPV6_2292PKTINFO : IP_PKTINFO, 1);
  alignas(cmsghdr) std::array<char, 256> space{};
  auto bytes = socklen_t(space.size());
  const int got = getsockopt(fd, level, v6 ? IPV6_2292PKTOPTIONS : IP_PKTOPTIONS, space.data(), &bytes);
  set_int(fd, level, v6 ? IPV6_2292PKTINFO : IP_PKTINFO, 0);
  if (got != 0) return 0;
  msghdr message{};
  message.msg_control = space.data();
  message.msg_controllen = bytes;
  for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
    if (one->cmsg_level != level) continue;
    if (!v6 && one->cmsg_type == IP_PKTINFO) {
      in_pktinfo info;
      std::memcpy(&info, CMSG_DATA(one), sizeof info);
      return unsigned(info.ipi_ifindex);
    }
    if (v6 && one->cmsg_type == IPV6_2292PKTINFO) {
      in6_pktinfo info;
      std::memcpy(&info, CMSG_DATA(one), sizeof info);
      return info.ipi6_ifindex;
    }
  }
  return 0;
}

/// Options that kernel LNet sets, too (docs/wire/socklnd.md §5, §8), and the congestion control. Failures only make
/// the socket less tuned, so they are not reported. There are two exceptions. Without its device, traffic would leave
/// on the wrong link. And a congestion control that the configuration names has to be in use.
Result<void> apply_options(int fd, bool v6, const SocketOptions& options) {
  if (!options.interface.empty())
    if (auto bound = bind_to_device(fd, options.interface); !bound) return bound;
  const linger off{0, 0};
  (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &off, sizeof off);
  set_int(fd, IPPROTO_TCP, TCP_LINGER2, -1);
  set_int(fd, IPPROTO_TCP, TCP_NODELAY, options.nodelay ? 1 : 0);
  if (options.tos >= 0) set_int(fd, v6 ? int(IPPROTO_IPV6) : int(IPPROTO_IP), v6 ? IPV6_TCLASS : IP_TOS, options.tos);
  if (options.send_buffer_bytes != 0) set_int(fd, SOL_SOCKET, SO_SNDBUF, int(options.send_buffer_bytes));
  if (options.receive_buffer_bytes != 0) set_int(fd, SOL_SOCKET, SO_RCVBUF, int(options.receive_buffer_bytes));
  const bool keepalive = options.keepalive_idle > 0;
  set_int(fd, SOL_SOCKET, SO_KEEPALIVE, keepalive ? 1 : 0);
  if (keepalive) {
    set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, options.keepalive_idle);
    set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, options.keepalive_interval);
    set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, options.keepalive_count);
  }
  return apply_congestion(fd, options.congestion);
}

Result<int> open_socket(bool v6, const SocketOptions& options) {
  const int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return fail(errno, "cannot open a socket");
  // As in the kernel: one source port serves several remote addresses, and one in TIME_WAIT does not stand in the way.
  set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (v6) set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
  if (auto applied = apply_options(fd, v6, options); !applied) {
    ::close(fd);
    return tl::unexpected(applied.error());
  }
  return fd;
}

struct Dial {
  int fd = -1;
  int state = 0;  ///< 0 connected, EINPROGRESS, or why the dial failed (kFailed follows)
};

/// One try from one source port. EADDRINUSE: the port is taken towards this remote, another may be free.
Result<Dial> dial_from(const IpAddress& local, uint16_t port, const Endpoint& remote, const SocketOptions& options) {
  auto fd = open_socket(local.v6, options);
  if (!fd) return tl::unexpected(fd.error());
  if (port == 0) set_int(*fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
  const SocketAddress from = to_kernel(local, port);
  if (bind(*fd, from.get(), from.bytes) != 0) {
    const int code = errno;
    ::close(*fd);
    if (code == EACCES)
      return fail(EACCES, "source ports below 1024 need CAP_NET_BIND_SERVICE (or unprivileged_ports)");
    if (code == EADDRNOTAVAIL) return fail(code, "the NI's address is not on this machine");
    return fail(code, "cannot bind a source port");
  }
  const SocketAddress to = to_kernel(remote.address, remote.port);
  const int state = connect(*fd, to.get(), to.bytes) == 0 ? 0 : errno;
  if (state == EADDRNOTAVAIL || state == EADDRINUSE) {  // this very pair of ports exists, or is in TIME_WAIT
    ::close(*fd);
    return fail(EADDRINUSE, "the source port is in use towards this peer");
  }
  return Dial{*fd, state};
}

class KernelNetIo final : public NetIo {
 public:
  KernelNetIo() : epoll_fd_(epoll_create1(EPOLL_CLOEXEC)), spare_fd_(dup(epoll_fd_)) {}
  ~KernelNetIo() override;
  KernelNetIo(const KernelNetIo&) = delete;
  KernelNetIo& operator=(const KernelNetIo&) = delete;

  [[nodiscard]] Result<ListenerId> listen(const Endpoint& at, int backlog, const SocketOptions& options) override;
  void unlisten(ListenerId id) override;
  void set_options(ListenerId id, const SocketOptions& options) override {
    if (Socket* listener = find(id)) listener->options = options;
  }
  [[nodiscard]] Result<SocketId> connect(const IpAddress& local, const Endpoint& remote,
                                         const SocketOptions& options) override;
  [[nodiscard]] int read(SocketId id, std::span<std::byte> out) override;
  [[nodiscard]] int write(SocketId id, std::span<const std::byte> in) override;
  void want(SocketId id, bool readable, bool writable) override;
  [[nodiscard]] Endpoint local_endpoint(SocketId id) override;
  [[nodiscard]] Result<void> hold(SocketId id, const std::string& interface) override;
  void close(SocketId id) override;
  [[nodiscard]] StreamSource detach(SocketId id) override;
  void discard(StreamSource source) override;
  unsigned poll(std::span<NetEvent> out, Instant now) override;
  [[nodiscard]] int wait_fd() const override { return epoll_fd_; }

 private:
  enum class Kind : uint8_t { kListener, kDialling, kOpen };
  struct Socket {
    int fd = -1;
    Kind kind = Kind::kOpen;
    uint32_t watched = 0;  ///< requested epoll events; 0 = not in the epoll set
    int error = 0;         ///< of a dial that failed at once: poll() reports it like any other
    Endpoint remote;
    SocketOptions options;  ///< of a listener: for what it accepts
  };

  [[nodiscard]] Result<uint32_t> add(Socket socket, uint32_t events);
  void watch(uint32_t id, Socket& socket, uint32_t events);
  void drop(uint32_t id);
  [[nodiscard]] Socket* find(uint32_t id);
  [[nodiscard]] bool accept_one(uint32_t id, Socket& listener, NetEvent& event);
  void refuse_one(const Socket& listener);
  void dial_ended(uint32_t id, Socket& socket, NetEvent& event);
  [[nodiscard]] unsigned to_events(uint32_t id, uint32_t what, std::span<NetEvent> out);

  int epoll_fd_;
  int spare_fd_;  ///< given up to refuse a connection when no descriptor is left
  uint32_t last_id_ = 0;
  std::unordered_map<uint32_t, Socket> sockets_;
};

KernelNetIo::~KernelNetIo() {
  for (auto& [id, socket] : sockets_) ::close(socket.fd);
  if (spare_fd_ >= 0) ::close(spare_fd_);
  if (epoll_fd_ >= 0) ::close(epoll_fd_);
}

KernelNetIo::Socket* KernelNetIo::find(uint32_t id) {
  const auto found = sockets_.find(id);
  return found == sockets_.end() ? nullptr : &found->second;
}

Result<uint32_t> KernelNetIo::add(Socket socket, uint32_t events) {
  uint32_t id = ++last_id_;
  while (id == 0 || sockets_.contains(id)) id = ++last_id_;  // numbers start over after 2^32 sockets
  Socket& placed = sockets_.emplace(id, std::move(socket)).first->second;
  watch(id, placed, events);
  if (placed.watched == events) return id;
  drop(id);
  return fail(ENOSPC, "the kernel does not let another socket be polled (fs.epoll.max_user_watches)");
}

/// A socket without requested events leaves the set: epoll always reports errors and hang-ups, and would spin on them.
void KernelNetIo::watch(uint32_t id, Socket& socket, uint32_t events) {
  if (socket.watched == events) return;
  epoll_event interest{};
  interest.events = events;
  interest.data.u64 = id;
  const int what = socket.watched == 0 ? EPOLL_CTL_ADD : events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
  if (epoll_ctl(epoll_fd_, what, socket.fd, &interest) == 0) socket.watched = events;
}

void KernelNetIo::drop(uint32_t id) {
  const auto found = sockets_.find(id);
  if (found == sockets_.end()) return;
  ::close(found->second.fd);
  sockets_.erase(found);
}

Result<ListenerId> KernelNetIo::listen(const Endpoint& at, int backlog, const SocketOptions& options) {
  auto fd = open_socket(at.address.v6, options);
  if (!fd) return tl::unexpected(fd.error());
  const SocketAddress address = to_kernel(at.address, at.port);
  if (bind(*fd, address.get(), address.bytes) != 0 || ::listen(*fd, backlog) != 0) {
    const int code = errno;
    ::close(*fd);
    switch (code) {
      case EADDRINUSE: return fail(code, "another program listens on this address and port", at.port);
      case EADDRNOTAVAIL: return fail(code, "the address to listen on is not on this machine", at.port);
      case EACCES:
        return fail(code, "listening below port 1024 needs CAP_NET_BIND_SERVICE (or a higher accept_port)", at.port);
      default: return fail(code, "cannot listen", at.port);
    }
  }
  return add({.fd = *fd, .kind = Kind::kListener, .options = options}, EPOLLIN);
}

void KernelNetIo::unlisten(ListenerId id) {
  drop(id);
}

Result<SocketId> KernelNetIo::connect(const IpAddress& local, const Endpoint& remote, const SocketOptions& options) {
  Result<Dial> dial = fail(EADDRINUSE, "no source port is free");
  if (options.privileged_ports) {
    for (uint16_t port = kSourcePortFirst; port >= kSourcePortLast; --port) {
      dial = dial_from(local, port, remote, options);
      if (dial || dial.error().code != -EADDRINUSE) break;
    }
    if (!dial && dial.error().code == -EADDRINUSE)
      return fail(EADDRINUSE, "every source port from 1023 to 512 is in use");
  } else {
    dial = dial_from(local, 0, remote, options);
  }
  if (!dial) return tl::unexpected(dial.error());
  // A socket whose dial failed at once is hung up, which epoll reports: kFailed comes from poll() as for any other.
  const int error = dial->state == EINPROGRESS ? 0 : dial->state;
  return add({.fd = dial->fd, .kind = Kind::kDialling, .error = error, .remote = remote}, EPOLLOUT);
}

int KernelNetIo::read(SocketId id, std::span<std::byte> out) {
  Socket* socket = find(id);
  if (socket == nullptr) return -EBADF;
  const ssize_t bytes = recv(socket->fd, out.data(), out.size(), MSG_DONTWAIT);
  return bytes < 0 ? -errno : int(bytes);
}

int KernelNetIo::write(SocketId id, std::span<const std::byte> in) {
  Socket* socket = find(id);
  if (socket == nullptr) return -EBADF;
  const ssize_t bytes = ::send(socket->fd, in.data(), in.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return bytes < 0 ? -errno : int(bytes);
}

void KernelNetIo::want(SocketId id, bool readable, bool writable) {
  Socket* socket = find(id);
  if (socket == nullptr || socket->kind != Kind::kOpen) return;
  watch(id, *socket, (readable ? uint32_t(EPOLLIN | EPOLLRDHUP) : 0u) | (writable ? uint32_t(EPOLLOUT) : 0u));
}

Endpoint KernelNetIo::local_endpoint(SocketId id) {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof storage;
  Socket* socket = find(id);
  if (socket == nullptr || getsockname(socket->fd, reinterpret_cast<sockaddr*>(&storage), &bytes) != 0) return {};
  return from_kernel(storage);
}

Result<void> KernelNetIo::hold(SocketId id, const std::string& interface) {
  Socket* socket = find(id);
  if (socket == nullptr) return {};
  const unsigned index = if_nametoindex(interface.c_str());
  if (index == 0 || came_in_over(socket->fd, socket->remote.address.v6) != index)
    return fail(EXDEV, "the connection came in over another interface of the subnet");
  return bind_to_device(socket->fd, interface);
}

void KernelNetIo::close(SocketId id) {
  drop(id);
}

StreamSource KernelNetIo::detach(SocketId id) {
  Socket* socket = find(id);
  if (socket == nullptr) return {};
  ULNET_CHECK(socket->kind == Kind::kOpen);
  const int fd = socket->fd;
  watch(id, *socket, 0);
  sockets_.erase(id);
  return {fd};
}

void KernelNetIo::discard(StreamSource source) {
  if (source.number >= 0) ::close(int(source.number));
}

/// No descriptor is left: takes the connection at the head of the queue with the spare descriptor, and closes it. If
/// the connection stayed there, the listener would be ready for ever.
void KernelNetIo::refuse_one(const Socket& listener) {
  ::close(spare_fd_);
  const int fd = accept4(listener.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) ::close(fd);
  spare_fd_ = dup(epoll_fd_);
}

bool KernelNetIo::accept_one(uint32_t id, Socket& listener, NetEvent& event) {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof storage;
  const int fd = accept4(listener.fd, reinterpret_cast<sockaddr*>(&storage), &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {
    if (errno == EMFILE || errno == ENFILE) refuse_one(listener);
    return false;
  }
  const Endpoint remote = from_kernel(storage);
  (void)apply_options(fd, remote.address.v6, listener.options);
  auto added = add({.fd = fd, .kind = Kind::kOpen, .remote = remote}, EPOLLIN | EPOLLRDHUP);
  if (!added) return false;
  event = {NetEventKind::kAccepted, *added, id, remote, 0};
  return true;
}

void KernelNetIo::dial_ended(uint32_t id, Socket& socket, NetEvent& event) {
  int error = socket.error;
  socklen_t bytes = sizeof error;
  if (error == 0 && getsockopt(socket.fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
  event = {error == 0 ? NetEventKind::kConnected : NetEventKind::kFailed, id, 0, socket.remote, -error};
  if (error != 0) {
    drop(id);
  } else {
    socket.kind = Kind::kOpen;
    watch(id, socket, EPOLLIN | EPOLLRDHUP);
  }
}

/// Events of one socket: 0, 1 or 2. Requires room for one; the next poll reports what does not fit.
unsigned KernelNetIo::to_events(uint32_t id, uint32_t what, std::span<NetEvent> out) {
  Socket* socket = find(id);
  if (socket == nullptr) return 0;
  switch (socket->kind) {
    case Kind::kListener: return accept_one(id, *socket, out[0]) ? 1 : 0;
    case Kind::kDialling: dial_ended(id, *socket, out[0]); return 1;
    case Kind::kOpen: break;
  }
  // An error or hang-up is reported as every event that is waited for; the read or write that follows meets the error.
  const bool broken = (what & (EPOLLERR | EPOLLHUP)) != 0;
  unsigned filled = 0;
  if ((socket->watched & EPOLLIN) != 0 && (broken || (what & (EPOLLIN | EPOLLRDHUP)) != 0))
    out[filled++] = {NetEventKind::kReadable, id, 0, socket->remote, 0};
  if ((socket->watched & EPOLLOUT) != 0 && (broken || (what & EPOLLOUT) != 0) && filled < out.size())
    out[filled++] = {NetEventKind::kWritable, id, 0, socket->remote, 0};
  return filled;
}

unsigned KernelNetIo::poll(std::span<NetEvent> out, Instant) {
  std::array<epoll_event, kPollBudget> ready;
  const int count = out.empty() ? 0 : epoll_wait(epoll_fd_, ready.data(), int(std::min(ready.size(), out.size())), 0);
  unsigned filled = 0;
  for (int i = 0; i < count && filled < out.size(); ++i)
    filled += to_events(uint32_t(ready[size_t(i)].data.u64), ready[size_t(i)].events, out.subspan(filled));
  return filled;
}

}  // namespace

std::unique_ptr<NetIo> make_kernel_net_io() {
  return std::make_unique<KernelNetIo>();
}

}  // namespace ulnet::socklnd
