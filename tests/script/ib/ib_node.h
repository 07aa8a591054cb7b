// Both halves of o2iblnd with a fake core and a fake control of the node.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/rng.h"
#include "lnd/o2iblnd/ib_lnd_ctl.h"
#include "lnd/o2iblnd/o2iblnd.h"
#include "tests/script/ib/ib_core.h"

namespace ulnet::test {

struct IbNodeOptions {
  o2iblnd::IbConfig config{.incarnation = 0};  ///< 0: that of ib_stamp()
  int32_t peer_credits = kDepth;
  std::vector<int64_t> tunables;
  Nid nid = kAnyNid;                             ///< ANY: ib_nid()
  std::optional<std::vector<int64_t>> settings;  ///< in place of `config`: the driver makes both halves
};

class IbNode final : public IbCore, public LndControlHost {
 public:
  IbNode(IbNet& net, unsigned number, const IbNodeOptions& options = {});
  ~IbNode();

  // LndControlHost
  void to_worker(WorkerId, const LndMsg& msg) override { for_worker.push_back(msg); }
  Result<PeerPlace> place_peer(const Nid& nid, NiId from) override;
  void ni_stopped(NiId) override { stopped = true; }
  void ni_fatal(NiId, bool is_fatal) override {
    fatal = is_fatal;
    ++reports;
  }
  void peer_up(PeerNiId peer_ni) override { ups.push_back(peer_ni.value - kPeerNi.value); }
  void peer_down(PeerNiId peer_ni, int error) override { downs.push_back({peer_ni.value - kPeerNi.value, error}); }
  void peer_left(PeerNiId) override { ++left; }
  void log(const std::string& line) override { logged.push_back(line); }
  unsigned worker_count() const override { return 1; }
  Rng& rng() override { return rng_; }

  void start();
  void stop() { control->ni_stop(NiId{1}, now); }
  [[nodiscard]] bool idle() const { return lnd->idle() && control->ni_connections(NiId{1}) == 0; }

  std::unique_ptr<Driver> driver;  ///< with IbNodeOptions::settings
  std::unique_ptr<o2iblnd::IbLndControl> control;
  bool stopped = false, fatal = false, no_place = false;
  unsigned reports = 0;  ///< of ni_fatal()
  std::vector<unsigned> ups;
  std::vector<std::pair<unsigned, int>> downs;
  unsigned left = 0;
  std::vector<std::string> logged;

 private:
  void control_turn() override {
    if (!late()) control->turn(now);
  }
  void from_worker(const LndMsg& msg) override { control->from_worker(WorkerId{0}, msg, now); }
  NiParams params_;
  Rng rng_{3};
};

}  // namespace ulnet::test
