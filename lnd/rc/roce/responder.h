// The responding half of a queue pair: which request is taken, where its bytes go, and which answer the peer gets. The
// caller copies the payload. No I/O. Thread: the worker of the queue pair. Source: docs/wire/roce.md §5.
#pragma once
#include <memory>
#include <optional>

#include "lnd/rc/rc.h"
#include "lnd/rc/roce/counts.h"
#include "lnd/rc/roce/keys.h"
#include "lnd/rc/roce/proto/headers.h"

namespace ulnet::rc::roce {

struct ResponderConfig {
  uint32_t receives = 0;      ///< receive buffers
  uint32_t buffer_bytes = 0;  ///< of each
  std::byte* memory = nullptr;
  uint32_t mtu = 1024;
  Psn first;
};

/// Where the payload of a packet goes.
struct Spot {
  std::byte* at = nullptr;
  KeptList* list = nullptr;  ///< if it takes the packet, the payload stays there
};

/// A message that is complete.
struct Received {
  uint32_t buffer = 0, bytes = 0;
};

/// For the peer.
struct Answer {
  Aeth aeth;
  Psn psn;
};

class Responder {
 public:
  /// Allocates: made on the control thread. `keys` and `counts` outlive this.
  Responder(const ResponderConfig& config, const KeyTable& keys, Counts& counts);

  /// Posts a receive buffer. Requires: it is not posted.
  void receive(uint32_t buffer);

  /// The place of this packet's payload, with payload_bytes; nothing: the packet is dropped. An answer may be due in
  /// either case. Requires: PacketKind::kRequest or kRefused, and its ICRC is right.
  [[nodiscard]] std::optional<Spot> place(const Packet& packet);
  /// The payload is in its place. True: the packet completes a message, which is described in `out`.
  [[nodiscard]] bool taken(const Packet& packet, Received& out);

  /// The answer that is due: one for all requests since the last. Requires: answer_due().
  [[nodiscard]] Answer answer() const;
  /// The answer is on its way.
  void answered();
  /// False: the peer waits for none.
  [[nodiscard]] bool answer_due() const { return due_.has_value(); }
  /// The number of the next packet.
  [[nodiscard]] Psn expected() const { return expected_; }
  /// Not kNone: the queue pair has refused a request, and takes no other. If that one comes again, it is refused again.
  [[nodiscard]] Cause failure() const { return failure_; }

 private:
  /// The operation whose middle is to come.
  struct Current {
    bool open = false;
    bool write = false;
    uint32_t done = 0;     ///< bytes
    uint32_t buffer = 0;   ///< of a SEND
    uint64_t address = 0;  ///< of a WRITE
    uint32_t key = 0, bytes = 0;
  };
  std::nullopt_t refuse(Verdict why);
  [[nodiscard]] std::optional<Spot> place_send(const Packet& packet);
  [[nodiscard]] std::optional<Spot> place_write(const Packet& packet);

  const ResponderConfig config_;
  const KeyTable& keys_;
  Counts& counts_;
  const uint64_t buffer_mask_;           ///< of the ring
  std::unique_ptr<uint32_t[]> buffers_;  ///< posted, a ring of a power of two
  uint64_t buffers_head_ = 0, buffers_tail_ = 0;
  Psn expected_;
  uint32_t msn_ = 0;
  Current current_;
  bool nak_sent_ = false;       ///< for the packet `expected_`
  std::optional<Verdict> due_;  ///< of the answer that is due
  Cause failure_ = Cause::kNone;
  Verdict refusal_ = Verdict::kAck;  ///< with which it failed
};

}  // namespace ulnet::rc::roce
