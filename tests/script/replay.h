// Plays one party of a captured conversation into the simulated TCP, and collects the bytes that the node under test
// sends on each connection. The node takes the other party's place. The replay goes by sequence, so timing and
// segmentation may differ from the capture. A step waits until the node has sent on that connection as many bytes as
// the other party had sent by then. A connection that is open before the capture begins gets a made-up handshake.
// Single thread, virtual time.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/wire/header.h"
#include "tests/cluster/sim_tcp.h"
#include "tests/wire/pcap.h"

namespace ulnet::test {

struct ReplayOptions {
  std::vector<IpAddress> theirs;        ///< addresses that the replay plays
  Net net = Net::of(NetType::kTcp, 0);  ///< of made-up handshakes
  bool by_time = false;                 ///< also not before the time of the capture
  Duration patience = 5s;               ///< after this time without progress, the next step is forced, and counted
};

/// One connection of the capture in which the replay plays a side.
struct ReplayConnection {
  const TcpConversation* captured = nullptr;
  Side theirs = Side::kDialler;
  std::vector<std::byte> sent;  ///< by the node under test (a made-up handshake not included)
  bool opened = false;
  enum class End : uint8_t { kOpen, kFin, kReset, kRefused };
  End end = End::kOpen;  ///< how the node under test ended it

  [[nodiscard]] std::vector<std::byte> expected() const { return captured->stream(other(theirs)); }
  [[nodiscard]] std::string name() const { return captured->dialler.text() + ">" + captured->passive.text(); }

  // The replay's own.
  uint32_t socket = 0;
  bool established = false;
  bool closed = false;
  size_t skip = 0;  ///< bytes of a made-up HELLO that the node has yet to send
  std::vector<std::byte> out;
};

class Replay {
 public:
  /// `capture` outlives the replay.
  Replay(SimTcp& tcp, const Capture& capture, ReplayOptions options);
  /// Plays the steps that are due; false if none was.
  bool turn(Instant now);
  [[nodiscard]] bool done() const { return next_ == steps_.size(); }
  /// True when all connections that are open before the capture begins are open here, too.
  [[nodiscard]] bool started() const;
  /// Steps that were played although the node had not sent what the capture has before them.
  [[nodiscard]] unsigned forced() const { return forced_; }
  /// In words: the step that the replay waits for.
  [[nodiscard]] std::string waiting() const;
  [[nodiscard]] const std::vector<std::unique_ptr<ReplayConnection>>& connections() const { return connections_; }
  /// Connections that the node opened and the capture does not have.
  [[nodiscard]] unsigned unexpected() const { return unexpected_; }
  /// Called before bytes of the played party leave; may change them (handles to be echoed, for example).
  std::function<void(ReplayConnection&, std::vector<std::byte>&)> rewrite;

 private:
  struct Step {
    ReplayConnection* connection;
    const TcpEvent* event;
    size_t ours_before;  ///< bytes of the other party on this connection before it
    bool ended_before;   ///< the other party had sent FIN or RST
  };
  void open_mid(ReplayConnection& connection);
  [[nodiscard]] bool ready(const Step& step) const;
  void play(const Step& step);
  void dial(ReplayConnection& connection);
  void accepted(const NetEvent& event);
  bool move_bytes(ReplayConnection& connection);

  SimTcp& tcp_;
  const ReplayOptions options_;
  std::unique_ptr<NetIo> net_;
  std::vector<std::unique_ptr<ReplayConnection>> connections_;
  std::vector<Step> steps_;
  size_t next_ = 0;
  unsigned forced_ = 0;
  unsigned unexpected_ = 0;
  Instant began_ = kNever;
  Instant moved_ = kNever;
};

/// A message that the captured party sent: for puppets that make the node under test send the same.
struct ReplayMessage {
  size_t connection = 0;  ///< index of the conversation in the capture
  Nid from, to;           ///< of the connection
  Duration began{};       ///< when its first byte was captured
  wire::Header decoded;
  std::vector<std::byte> payload;
};
/// All LNet messages of one party, in the order of their first bytes.
[[nodiscard]] std::vector<ReplayMessage> replay_messages(const Capture& capture, const std::vector<IpAddress>& party,
                                                         Net net = Net::of(NetType::kTcp, 0));

[[nodiscard]] IpAddress ip_of(const TcpAddress& address);

}  // namespace ulnet::test
