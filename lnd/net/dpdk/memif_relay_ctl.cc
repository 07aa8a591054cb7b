#include "lnd/net/dpdk/memif_relay_ctl.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace ulnet::dpdk {
namespace {

using Side = MemifPair::Side;
using Stage = MemifPair::Stage;

constexpr unsigned kLetGoMs = 1000;
constexpr std::string_view kBeside = ".dpdk";  // the device's socket, beside a server's own one

/// The same device at another socket.
DeviceSpec at_socket(const DeviceSpec& device, const std::string& name, bool abstract) {
  DeviceSpec out = device;
  out.parameters.clear();
  for (size_t at = 0; at < device.parameters.size();) {
    const size_t end = std::min(device.parameters.find(',', at), device.parameters.size());
    const std::string one = device.parameters.substr(at, end - at);
    if (!one.empty() && !one.starts_with("socket=") && !one.starts_with("socket-abstract="))
      out.parameters += one + ",";
    at = end + 1;
  }
  out.parameters += "socket=" + name + (abstract ? ",socket-abstract=yes" : ",socket-abstract=no");
  return out;
}

/// DPDK's client is in this process.
bool is_own(int fd) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.pid == ::getpid();
}

/// A server's pair that can be closed at once. DPDK's server must have accepted it, and no ring may be in use.
bool is_over(const MemifPair& pair, bool late) {
  if (pair.had_rings()) return false;
  if (pair.stage() == Stage::kEnding) return true;
  return pair.greeted() && (pair.wants_client() || late);
}

}  // namespace

Checked<std::unique_ptr<MemifRelay>> MemifRelay::make(const DeviceSpec& device) {
  std::unique_ptr<MemifRelay> out(new MemifRelay);
  const auto refuse = [&](const Error& error, const char* what) {
    return tl::unexpected(Problem{.what = what + (": " + device.parameter("socket")), .code = error.code});
  };
  const std::string role = device.parameter("role");
  out->is_client_ = role != "server" && role != "master";  // as DPDK takes it
  std::string name;
  const auto anywhere = memif_listen_anywhere(name);
  if (!anywhere) return refuse(anywhere.error(), anywhere.error().what);
  if (out->is_client_) {
    out->listen_ = *anywhere;
    out->server_ = memif_address(device);
    out->device_ = at_socket(device, name, true);
    return out;
  }
  out->reserved_ = *anywhere;
  const MemifAddress own = memif_address(device);
  if (!own.is_abstract() && memif_socket(device).size() + kBeside.size() >= sizeof own.socket.sun_path)
    return refuse(fail(EINVAL, "").value(), "the name of memif's socket has more than 101 characters");
  const auto listen = memif_listen(own);
  if (!listen) {
    return refuse(listen.error(), listen.error().code == -EADDRINUSE
                                      ? "another port or process listens at memif's socket: give each its own"
                                      : "memif's server cannot listen at its socket");
  }
  out->own_ = own;
  out->listen_ = *listen;
  // A file beside the port's own one is as well protected as that.
  out->device_ = own.is_abstract() ? at_socket(device, "ulnet-memif-" + name, true)
                                   : at_socket(device, memif_socket(device).append(kBeside), false);
  out->server_ = memif_address(out->device_);
  if (!own.is_abstract()) ::unlink(out->server_.socket.sun_path);  // of a process that was killed
  return out;
}

MemifRelay::~MemifRelay() {
  if (own_.bytes != 0 && !own_.is_abstract()) ::unlink(own_.socket.sun_path);
  for (const int fd : {listen_, reserved_, accepted_})
    if (fd >= 0) ::close(fd);
}

