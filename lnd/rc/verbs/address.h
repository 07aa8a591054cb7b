// Addresses of lnd/rc/rc.h as sockaddr. Pure.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "lnd/rc/rc.h"

namespace ulnet::rc::verbs {

union SocketAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

[[nodiscard]] inline SocketAddress socket_address(const Endpoint& at) {
  SocketAddress out{};
  if (at.address.is_v4()) {
    out.v4.sin_family = AF_INET;
    out.v4.sin_addr.s_addr = htonl(at.address.v4());
    out.v4.sin_port = htons(at.port);
  } else {
    out.v6.sin6_family = AF_INET6;
    std::copy(at.address.bytes.begin(), at.address.bytes.end(), out.v6.sin6_addr.s6_addr);
    out.v6.sin6_port = htons(at.port);
  }
  return out;
}

/// An address of another family is :: port 0.
[[nodiscard]] inline Endpoint endpoint_of(const sockaddr& from) {
  Endpoint out;
  if (from.sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &from, sizeof v4);
    out = {IpAddress::of_v4(ntohl(v4.sin_addr.s_addr)), ntohs(v4.sin_port)};
  } else if (from.sa_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, &from, sizeof v6);
    std::copy_n(v6.sin6_addr.s6_addr, out.address.bytes.size(), out.address.bytes.begin());
    out.port = ntohs(v6.sin6_port);
  }
  return out;
}

}  // namespace ulnet::rc::verbs
