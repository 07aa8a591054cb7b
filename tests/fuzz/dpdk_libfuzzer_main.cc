// libFuzzer's entry for one packet decoder, named by -DULNET_FUZZ_TARGET.
#include <cstdint>

#include "tests/fuzz/dpdk_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ulnet::fuzz::ULNET_FUZZ_TARGET(std::as_bytes(std::span(data, size)));
  return 0;
}
