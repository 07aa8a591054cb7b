// `ulnet-perf wire` of a build without DPDK.
#include <cstdio>

#include "perf/wire/wire_command.h"

namespace ulnet::perf {

int wire(int, char**) {
  std::fputs("ulnet-perf wire: built without DPDK, so there are no packet ports\n", stderr);
  return 2;
}

}  // namespace ulnet::perf
