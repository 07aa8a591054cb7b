#include "lnd/net/kernel/link_events.h"

#include <ifaddrs.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace ulnet {
namespace {

bool same_address(const sockaddr* address, const Nid& nid) {
  if (address == nullptr) return false;
  if (address->sa_family == AF_INET && nid.size == 0) {
    sockaddr_in v4;
    std::memcpy(&v4, address, sizeof v4);
    return std::memcmp(&v4.sin_addr, nid.addr.data(), 4) == 0;
  }
  if (address->sa_family != AF_INET6 || nid.size == 0) return false;
  sockaddr_in6 v6;
  std::memcpy(&v6, address, sizeof v6);
  return std::memcmp(&v6.sin6_addr, nid.addr.data(), 16) == 0;
}

}  // namespace

LinkEvents::~LinkEvents() {
  if (fd_ >= 0) ::close(fd_);
}

Result<void> LinkEvents::open(About about) {
  if (fd_ >= 0) return {};
  const int fd = ::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0) return fail(errno, "cannot open a netlink socket");
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK;
  if (about == About::kLinksAndAddresses) address.nl_groups |= RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    const int error = errno;
    ::close(fd);
    return fail(error, "netlink refuses to report link changes");
  }
  fd_ = fd;
  return {};
}

bool LinkEvents::take() const {
  if (fd_ < 0) return false;
  std::array<char, 8192> discard;
  for (bool some = false;; some = true) {
    const ssize_t got = ::recv(fd_, discard.data(), discard.size(), MSG_DONTWAIT);
    if (got > 0 || (got < 0 && (errno == ENOBUFS || errno == EINTR))) continue;  // ENOBUFS: notices were lost
    return some;
  }
}

AddressState address_state(const Nid& nid) {
  ifaddrs* head = nullptr;
  if (getifaddrs(&head) != 0) return AddressState::kNone;
  AddressState state = AddressState::kNone;
  constexpr unsigned kUsable = IFF_UP | IFF_RUNNING;
  for (const ifaddrs* one = head; one != nullptr && state != AddressState::kUp; one = one->ifa_next) {
    if (!same_address(one->ifa_addr, nid)) continue;
    state = (one->ifa_flags & kUsable) == kUsable ? AddressState::kUp : AddressState::kDown;
  }
  freeifaddrs(head);
  return state;
}

}  // namespace ulnet
