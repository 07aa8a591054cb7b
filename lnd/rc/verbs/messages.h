// Messages between control and the CM thread. Rings keep their order.
#pragma once
#include <rdma/rdma_cma.h>

#include <array>
#include <type_traits>

#include "lnd/rc/rc.h"

namespace ulnet::rc::verbs {

enum class OrderKind : uint8_t {
  kListen,
  kUnlisten,
  kDial,
  kPrepare,
  kReject,
  kProceed,
  kGiveUp,
  kDisconnect,
  kDestroy
};
/// From control.
struct Order {
  OrderKind kind = OrderKind::kListen;
  ConnId conn = 0;
  ListenerId listener = 0;                      ///< kUnlisten: 0, if it has failed to open
  uint64_t opening = 0;                         ///< kListen, kUnlisten: listener_context() has it; no event is earlier
  ibv_device* device = nullptr;                 ///< kListen
  uint8_t port = 0;                             ///< kListen: of the device
  rdma_cm_id* id = nullptr;                     ///< kDial: the CM thread's from now on
  uint32_t route_ms = 0;                        ///< kDial
  QpNeeds needs;                                ///< kDial, kPrepare
  uint8_t bytes = 0;                            ///< of `data`
  std::array<std::byte, kReplyDataMax> data{};  ///< kReject, kProceed
};
static_assert(std::is_trivially_copyable_v<Order>);

/// A device, as it was when a kDevice was sent.
struct DeviceFacts {
  std::array<char, 64> name{};
  bool usable = false;
  bool gone = false;  ///< lost, or it cannot be opened: its listener is opened again
  bool keys_end = false;
  LinkSpeed speed;
  uint16_t path_mtu = 0;
  const char* why_not = "";  ///< static: why it is not usable, other than its port
};
/// From the CM thread.
struct News {
  Event event;
  DeviceFacts device;  ///< kDevice
};
static_assert(std::is_trivially_copyable_v<News>);

inline constexpr uint32_t kOrdersMax = 256;  ///< in the ring; more wait in control
inline constexpr uint32_t kNewsMax = 256;    ///< in the ring; the CM thread reads no further event while more wait

}  // namespace ulnet::rc::verbs
