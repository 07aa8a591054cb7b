// MDs of the C API as the C++ interface describes them.
#pragma once
#include "control/lib/ulnet.h"
#include "dataplane/state/submitter.h"

namespace ulnet {

/// All zero means none; the handle in C++ then names no worker.
inline EqHandle eq_handle_of(ulnet_eq_t eq) {
  if (eq.generation == 0) return {};
  return {eq.worker, eq.submitter, eq.index, eq.generation};
}

/// The numbers of the memory's place count only with their options. A spec of zeros gives no place.
inline MdSpec md_spec_of(const ulnet_md_spec_t& spec) {
  constexpr uint32_t kPlaceOptions = ULNET_MD_NUMA | ULNET_MD_ACCELERATOR;
  return {.segments = {reinterpret_cast<const Segment*>(spec.segments), spec.segment_count},
          .threshold = spec.threshold,
          .max_size = spec.max_size,
          .options = spec.options & ~kPlaceOptions,
          .user_ptr = spec.user_ptr,
          .eq = eq_handle_of(spec.eq),
          .numa = (spec.options & ULNET_MD_NUMA) != 0 ? spec.numa : UINT32_MAX,
          .accelerator = (spec.options & ULNET_MD_ACCELERATOR) != 0 ? spec.accelerator : UINT32_MAX};
}

}  // namespace ulnet
