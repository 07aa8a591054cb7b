#include "lnd/net/kernel/kernel_link.h"

#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace ulnet::dpdk {
namespace {

/// RTM_SETLINK with at most one attribute.
struct LinkRequest {
  nlmsghdr header{};
  ifinfomsg link{};
  rtattr attribute{};
  uint32_t value = 0;
};

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

Result<void> KernelLink::open(const std::string& interface) {
  interface_ = interface;
  index_ = int(if_nametoindex(interface.c_str()));
  if (index_ == 0) return fail(ENODEV, "the system has no interface of this name");
  return events_.open(LinkEvents::About::kLinks);
}

Result<void> KernelLink::change(uint32_t flags, uint32_t flags_mask, uint32_t mtu) const {
  const Descriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (socket.get() < 0) return fail(errno, "cannot open a netlink socket");
  LinkRequest request;
  request.header.nlmsg_type = RTM_SETLINK;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
  request.header.nlmsg_len = uint32_t(NLMSG_LENGTH(sizeof(ifinfomsg)));
  request.link.ifi_index = index_;
  request.link.ifi_flags = flags;
  request.link.ifi_change = flags_mask;
  if (mtu != 0) {
    request.attribute.rta_type = IFLA_MTU;
    request.attribute.rta_len = uint16_t(RTA_LENGTH(sizeof mtu));
    request.value = mtu;
    request.header.nlmsg_len = uint32_t(sizeof request);
  }
  if (::send(socket.get(), &request, request.header.nlmsg_len, 0) < 0) return fail(errno, "netlink refuses a request");
  alignas(nlmsghdr) std::array<char, 4096> answer;
  const ssize_t got = ::recv(socket.get(), answer.data(), answer.size(), 0);
  if (got < ssize_t(NLMSG_LENGTH(sizeof(nlmsgerr)))) return fail(EIO, "netlink gives no answer");
  nlmsgerr error;
  std::memcpy(&error, answer.data() + NLMSG_HDRLEN, sizeof error);
  if (error.error != 0) return fail(error.error, "the system refuses to change the interface (rights, or its limits)");
  return {};
}

Result<void> KernelLink::set_mtu(uint16_t mtu) {
  return change(0, 0, mtu);
}

Result<void> KernelLink::set_up() {
  return change(IFF_UP, IFF_UP, 0);
}

unsigned KernelLink::combined_channels() const {
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ethtool_channels channels{};
  channels.cmd = ETHTOOL_GCHANNELS;
  ifreq request{};
  std::strncpy(request.ifr_name, interface_.c_str(), IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&channels);
  if (::ioctl(socket.get(), SIOCETHTOOL, &request) != 0 || channels.max_combined == 0) return 1;
  return std::max(1u, channels.combined_count);
}

Result<KernelLink::State> KernelLink::state() const {
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, interface_.c_str(), IFNAMSIZ - 1);
  State out;
  if (if_nametoindex(interface_.c_str()) != unsigned(index_)) return fail(ENODEV, "the interface no longer exists");
  if (::ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) return fail(errno, "the interface no longer exists");
  out.up = (request.ifr_flags & IFF_UP) != 0;
  out.running = out.up && (request.ifr_flags & IFF_RUNNING) != 0;
  return out;
}

bool KernelLink::replaced() const {
  const unsigned now = is_open() ? if_nametoindex(interface_.c_str()) : 0;
  return now != 0 && now != unsigned(index_);
}

}  // namespace ulnet::dpdk
