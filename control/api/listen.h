// Makes the listening control socket and takes it away again. Only for server.cc.
#pragma once
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "control/api/server.h"

namespace ulnet::api {

/// A listening socket with its lock. Movable; the destructor closes both and removes the files that are still its own.
class Listener {
 public:
  /// Errors: a sentence with the path.
  [[nodiscard]] static tl::expected<Listener, std::string> open(const ServerOptions& options);
  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&&) = delete;
  ~Listener();
  [[nodiscard]] int fd() const { return fd_; }

 private:
  Listener() = default;
  std::string path_;
  int lock_fd_ = -1;
  int fd_ = -1;
  uint64_t inode_ = 0;
};

}  // namespace ulnet::api
