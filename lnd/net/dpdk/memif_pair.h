// A control connection of memif, relayed between its client and its server. DPDK's device of this process is one of
// them. The rings lie in memory that the client shares, and packets do not pass here.
//
// DPDK 22.11 unmaps the rings as soon as its connection ends, also while a worker copies from them. And DPDK aborts a
// server whose client goes before it is accepted. So a pair ends in two steps. When one side has closed, the pair is
// ending and both connections stay. After the workers have released the queues, release() ends the device's one first.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ulnet::dpdk {

class MemifPair {
 public:
  enum class Stage : uint8_t {
    kGreeting,   ///< the server has not sent its greeting yet
    kHandshake,  ///< the rings are being described
    kConnected,  ///< the rings may be in use
    kEnding,     ///< one side has closed, or has sent what DPDK would take for an end
    kOver        ///< both connections are closed
  };

  /// Takes the connection to the server. That of the client comes with set_client().
  explicit MemifPair(int server) : server_(server) {}
  ~MemifPair();
  MemifPair(const MemifPair&) = delete;
  MemifPair& operator=(const MemifPair&) = delete;

  [[nodiscard]] Stage stage() const { return stage_; }
  /// The server has greeted, so it has accepted this connection and all earlier ones.
  [[nodiscard]] bool greeted() const { return greeted_; }
  /// The pair is kConnected, or was.
  [[nodiscard]] bool had_rings() const { return had_rings_; }
  /// There is no client, and none has taken the greeting.
  [[nodiscard]] bool wants_client() const { return client_ < 0 && greeting_is_free(); }
  /// Takes the connection of a client. Requires wants_client().
  void set_client(int client) {
    client_ = client;
    shut_ = false;
  }
  /// Closes the connection to the client. If the client has taken the greeting, also that to the server.
  void drop_client();

  /// Passes messages on, as many as have come. True: it did something. Never waits.
  bool turn();
  enum class Side : uint8_t { kServer, kClient };
  /// Ends the connection to DPDK's device, which is this side. True: the device has let go of it. False: call it again
  /// later. Requires that no worker uses the rings.
  bool let_go(Side device);
  /// let_go(), and then closes what is left. True: the pair is over.
  bool release(Side device);
  /// Appends the descriptors that turn() reads.
  void wait_fds(std::vector<int>& out) const;

 private:
  static constexpr size_t kMessageBytes = 128;
  enum class Got : uint8_t { kNothing, kMessage, kEnd };
  struct Message {
    std::array<std::byte, kMessageBytes> bytes{};
    size_t size = 0;
    int fd = -1;  ///< that comes with it; -1 = none
    [[nodiscard]] uint16_t type() const;
  };

  [[nodiscard]] static Got receive(int from, Message& out);
  /// Closes the descriptor of the message. False: the other side is over, or does not read.
  [[nodiscard]] static bool send(int to, Message& message);
  [[nodiscard]] bool greeting_is_free() const {
    return stage_ == Stage::kGreeting || (stage_ == Stage::kHandshake && greeting_.size != 0);
  }
  bool greeting_turn();
  bool handshake_turn();
  bool pass(int from, int to);
  void close();

  int server_;
  int client_ = -1;
  Stage stage_ = Stage::kGreeting;
  bool greeted_ = false;
  bool had_rings_ = false;
  bool shut_ = false;        // the device's connection, for what we send
  bool connecting_ = false;  // the client's next message is read after the server's answer: DPDK would unmap the rings
  Message greeting_;         // of the server, until a client takes it; size 0 = none
};

}  // namespace ulnet::dpdk
