// One Host with DPDK for all tests of the process, a folder for sockets, and functions that wait for states.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "dataplane/host/clock.h"
#include "dataplane/host/host.h"

namespace ulnet {

/// With two workers.
[[nodiscard]] Host& port_host();
/// Unique among the devices of the process.
[[nodiscard]] unsigned port_index();

/// Calls `turn` until `reached`. Returns false after a minute.
template <class Turn, class Reached>
[[nodiscard]] bool turn_until(Turn&& turn, Reached&& reached) {
  const Instant end = clock_now() + 60s;
  while (!reached()) {
    if (clock_now() > end) return false;
    turn();
  }
  return true;
}

/// A folder that is removed with the object.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string path(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace ulnet
