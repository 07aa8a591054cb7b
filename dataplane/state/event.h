// Events for a user of the library. Each accepted put or get ends in exactly one event with `final` set. Each MD that
// has an event queue ends in exactly one kUnlink, after which its memory is the user's again. A closed submitter gets
// no further events. A user of the library holds handles. A handle names the worker that owns the object, so that an
// operation sent to another worker is refused (EXDEV) without a message between workers.
#pragma once
#include <compare>
#include <cstdint>

#include "dataplane/base/nid.h"

namespace ulnet {

/// A user-visible handle. Generation 0 is never valid. `submitter` numbers the submitter on its worker whose slots
/// these are.
template <class Tag>
struct PtlHandle {
  uint16_t worker = 0xFFFF;
  uint16_t submitter = 0;
  uint32_t index = 0;
  uint32_t generation = 0;
  constexpr auto operator<=>(const PtlHandle&) const = default;
  [[nodiscard]] constexpr bool valid() const { return generation != 0; }
};
/// A memory descriptor: memory, how often and how it may be used, and where its events go.
using MdHandle = PtlHandle<struct MdTag>;
/// An event queue.
using EqHandle = PtlHandle<struct EqTag>;

enum class EventKind : uint8_t {
  kPut,     ///< a PUT has arrived in one of my MDs
  kGet,     ///< a GET has been served from one of my MDs
  kReply,   ///< my get has its data (final)
  kAck,     ///< my acknowledged put is in its place (final)
  kSend,    ///< my put without ACK has left (final): no proof of delivery
  kUnlink,  ///< the MD is gone
};

/// One event. Lengths and offsets in bytes.
struct Event {
  EventKind kind = EventKind::kUnlink;
  bool final = false;  ///< the one event that ends a put() or get()
  int32_t status = 0;  ///< 0, or negative errno of the failure (ETIMEDOUT, EHOSTUNREACH, ECANCELED, ...)
  uint32_t portal = 0;
  uint32_t rlength = 0;  ///< requested
  uint32_t mlength = 0;  ///< moved
  uint32_t offset = 0;   ///< where in the MD
  uint32_t initiator_pid = 0;
  uint64_t match_bits = 0;
  uint64_t hdr_data = 0;
  uint64_t user_data = 0;    ///< given to put() or get()
  void* user_ptr = nullptr;  ///< given to md_bind()
  MdHandle md;
  Nid initiator;  ///< primary NID of the node that started the operation
  Nid source;     ///< its NID as it stands in the message
  Nid sender;     ///< the last hop: a router, or the source itself
  Nid target;     ///< the NID of mine that it came to, or the NID that I sent to and that did not answer
};

}  // namespace ulnet
