// A whole node with o2iblnd in the place of a kernel in a capture of o2ib. The provider is scripted (scripted_rc.h).
// The CM messages, messages and RDMA writes of the kernel's partners go in as captured. All deeds of our node are
// compared with those of the kernel on the same connection, byte for byte. o2ib_twin.h lists the fields that may
// differ. Each event of a partner waits until our node has done all that the kernel had done before. LNet messages over
// tcp go in without a driver, as in message_place.h. Single thread, virtual time.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dataplane/base/check.h"
#include "tests/cluster/delayed_helper.h"
#include "tests/replay/message_lnd.h"
#include "tests/replay/o2ib_puppet.h"
#include "tests/replay/o2ib_twin.h"

namespace ulnet::test {

struct O2ibPlaceSpec {
  std::vector<std::string> nids;
  int peer_credits = 8;
  int64_t timeout = 50;       ///< s, of transmissions
  int64_t router_check = 60;  ///< s
  bool routing = false;
  std::vector<std::pair<std::string, std::string>> routes{};  ///< net, gateway
};

class O2ibPlace {
 public:
  explicit O2ibPlace(const O2ibPlaceSpec& spec);
  ~O2ibPlace();
  O2ibPlace(const O2ibPlace&) = delete;
  O2ibPlace& operator=(const O2ibPlace&) = delete;

  /// The partners begin. Connections that are open before the file begins are those of the last play(), or are made.
  void play(O2ibScript script);
  /// Pings and discoveries of our node go to this NID, not to that in their first message.
  void ping_instead(const std::string& nid);
  /// The node pings this NID by itself: the test and the puppet do not.
  void pings_by_itself(const std::string& nid);
  void ping(const std::string& nid);
  /// From now on, the test answers requests of LNet itself that the capture does not have. The answer to a ping is the
  /// ping info of its target; a push gets an ACK. An empty map ends that. For the time before a file that begins later.
  void answer_others(std::map<Nid, std::vector<std::byte>> ping_infos) { ping_infos_ = std::move(ping_infos); }
  void discover(const std::string& nid);
  /// Operations of our node do not complete, as if the partner's machine is gone.
  void partners_silent(bool on) { rc_.silent = on; }
  void apply(config::ChangeList changes);
  [[nodiscard]] size_t known_nids(const std::string& nid);

  void run_for(Duration time);
  /// Until all is played and our node has done all that the kernel did, and a while longer.
  void run_to_the_end(Duration limit = 60s);
  /// The same until the partner's or our event with this number is done.
  bool run_until_done(size_t event, Duration limit = 60s);
  /// "" when our node did exactly what the kernel did.
  [[nodiscard]] std::string difference();
  [[nodiscard]] const O2ibScript& script() const { return script_; }
  /// Events of the kernel that were compared: CM, messages, writes.
  [[nodiscard]] size_t compared() const { return compared_; }
  [[nodiscard]] unsigned failed_pings() const { return puppet_->failed_pings(); }
  [[nodiscard]] Instant now() const { return now_; }

 private:
  using Kind = O2ibEvent::Kind;
  [[nodiscard]] bool is_ours(uint32_t address) const { return addresses_.contains(address); }
  /// Whether our node's deeds or messages show the event.
  [[nodiscard]] bool is_seen(const O2ibEvent& event) const;
  [[nodiscard]] bool done_before(size_t event) const;
  void find_due();
  void open_mid();
  void open_mid(size_t link, uint64_t their_stamp);
  bool send_due();
  bool deliver();
  bool deliver(const O2ibEvent& event);
  bool deliver_tcp(const ReplayMessage& message);
  void take_deeds();
  void take(const RcDeed& deed);
  void take_tcp(const WireMessage& message);
  [[nodiscard]] std::optional<size_t> link_of(const RcDeed& deed);
  /// answer_others(). False: the message is no request of LNet.
  bool answer(const RcDeed& deed);
  bool answer_tcp(const WireMessage& message);
  [[nodiscard]] std::string where(size_t event) const;
  unsigned turn();
  void step();

  const O2ibPlaceSpec spec_;
  Instant now_{1h};
  DelayedHelper helper_;
  ScriptedRc rc_;
  std::vector<Nid> ours_;
  std::set<uint32_t> addresses_;
  std::vector<std::byte> staging_;
  std::vector<WireMessage> sent_tcp_;
  size_t tcp_taken_ = 0;
  MessageControl* tcp_control_ = nullptr;
  MessageLnd* tcp_lnd_ = nullptr;
  std::unique_ptr<Node> node_;
  std::unique_ptr<O2ibTwin> twin_;
  std::unique_ptr<O2ibPuppet> puppet_;
  Nid ping_;
  std::set<Nid> by_itself_;

  O2ibScript script_;
  std::vector<bool> done_;
  struct Due {
    size_t event;   ///< a request of our node
    size_t before;  ///< the node sends it when all before this event are done
  };
  std::vector<Due> due_;
  std::map<Nid, std::vector<std::byte>> ping_infos_;
  std::vector<rc::ConnId> conns_;                             ///< by link; 0: none yet
  std::map<std::pair<uint32_t, uint32_t>, rc::ConnId> open_;  ///< the last connection of two addresses: ours, theirs
  std::set<rc::ConnId> ignored_;                              ///< their set-up is made
  std::vector<bool> mid_;                                     ///< by link
  Instant moved_ = kNever;
  size_t compared_ = 0;
  std::string wrong_;
};

}  // namespace ulnet::test