MemifRelay::Answer MemifRelay::ask_server() {
  for (int old = accept(); old >= 0; old = accept()) ::close(old);  // of a device that was closed
  if (!pairs_.empty()) {
    MemifPair& pair = *pairs_.front().pair;
    pair.drop_client();
    if (pair.wants_client()) {
      (void)pair.turn();
      if (pair.wants_client()) return pair.greeted() ? Answer::kGreeted : Answer::kNone;
      pairs_.clear();
      return Answer::kNoServer;
    }
    pairs_.clear();
  }
  const auto connected = memif_connect(server_);
  if (!connected) return connected.error().code == -EAGAIN ? Answer::kNone : Answer::kNoServer;
  pairs_.push_back({std::make_unique<MemifPair>(*connected), kForever});
  return Answer::kNone;
}

bool MemifRelay::turn(Instant now) {
  bool any = is_client_ && accept_device();
  for (auto& kept : pairs_) {
    if (!is_client_ && ending()) return any;  // DPDK's server has one connection: the others wait for its end
    any = kept.pair->turn() || any;
  }
  if (is_client_ || ending()) return any;
  const auto is_done = [&](const Kept& kept) {
    return is_over(*kept.pair, now >= kept.until) && kept.pair->release(Side::kServer);
  };
  any = std::erase_if(pairs_, is_done) > 0 || any;
  return accept_peer(now) || any;
}

/// DPDK's client, if the pair has none yet.
bool MemifRelay::accept_device() {
  if (pairs_.empty() || !pairs_.front().pair->wants_client()) return false;
  const int device = accept();
  if (device < 0) return false;
  if (is_own(device)) {
    pairs_.front().pair->set_client(device);
  } else {
    ::close(device);
  }
  return true;
}

/// Another process, for which DPDK's server must have room.
bool MemifRelay::accept_peer(Instant now) {
  if (pairs_.size() == kPairsMax) return false;
  if (accepted_ < 0) accepted_ = accept();
  if (accepted_ < 0) return false;
  const auto connected = memif_connect(server_);
  if (!connected && connected.error().code == -EAGAIN) return false;
  const int peer = std::exchange(accepted_, -1);
  if (!connected) {
    ::close(peer);
    return true;
  }
  pairs_.push_back({std::make_unique<MemifPair>(*connected), now + kHandshakePatience});
  pairs_.back().pair->set_client(peer);
  return true;
}

int MemifRelay::accept() {
  const int fd = ::accept4(listen_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  accepts_ = fd >= 0 || errno == EAGAIN;
  return fd;
}

bool MemifRelay::connected() const {
  return std::any_of(pairs_.begin(), pairs_.end(),
                     [](const Kept& kept) { return kept.pair->stage() == Stage::kConnected; });
}

bool MemifRelay::ending() const {
  return std::any_of(pairs_.begin(), pairs_.end(),
                     [](const Kept& kept) { return kept.pair->stage() == Stage::kEnding && kept.pair->had_rings(); });
}

bool MemifRelay::server_lost() const {
  if (!is_client_) return false;
  if (pairs_.empty()) return true;
  const MemifPair& pair = *pairs_.front().pair;
  return pair.stage() == Stage::kEnding && (pair.had_rings() || !pair.greeted());
}

bool MemifRelay::release() {
  const auto is_done = [](const Kept& kept) {
    return kept.pair->stage() == Stage::kEnding && kept.pair->release(Side::kServer);
  };
  return std::erase_if(pairs_, is_done) > 0;
}

void MemifRelay::let_go() {
  const Side device = is_client_ ? Side::kClient : Side::kServer;
  for (unsigned i = 0; i < kLetGoMs; ++i) {
    bool all = true;
    for (Kept& kept : pairs_) all = kept.pair->let_go(device) && all;
    if (all) return;
    (void)::poll(nullptr, 0, 1);
  }
}

void MemifRelay::wait_fds(std::vector<int>& out) const {
  const bool room = is_client_ ? !pairs_.empty() && pairs_.front().pair->wants_client()
                               : !ending() && accepted_ < 0 && pairs_.size() < kPairsMax;
  if (room && accepts_) out.push_back(listen_);
  if (!is_client_ && ending()) return;
  for (const Kept& kept : pairs_) kept.pair->wait_fds(out);
}

}  // namespace ulnet::dpdk
