// A TCP port for listeners of one test program on 127.0.0.0/8.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <random>

namespace ulnet::test {

/// Draws a port without a listener on any address, from 22000 to 31999. This range lies below the ports that the kernel
/// gives to outgoing connections, so that no connection of another program takes the port. The range lies above the
/// ports of tools/quickstart. Ports are drawn, not counted: programs that run at the same time draw different ones.
/// Returns 0 if 100 draws found none.
inline uint16_t free_port() {
  std::random_device draw;
  for (int attempt = 0; attempt < 100; ++attempt) {
    const auto port = uint16_t(22000 + draw() % 10000);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return 0;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    const bool free = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    close(fd);
    if (free) return port;
  }
  return 0;
}

}  // namespace ulnet::test
