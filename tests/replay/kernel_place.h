// A whole node in the place of a kernel. The messages of the kernel's partner in a capture go in over simulated TCP, by
// sequence. The node's bytes are kept per connection and compared with those of the kernel. REPLYs and ACKs of the
// partner carry the handles of our node. All other bytes go in as captured. Single thread, virtual time.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/cluster/sim_net.h"
#include "tests/replay/pieces.h"
#include "tests/script/replay.h"

namespace ulnet::test {

class KernelPlace {
 public:
  /// Our node is `spec`; the replay plays everything that `theirs` did in the capture.
  KernelPlace(const NodeSpec& spec, std::vector<IpAddress> theirs);
  ~KernelPlace();
  KernelPlace(const KernelPlace&) = delete;
  KernelPlace& operator=(const KernelPlace&) = delete;

  /// The partners begin. A former replay ends with all its sockets, as if they had rebooted.
  /// `by_time`: they do nothing before its time in the capture either.
  void play(Capture capture, bool by_time = false);
  /// The partners are gone: nothing listens at their addresses, sockets that were theirs are unknown.
  void partners_dead();
  /// The partners are held back at the wire, as when their machine is frozen; or no longer.
  void partners_silent(bool on);
  /// Our machine has this address too, without LNet: it refuses connections there. Before play().
  void has_address_without_lnet(const IpAddress& address);

  void ping(const std::string& nid, Duration timeout = 60s) { node_->ping(nid, timeout); }
  /// Pings and runs until the ping has ended. Returns the answer's error.
  int32_t ping_and_wait(const std::string& nid, Duration timeout = 60s);
  [[nodiscard]] bool ping_ended() { return node_->ping_answer().has_value(); }
  [[nodiscard]] int32_t ping_error() { return node_->ping_answer()->error; }

  /// Discovers the peer with this NID and runs until discovery has ended. Returns the error.
  int32_t discover_and_wait(const std::string& nid);
  /// Number of NIDs that our node has of the peer with this one.
  [[nodiscard]] size_t known_nids(const std::string& nid);
  [[nodiscard]] Node& node() { return node_->node(); }
  /// Called in each turn: the application above LNet in the kernel's place.
  std::function<void()> application;
  [[nodiscard]] int health(const std::string& peer_nid);
  /// The link of an NI of our node goes down or comes up.
  void link(const std::string& nid, bool up);
  void apply(std::vector<config::Change> changes) { node_->apply(std::move(changes)); }

  void run_for(Duration time);
  template <class P>
  bool run_until(P&& predicate, Duration limit) {
    const Instant end = net_.now() + limit;
    while (!predicate()) {
      if (net_.now() >= end) return false;
      turn(end);
    }
    return true;
  }
  /// Runs until all is played and our node has sent as much as the kernel, then a while longer for what is too much.
  void run_to_the_end(Duration limit = 60s);

  /// "" when our node sent and closed on every connection as the kernel did. A mask's NIDs are filled in here.
  [[nodiscard]] std::string difference(Mask mask = {}) const { return difference(capture_, mask); }
  /// The same against another capture with the same connections.
  [[nodiscard]] std::string difference(const Capture& kernel, Mask mask) const;
  [[nodiscard]] const Replay& replay() const { return *replay_; }
  [[nodiscard]] const Capture& capture() const { return capture_; }
  /// Connections dialled so far, by either side, answered or not.
  [[nodiscard]] size_t dials() { return net_.tcp().connections.size(); }
  /// Our node's own pings in the capture.
  [[nodiscard]] size_t pings() const;
  [[nodiscard]] std::vector<Nid> ours() const;

 private:
  struct Place {
    size_t conversation, at;
  };
  void turn(Instant limit);
  void find_handles();
  void echo_handles(ReplayConnection& connection, std::vector<std::byte>& bytes);
  [[nodiscard]] bool all_sent() const;

  const NodeSpec spec_;
  const std::vector<IpAddress> theirs_;
  SimNet net_;
  SimNode* node_;
  std::unique_ptr<NetIo> dead_;
  std::vector<std::unique_ptr<NetIo>> without_lnet_;
  Capture capture_;
  std::unique_ptr<Replay> replay_;
  std::map<std::pair<size_t, size_t>, Place> echoes_;  ///< where the partner's handle is, and where ours that it echoes
  std::map<size_t, size_t> played_;                    ///< bytes of the partner's stream by conversation
};

}  // namespace ulnet::test
