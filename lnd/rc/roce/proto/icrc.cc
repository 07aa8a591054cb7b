// The CRC is that of Ethernet and gzip. The library of DPDK that computes it cannot go on where a piece ended, so it is
// ISA-L's, which is also several times faster (perf/notebook.md).
#include "lnd/rc/roce/proto/icrc.h"

#include <isa-l/crc.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cstring>

#include "dataplane/base/check.h"

namespace ulnet::rc::roce {
namespace {

/// The register after 8 bytes 0xFF, which stand for the header of InfiniBand. The first bytes of the packet take it in,
/// and the register begins with zero. So zeros before the packet change nothing.
constexpr uint32_t kRegister = 0xDEBB'20E3;
constexpr uint32_t kZeroRegister = ~0u;  ///< as the library takes it

#if defined(__x86_64__)
/// ISA-L leaves the upper halves of vector registers in use. Until they are cleared, each change between instructions
/// of AVX and SSE costs some processors 140 cycles, also in code far behind (perf/notebook.md).
[[gnu::target("avx")]] void clear_upper_halves() {
  _mm256_zeroupper();
}
#endif

uint32_t crc32(uint32_t before, const std::byte* at, size_t bytes) {
  const uint32_t crc = crc32_gzip_refl(before, reinterpret_cast<const unsigned char*>(at), bytes);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx")) clear_upper_halves();
#endif
  return crc;
}

/// Bits of a head that count as set, by words of 8 bytes. The last word of kIcrcHeadV6 has 4 bytes.
template <size_t bytes>
using Mask = std::array<uint64_t, (bytes + 7) / 8>;
/// TOS, TTL, header checksum; UDP checksum; FECN, BECN and reserved bits of the BTH.
constexpr Mask<kIcrcHeadV4> kMaskV4{0xFF00, 0xFFFF'00FF, 0, 0xFFFF'0000, 0xFF};
/// Traffic class and flow label, hop limit; the rest as above.
constexpr Mask<kIcrcHeadV6> kMaskV6{0xFF00'0000'FFFF'FF0F, 0, 0, 0, 0, 0xFFFF'0000'0000'0000, 0xFF'0000'0000, 0};

/// By words, as the next step reads it.
template <size_t bytes>
void put_masked(const std::byte* head, const Mask<bytes>& mask, std::byte* out) {
  for (size_t i = 0; i < mask.size(); ++i) {
    const size_t here = std::min<size_t>(8, bytes - 8 * i);
    uint64_t word = 0;
    std::memcpy(&word, head + 8 * i, here);
    word |= mask[i];
    if (i == 0) word ^= kRegister;
    std::memcpy(out + 8 * i, &word, here);
  }
}

}  // namespace

Icrc::Icrc(Bytes head, size_t behind) : gathers_(head.size() + behind <= kTogether) {
  ULNET_CHECK(head.size() == kIcrcHeadV4 || head.size() == kIcrcHeadV6);
  if (gathers_) std::memset(memory_.data(), 0, kTogether);
  bytes_ = uint32_t(head.size());
  if (bytes_ == kIcrcHeadV4)
    put_masked<kIcrcHeadV4>(head.data(), kMaskV4, gathered());
  else
    put_masked<kIcrcHeadV6>(head.data(), kMaskV6, gathered());
  if (!gathers_) crc_ = crc32(kZeroRegister, gathered(), bytes_);
}

void Icrc::add(Bytes piece) {
  if (piece.empty()) return;
  if (!gathers_) {
    crc_ = crc32(crc_, piece.data(), piece.size());
    return;
  }
  ULNET_CHECK(piece.size() <= kTogether - bytes_);
  std::memcpy(gathered() + bytes_, piece.data(), piece.size());
  bytes_ += uint32_t(piece.size());
}

uint32_t Icrc::value() const {
  return gathers_ ? crc32(kZeroRegister, memory_.data() + bytes_, kTogether) : crc_;
}

}  // namespace ulnet::rc::roce
