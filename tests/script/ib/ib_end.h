// The worker half of o2iblnd with a control half without rules: it connects to whom the worker names, and accepts
// everybody.
#pragma once
#include "tests/script/ib/ib_core.h"

namespace ulnet::test {

class IbEnd final : public IbCore {
 public:
  IbEnd(IbNet& net, unsigned number, const o2iblnd::IbConfig& config = {}, unsigned staging_blocks = 1);
  ~IbEnd();
  [[nodiscard]] bool idle() const { return lnd->idle() && conns.empty(); }
  struct ConnCtl {
    std::unique_ptr<o2iblnd::Conn> conn;
    o2iblnd::ConnFacts facts;
    bool active = false, up = false, closed = false;
  };
  std::map<rc::ConnId, ConnCtl> conns;
  int64_t peers_dialled = 0, conns_ended = 0, withdrawn = 0;
  std::vector<std::pair<o2iblnd::PeerFault, int>> faults;  ///< of peers, each with the error of its connection

 private:
  void control_turn() override;
  void from_worker(const LndMsg& msg) override;
  void dial(unsigned to);
  void on(const rc::Event& event);
  rc::ListenerId listener_ = 0;
};

}  // namespace ulnet::test
