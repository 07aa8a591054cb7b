#include "control/api/listen.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <utility>
#include <vector>

namespace ulnet::api {
namespace {

tl::unexpected<std::string> failed(const std::string& path, const char* step, int error = errno) {
  return tl::unexpected(fmt::format("control socket {}: {}: {}", path, step, std::strerror(error)));
}

std::string lock_path(const std::string& path) {
  return path + ".lock";
}

bool same_file(int fd, const std::string& path) {
  struct stat held {
  }, named{};
  return fstat(fd, &held) == 0 && stat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
         held.st_dev == named.st_dev;
}

/// Takes the lock file of `path`. Only the ulnetd that holds the lock may touch the socket.
tl::expected<int, std::string> lock_take(const std::string& path) {
  const std::string name = lock_path(path);
  for (int attempt = 0; attempt < 8; ++attempt) {
    int fd = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return failed(name, "cannot be opened");
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      int error = errno;
      close(fd);
      if (error != EWOULDBLOCK) return failed(name, "cannot be locked", error);
      return tl::unexpected(fmt::format(
          "control socket {}: another ulnetd uses it; stop that ulnetd, or give this one its own socket", path));
    }
    if (same_file(fd, name)) return fd;
    close(fd);  // its last owner removed it between open and lock
  }
  return failed(name, "cannot be locked", EAGAIN);
}

/// Removes a socket that nobody listens on; refuses anything else that is in the way.
tl::expected<void, std::string> stale_remove(const sockaddr_un& address) {
  const std::string path = address.sun_path;
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0)
    return errno == ENOENT ? tl::expected<void, std::string>{} : failed(path, "cannot be examined");
  if (!S_ISSOCK(found.st_mode))
    return tl::unexpected(
        fmt::format("control socket {}: a file of that name is not a socket; remove it, or use another path", path));
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return failed(path, "socket");
  int error = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
  close(fd);
  if (error != ECONNREFUSED && error != ENOENT) {
    return tl::unexpected(fmt::format(
        "control socket {}: another program listens on it; stop that program, or give this ulnetd its own socket",
        path));
  }
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return failed(path, "an old socket cannot be removed");
  return {};
}

tl::expected<void, std::string> permissions_set(const ServerOptions& options) {
  if (!options.group.empty()) {
    std::vector<char> buffer(16384);
    group entry{};
    group* found = nullptr;
    getgrnam_r(options.group.c_str(), &entry, buffer.data(), buffer.size(), &found);
    if (found == nullptr)
      return tl::unexpected(fmt::format("control socket {}: there is no group '{}'", options.path, options.group));
    if (chown(options.path.c_str(), static_cast<uid_t>(-1), found->gr_gid) != 0)
      return failed(options.path, "cannot be given to its group");
  }
  if (chmod(options.path.c_str(), options.mode & 0777u) != 0) return failed(options.path, "permissions cannot be set");
  return {};
}

}  // namespace

Listener::Listener(Listener&& other) noexcept
    : path_(std::move(other.path_)),
      lock_fd_(std::exchange(other.lock_fd_, -1)),
      fd_(std::exchange(other.fd_, -1)),
      inode_(other.inode_) {}

Listener::~Listener() {
  struct stat found {};
  if (fd_ >= 0) {
    if (inode_ != 0 && lstat(path_.c_str(), &found) == 0 && found.st_ino == inode_) unlink(path_.c_str());
    close(fd_);
  }
  if (lock_fd_ >= 0) {
    unlink(lock_path(path_).c_str());
    close(lock_fd_);
  }
}

tl::expected<Listener, std::string> Listener::open(const ServerOptions& options) {
  Listener listener;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (options.path.empty() || options.path.size() >= sizeof address.sun_path) {
    return tl::unexpected(fmt::format("control socket '{}': the path must have 1 to {} characters", options.path,
                                      sizeof address.sun_path - 1));
  }
  std::memcpy(address.sun_path, options.path.c_str(), options.path.size());
  if (size_t slash = options.path.rfind('/'); slash != std::string::npos && slash > 0) {
    const std::string folder = options.path.substr(0, slash);
    if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST)
      return failed(options.path, ("cannot make " + folder).c_str());
  }
  auto lock = lock_take(options.path);
  if (!lock) return tl::unexpected(lock.error());
  listener.path_ = options.path;
  listener.lock_fd_ = *lock;
  if (auto cleared = stale_remove(address); !cleared) return tl::unexpected(cleared.error());
  listener.fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener.fd_ < 0) return failed(options.path, "socket");
  fchmod(listener.fd_, 0600);  // until permissions_set: nobody else may come before the group is right
  if (bind(listener.fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return failed(options.path, "cannot be created");
  struct stat made {};
  if (lstat(options.path.c_str(), &made) == 0) listener.inode_ = made.st_ino;
  if (auto set = permissions_set(options); !set) return tl::unexpected(set.error());
  if (listen(listener.fd_, 64) != 0) return failed(options.path, "listen");
  return listener;
}

}  // namespace ulnet::api
