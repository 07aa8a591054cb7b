// The congestion control of a TCP socket.
#pragma once
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <string>

namespace ulnet::test {

inline std::string congestion_of(int fd) {
  std::array<char, 16> name{};
  auto bytes = socklen_t(name.size());
  EXPECT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &bytes), 0);
  return name.data();
}

}  // namespace ulnet::test
