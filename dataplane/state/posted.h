// Objects that pass between two workers by pointer. While its item lies in a ring, the object belongs to the ring: the
// producer no longer touches it, the consumer not yet. An object that finds the ring full waits in the producer's
// outbox, linked through this base. The sender names the kind, and the kind fixes the type: see PostedAs.
#pragma once
#include <cstdint>
#include <type_traits>

#include "dataplane/base/check.h"
#include "dataplane/base/list.h"

namespace ulnet {

struct Receiving;
struct RxSlot;
struct Tx;

/// The consumer's action on the object. PostedAs<kind> is the object's type.
enum class PostKind : uint8_t {
  kNone,
  kLease,         ///< Tx: home -> serving worker: send this
  kLeaseReturn,   ///< Tx: serving worker -> home: let go of; result in tx.result
  kMatchRequest,  ///< RxSlot: connection's worker -> home: where does it go (held), or: have it (taken)
  kMatchAnswer,   ///< RxSlot: home -> connection's worker: verdict and window are set, or: home is through with it
  kRxDone,        ///< Receiving: connection's worker -> home: payload is in place, or not (rx_result)
};

struct PostTag {};
struct Posted : Linked<PostTag> {
  PostKind post_kind = PostKind::kNone;
};

namespace detail {
template <PostKind>
struct PostedType;
template <>
struct PostedType<PostKind::kLease> : std::type_identity<Tx> {};
template <>
struct PostedType<PostKind::kLeaseReturn> : std::type_identity<Tx> {};
template <>
struct PostedType<PostKind::kMatchRequest> : std::type_identity<RxSlot> {};
template <>
struct PostedType<PostKind::kMatchAnswer> : std::type_identity<RxSlot> {};
template <>
struct PostedType<PostKind::kRxDone> : std::type_identity<Receiving> {};
}  // namespace detail
/// The type of the objects that a kind passes.
template <PostKind kKind>
using PostedAs = typename detail::PostedType<kKind>::type;

/// From worker to worker: an object whose ownership passes. Made by post() and post_back() (dataplane/stages/post.h).
struct PostItem {
  PostKind kind = PostKind::kNone;
  Posted* object = nullptr;
  /// The object. Requires: the item is of this kind; behind a switch over `kind` the check costs nothing.
  template <PostKind kKind>
  [[nodiscard]] PostedAs<kKind>& as() const {
    ULNET_CHECK(kind == kKind);
    return static_cast<PostedAs<kKind>&>(*object);
  }
};
static_assert(sizeof(PostItem) == 16);

}  // namespace ulnet
