// Memory descriptors and match entries. Owner: the home worker, from the call that binds it until its slot goes back to
// the submitter. Source: docs/wire/lnet.md §3.
#pragma once
#include <array>
#include <cstdint>

#include "dataplane/base/list.h"
#include "dataplane/base/nid.h"
#include "dataplane/state/eq.h"
#include "dataplane/state/event.h"
#include "dataplane/state/payload.h"
#include "dataplane/state/ring_messages.h"

namespace ulnet {

struct UserMessage;

enum MdOption : uint32_t {
  kMdPut = 1 << 0,           ///< a PUT may match it
  kMdGet = 1 << 1,           ///< a GET may match it
  kMdTruncate = 1 << 2,      ///< data longer than the room is cut, not dropped
  kMdManageRemote = 1 << 3,  ///< the initiator gives the offset; else the MD's own grows
  kMdAckDisable = 1 << 4,    ///< never send an ACK for a PUT into it
  kMdTrack = 1 << 6,         ///< response timeout whatever response_tracking says
  kMdNoTrack = 1 << 5,       ///< no response timeout (docs/wire/lnet.md §10)
  // Bits 7 and 8 are options of the C interface only (control/lib/md_spec.h).
};
inline constexpr uint32_t kInfinite = UINT32_MAX;  ///< threshold that never runs out

/// Registered memory of an MD (dataplane/stages/md_memory.h).
enum class MdMemory : uint8_t {
  kNone,       ///< no driver needs it, or all of it was given back
  kInRegions,  ///< Segment::region says which: a region of the application, or one of this MD alone; 0: none
  kReleasing,  ///< control takes the MD's own regions from the drivers; the slot is control's
};

struct MdOpsTag {};
struct MatchTag {};

/// The end of a portal's list at which an MD is attached.
enum class MePosition : uint8_t { kHead, kTail };

/// Where an MD is attached: match criteria and its place in the list.
struct MatchEntry {
  ProcessId initiator;  ///< ANY nid or pid match all
  uint64_t match_bits = 0;
  uint64_t ignore_bits = 0;
  uint32_t portal = 0;
  int64_t order = 0;  ///< place in the portal's list: smaller is earlier
  bool attached = false;
};

struct Md : Linked<MatchTag>, EventSource {
  Md() : EventSource(Of::kMd) {}
  Segment* segments = nullptr;
  uint32_t segment_count = 0;
  uint32_t length = 0;             ///< sum of the segments
  uint32_t threshold = kInfinite;  ///< operations left
  uint32_t max_size = 0;           ///< unlinks itself when less room than this is left (0 = not)
  uint32_t options = 0;
  uint32_t local_offset = 0;  ///< next byte of an MD that manages its own offset
  void* user_ptr = nullptr;
  uint32_t numa = UINT32_MAX;         ///< NUMA node of the memory; UINT32_MAX: not known
  uint32_t accelerator = UINT32_MAX;  ///< accelerator that holds the memory; UINT32_MAX: none does
  EventQueue* eq = nullptr;           ///< may be null: no events
  MdHandle handle;
  MatchEntry match;
  List<UserMessage, MdOpsTag> ops;  ///< every message that uses it
  int32_t unlink_status = 0;        ///< status of its kUnlink event
  bool bound = false;
  bool gate_closed = false;  ///< unlinked: nothing new may use it; retires when ops is empty
  MdMemory memory = MdMemory::kNone;
  int32_t memory_error = 0;             ///< its memory could not be registered: the MD ends with this errno
  std::array<Segment, 4> own_segments;  ///< written by the submitter before it sends BindCall
  Owed to_control;                      ///< MdRegisterMsg, MdReleaseMsg
};

}  // namespace ulnet
