// The control connections of a memif port. DPDK's device is connected to the relay, and the relay to the other process.
// If that goes, the queues are stopped before DPDK unmaps the rings: see memif_pair.h. Thread: control. Only make() and
// let_go() may wait.
#pragma once
#include <memory>

#include "dataplane/base/problem.h"
#include "dataplane/base/time.h"
#include "lnd/net/dpdk/memif_pair.h"
#include "lnd/net/dpdk/memif_socket_ctl.h"

namespace ulnet::dpdk {

class MemifRelay {
 public:
  enum class Answer : uint8_t { kNone, kGreeted, kNoServer };
  static constexpr size_t kPairsMax = 8;
  /// A client of this process has so much time for its handshake.
  static constexpr Duration kHandshakePatience = 10s;

  /// A server listens where `device` says. Errors: EADDRINUSE, or another one of bind(2).
  [[nodiscard]] static Checked<std::unique_ptr<MemifRelay>> make(const DeviceSpec& device);
  ~MemifRelay();
  MemifRelay(const MemifRelay&) = delete;
  MemifRelay& operator=(const MemifRelay&) = delete;

  /// The device for DPDK: as that of make(), but at the relay's socket.
  [[nodiscard]] const DeviceSpec& device() const { return device_; }
  [[nodiscard]] bool is_client() const { return is_client_; }

  /// Does the server of a client answer? Connects if there is no connection, and looks for the greeting. kNone: call it
  /// again later. Requires: DPDK's device is closed, or has not been opened.
  [[nodiscard]] Answer ask_server();

  /// Accepts connections and passes messages on. True: it did something.
  bool turn(Instant now);
  /// The rings are in use, and neither side is over.
  [[nodiscard]] bool connected() const;
  /// A side has closed: the workers must release the queues, then release() is due.
  [[nodiscard]] bool ending() const;
  /// Ends what is ending: DPDK's server unmaps the rings. True: it has done so. Requires: no worker uses the queues.
  bool release();
  /// Ends all connections of DPDK's device, and waits until the device has let go of them, at most a second. Otherwise
  /// DPDK's thread may still use a device that is being closed. Requires: no worker uses the queues.
  void let_go();
  /// A client has lost its server, or its server has never greeted: ask_server() connects again. A server that has
  /// refused the client would do so again at once.
  [[nodiscard]] bool server_lost() const;
  /// Appends the descriptors that turn() reads.
  void wait_fds(std::vector<int>& out) const;

 private:
  struct Kept {
    std::unique_ptr<MemifPair> pair;
    Instant until;  // when the handshake must be done
  };
  MemifRelay() = default;
  [[nodiscard]] bool accept_device();
  [[nodiscard]] bool accept_peer(Instant now);
  [[nodiscard]] int accept();  // -1: none

  DeviceSpec device_;
  bool is_client_ = false;
  MemifAddress server_;      // of another process, or of DPDK's device
  MemifAddress own_;         // a server's, for other processes
  int listen_ = -1;          // for DPDK's client, or for other processes
  int reserved_ = -1;        // keeps the name of a server's device unique
  int accepted_ = -1;        // another process, until DPDK's device takes the connection for it
  bool accepts_ = true;      // without a free descriptor, listen_ stays readable
  std::vector<Kept> pairs_;  // a client has at most one
};

}  // namespace ulnet::dpdk
