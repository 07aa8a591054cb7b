// A far end of a control connection of memif: sends messages of 128 bytes, and reads what comes.
#pragma once
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

namespace ulnet::dpdk {

// Types of messages.
inline constexpr int kHello = 2, kInit = 3, kRegion = 4, kRing = 5, kConnect = 6, kConnected = 7;
inline constexpr int kEnd = -1;  ///< of MemifEnd::all()

inline size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return size_t(std::distance(begin(all), end(all)));
}

class MemifEnd {
 public:
  MemifEnd() = default;
  explicit MemifEnd(int fd) : fd_(fd) {}
  MemifEnd(MemifEnd&& other) noexcept : fd_(other.give()) {}
  MemifEnd& operator=(MemifEnd&& other) noexcept {
    close();
    fd_ = other.give();
    return *this;
  }
  ~MemifEnd() { close(); }

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] int give() { return std::exchange(fd_, -1); }
  void close() {
    if (fd_ >= 0) ::close(give());
  }

  /// False: the other side is closed, or its buffer is full.
  bool send(int type, std::vector<int> fds = {}, size_t size = 128) {
    std::array<std::byte, 256> bytes{};
    const uint16_t raw = uint16_t(type);
    std::memcpy(bytes.data(), &raw, sizeof raw);
    iovec part{bytes.data(), size};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(4 * sizeof(int))> control{};
    msghdr head{};
    head.msg_iov = &part;
    head.msg_iovlen = 1;
    if (!fds.empty()) {
      head.msg_control = control.data();
      head.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
      cmsghdr* first = CMSG_FIRSTHDR(&head);
      first->cmsg_level = SOL_SOCKET;
      first->cmsg_type = SCM_RIGHTS;
      first->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
      std::memcpy(CMSG_DATA(first), fds.data(), fds.size() * sizeof(int));
    }
    return ::sendmsg(fd_, &head, MSG_DONTWAIT | MSG_NOSIGNAL) == ssize_t(size);
  }

  /// Types of all messages that are there; at the end kEnd if the other side is closed. Descriptors that come are put
  /// into `fds` and closed.
  std::vector<int> all() {
    std::vector<int> out;
    for (;;) {
      std::array<std::byte, 256> bytes{};
      iovec part{bytes.data(), bytes.size()};
      alignas(cmsghdr) std::array<char, CMSG_SPACE(4 * sizeof(int))> control{};
      msghdr head{};
      head.msg_iov = &part;
      head.msg_iovlen = 1;
      head.msg_control = control.data();
      head.msg_controllen = control.size();
      const ssize_t got = ::recvmsg(fd_, &head, MSG_DONTWAIT);
      if (got < 0 && errno == EAGAIN) return out;
      if (got <= 0) {
        out.push_back(kEnd);
        return out;
      }
      uint16_t type = 0;
      std::memcpy(&type, bytes.data(), sizeof type);
      out.push_back(type);
      const cmsghdr* first = CMSG_FIRSTHDR(&head);
      if (first == nullptr) continue;
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(first), sizeof fd);
      inodes.push_back(inode_of(fd));
      ::close(fd);
    }
  }

  static std::string inode_of(int fd) {
    return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd)).string();
  }
  std::vector<std::string> inodes;  ///< of the descriptors that came

 private:
  int fd_ = -1;
};

/// The two ends of one connection; neither waits.
inline std::pair<MemifEnd, MemifEnd> memif_ends() {
  int fds[2] = {-1, -1};
  EXPECT_EQ(0, ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fds));
  return {MemifEnd(fds[0]), MemifEnd(fds[1])};
}

}  // namespace ulnet::dpdk
