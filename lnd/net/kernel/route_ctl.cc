#include "lnd/net/kernel/route_ctl.h"

#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

namespace ulnet {
namespace {

class Socket {
 public:
  Socket(int family, int type, int protocol) : fd_(::socket(family, type | SOCK_CLOEXEC, protocol)) {}
  ~Socket() {
    if (fd_ >= 0) (void)::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

struct Request {
  nlmsghdr header{};
  rtmsg route{};
  std::array<char, 2 * RTA_SPACE(16)> attributes{};

  void add(uint16_t type, const void* value, size_t bytes) {
    rtattr attribute{.rta_len = uint16_t(RTA_LENGTH(bytes)), .rta_type = type};
    char* at = attributes.data() + (header.nlmsg_len - NLMSG_LENGTH(sizeof route));
    std::memcpy(at, &attribute, sizeof attribute);
    std::memcpy(at + RTA_LENGTH(0), value, bytes);
    header.nlmsg_len += uint32_t(RTA_SPACE(bytes));
  }
};

size_t bytes_of_address(const Nid& nid) {
  return nid.size == 0 ? 4 : 16;
}

struct WayOut {
  int error = 0;      ///< > 0: errno of the kernel
  int interface = 0;  ///< index; 0: the answer names none
};

std::optional<WayOut> ask(const Nid& from, const Nid& to) {
  const Socket socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
  if (socket.get() < 0) return {};
  Request request;
  request.header.nlmsg_type = RTM_GETROUTE;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.header.nlmsg_len = uint32_t(NLMSG_LENGTH(sizeof request.route));
  const uint8_t bits = uint8_t(8 * bytes_of_address(to));
  request.route.rtm_family = to.size == 0 ? AF_INET : AF_INET6;
  request.route.rtm_dst_len = request.route.rtm_src_len = bits;
  request.add(RTA_DST, to.addr.data(), bytes_of_address(to));
  request.add(RTA_SRC, from.addr.data(), bytes_of_address(from));
  if (::send(socket.get(), &request, request.header.nlmsg_len, 0) < 0) return {};
  alignas(nlmsghdr) std::array<char, 4096> bytes;
  const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
  nlmsghdr header;
  if (got < ssize_t(sizeof header)) return {};
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.nlmsg_len > size_t(got)) return {};
  if (header.nlmsg_type == NLMSG_ERROR && header.nlmsg_len >= NLMSG_LENGTH(sizeof(nlmsgerr))) {
    nlmsgerr error;
    std::memcpy(&error, bytes.data() + NLMSG_HDRLEN, sizeof error);
    return WayOut{.error = -error.error};
  }
  if (header.nlmsg_type != RTM_NEWROUTE) return {};
  for (size_t at = NLMSG_SPACE(sizeof(rtmsg)); at + sizeof(rtattr) <= header.nlmsg_len;) {
    rtattr attribute;
    std::memcpy(&attribute, bytes.data() + at, sizeof attribute);
    if (attribute.rta_len < sizeof attribute || at + attribute.rta_len > header.nlmsg_len) return {};
    if (attribute.rta_type == RTA_OIF && attribute.rta_len == RTA_LENGTH(sizeof(int))) {
      WayOut answer;
      std::memcpy(&answer.interface, bytes.data() + at + RTA_LENGTH(0), sizeof answer.interface);
      return answer;
    }
    at += RTA_ALIGN(attribute.rta_len);
  }
  return {};
}

bool runs(int interface) {
  ifreq request{};
  const Socket socket(AF_INET, SOCK_DGRAM, 0);
  if (socket.get() < 0 || if_indextoname(unsigned(interface), request.ifr_name) == nullptr) return socket.get() < 0;
  if (::ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) return errno != ENODEV;
  return (request.ifr_flags & IFF_RUNNING) != 0;
}

}  // namespace

bool route_runs(const Nid& from, const Nid& to) {
  if (from.size != to.size) return true;
  const std::optional<WayOut> answer = ask(from, to);
  if (!answer) return true;
  if (answer->error == ENETUNREACH || answer->error == EHOSTUNREACH || answer->error == ENETDOWN) return false;
  return answer->error != 0 || answer->interface == 0 || runs(answer->interface);
}

std::string route_interface(const Nid& from, const Nid& to) {
  const std::optional<WayOut> answer = from.size == to.size ? ask(from, to) : std::nullopt;
  char name[IF_NAMESIZE];
  if (!answer || answer->interface == 0) return {};
  return if_indextoname(unsigned(answer->interface), name) == nullptr ? std::string() : name;
}

}  // namespace ulnet
