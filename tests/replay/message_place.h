// A whole node in the place of a kernel, for LNet's own messages only. The messages of the kernel's partners go in
// message by message, from any network. The node's messages are compared with the kernel's, separately for each pair of
// NIDs. For captures of networks whose driver is not under test. Single thread, virtual time.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "control/node.h"
#include "tests/replay/message_lnd.h"
#include "tests/replay/pieces.h"
#include "tests/script/replay.h"

namespace ulnet::test {

class MessagePlace {
 public:
  explicit MessagePlace(const std::vector<std::string>& nids);
  ~MessagePlace();
  MessagePlace(const MessagePlace&) = delete;
  MessagePlace& operator=(const MessagePlace&) = delete;

  /// Plays the messages in `messages` (in order of time) that came to our NIDs. Each of them waits until our node has
  /// sent as many messages as the kernel had before it, or for 2 s.
  void play(std::vector<ReplayMessage> messages);
  /// `net del --now` of one of our NIs, until it is gone.
  void delete_now(const std::string& nid);
  int32_t discover_and_wait(const std::string& nid);
  int32_t ping_and_wait(const std::string& nid);
  [[nodiscard]] size_t known_nids(const std::string& nid);
  void run_for(Duration time);
  /// Until all is played, and a while longer.
  void run_to_the_end();
  /// "" when our node sent what the kernel did.
  [[nodiscard]] std::string difference() const;

 private:
  using Pair = std::pair<Nid, Nid>;
  void apply(config::ChangeList changes);
  [[nodiscard]] bool is_ours(const Nid& nid) const;
  bool deliver_next();
  void echo_handle(wire::Header& header) const;
  unsigned turn();
  void step();

  std::vector<Nid> ours_;
  Instant now_{1h};
  std::vector<WireMessage> sent_;
  std::vector<MessageControl*> controls_;
  std::vector<MessageLnd*> lnds_;
  std::unique_ptr<Node> node_;
  std::vector<ReplayMessage> messages_;
  size_t next_ = 0;
  size_t ours_before_ = 0;  // of the kernel's messages before messages_[next_]
  unsigned forced_ = 0;
  Instant moved_ = kNever;
};

}  // namespace ulnet::test
