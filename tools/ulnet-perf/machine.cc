#include "tools/ulnet-perf/machine.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace ulnet::perf {
namespace {

/// The value of a line such as "model name : ..."; null where the kernel names no model.
nlohmann::ordered_json cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return nullptr;
}

nlohmann::ordered_json allowed_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return nullptr;  // more CPUs than the set can hold
  return CPU_COUNT(&set);
}

}  // namespace

nlohmann::ordered_json machine_json() {
  utsname names{};
  (void)uname(&names);
  return {{"ulnet", ULNET_VERSION},
          {"host", names.nodename},
          {"kernel", names.release},
          {"cpu", cpu_model()},
          {"cpus", sysconf(_SC_NPROCESSORS_ONLN)},
          {"cpus_allowed", allowed_cpus()}};
}

}  // namespace ulnet::perf
