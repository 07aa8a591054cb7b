// The control half of the verbs provider: it begins connections, keeps their time limits, and passes the rest to the CM
// thread. Thread: control.
#pragma once
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "lnd/rc/verbs/cm_ctl.h"

namespace ulnet::rc::verbs {

class VerbsControl final : public Control {
 public:
  explicit VerbsControl(CmThread& cm) : cm_(cm) {}
  ~VerbsControl() override;
  [[nodiscard]] Result<ListenerId> listen(const Endpoint& at) override;
  void unlisten(ListenerId id) override;
  [[nodiscard]] Device device(ListenerId id) const override;
  [[nodiscard]] Result<ConnId> dial(const DialSpec& spec, Instant now) override;
  void prepare(ConnId id, const QpNeeds& needs, Instant now) override;
  void reject(ConnId id, std::span<const std::byte> private_data, Instant now) override;
  void proceed(ConnId id, std::span<const std::byte> private_data, Instant now) override;
  void disconnect(ConnId id, Instant now) override;
  void destroy(ConnId id, Instant now) override;
  [[nodiscard]] Result<void> region_add(RegionId region, std::span<std::byte> memory) override {
    return cm_.region_add(region, memory);
  }
  void region_remove(RegionId region) override { cm_.region_remove(region); }
  unsigned poll(std::span<Event> out, Instant now) override;
  [[nodiscard]] Instant next_deadline() override;
  void wait_fds(std::vector<int>& out) override { out.push_back(cm_.news_signal().fd()); }

 private:
  struct Conn {
    Endpoint remote;
    ListenerId listener = 0;
    Instant until = kForever;  ///< of an attempt to connect
    bool over = false;         ///< nothing more is reported
    bool settled = false;      ///< kEstablished or kFailed was reported
  };
  struct Listener {
    Endpoint at;
    rdma_cm_id* id = nullptr;  ///< null while the device is gone
    Instant again = kForever;  ///< when to open it again
    Duration pause = 2s;       ///< before that, if a device was found and is gone; it doubles
    bool known = false;        ///< `facts` have come
    DeviceFacts facts;
  };
  [[nodiscard]] int open(ListenerId number, Listener& listener);
  void open_again(Instant now);
  void order(const Order& order);
  void orders_again();
  void time_out(Instant now);
  void hear(const News& news, Instant now);
  void limit(Conn& conn, ConnId id, Instant until);
  void no_limit(Conn& conn, ConnId id);

  CmThread& cm_;
  std::map<ListenerId, Listener> listeners_;
  std::map<ConnId, Conn> conns_;
  std::set<std::pair<Instant, ConnId>> limits_;
  std::deque<Order> waiting_;  ///< the ring is full
  std::deque<Event> events_;
  ListenerId last_listener_ = 0;
  uint64_t last_opening_ = 0;
  ConnId last_conn_ = 0;
};

}  // namespace ulnet::rc::verbs
