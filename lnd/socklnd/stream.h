// Byte streams as the worker half of socklnd drives them: completion based, one engine per worker and Node. Engines:
// io_uring, epoll (where io_uring is forbidden), and the simulated TCP of the tests. The worker half uses no other I/O
// than this.
#pragma once
#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "dataplane/base/result.h"
#include "dataplane/base/time.h"
#include "dataplane/state/kept.h"

namespace ulnet::socklnd {

/// The socket of a connection that control places: a file descriptor, or the number of a simulated socket.
struct StreamSource {
  int64_t number = -1;
};

/// One stream of an engine: a slot number with a generation.
struct StreamId {
  uint32_t index = UINT32_MAX;
  uint32_t generation = 0;
};

/// Bytes on their way from one stream to another, without memory of this process between them. One belongs to the
/// engine that gave it until its PipedPayload is given back there. Engines of one kind on other workers may send from
/// it.
class StreamPipe : public PipedPayload {
 public:
  uint32_t place = 0;  ///< of its first byte in the payload; the receiver's
  /// Bytes that were moved in since it was taken.
  [[nodiscard]] uint32_t bytes() const { return in_; }
  [[nodiscard]] bool begun() const final { return out_ > 0; }

 protected:
  ~StreamPipe() = default;
  uint32_t in_ = 0;   ///< bytes moved in
  uint32_t out_ = 0;  ///< of them sent
};

enum class StreamEventKind : uint8_t { kReceived, kSent, kClosed };

/// Event kReceived: `result` > 0 bytes, 0 end of stream, < 0 negative errno (ECANCELED after cancel_receive and after
/// close).
/// Event kSent: `result` > 0 is exactly how many bytes the transport has taken, from the first on. This holds whatever
/// ended the send: an error, a reset, close(). If `result` < 0 (negative errno), the transport has taken none. The
/// caller decides by this number which messages may go out again.
/// Event kClosed: the engine has released everything, and the id is invalid.
/// The test tests/script/stream_contract_test.cc holds each engine to this.
struct StreamEvent {
  StreamEventKind kind;
  int32_t result = 0;
  void* owner = nullptr;
};

class StreamEngine {
 public:
  virtual ~StreamEngine() = default;
  /// Takes the source over. `owner` comes back in each event. Errors: ENOSPC when all stream slots are in use (the
  /// source stays the caller's).
  [[nodiscard]] virtual Result<StreamId> attach(StreamSource source, void* owner) = 0;
  /// Receives what comes, at least one byte, into the pieces (at most kStreamPieces; copied, the memory they name is
  /// not). One receive per stream at a time; memory is the engine's until kReceived. `transfer`: the size of the
  /// payload of which the receive gets a part; 0: it waits for the next message.
  virtual void receive(StreamId id, std::span<const iovec> pieces, uint32_t transfer) = 0;
  /// Cancels a receive under way, to get its memory back: kReceived follows, with the bytes that came or ECANCELED.
  virtual void cancel_receive(StreamId id) = 0;
  /// Sends; kSent may report fewer bytes than given. One send per stream at a time; memory is the engine's until kSent.
  /// An engine may keep the send until all of it has gone: give no more than may be reported late. `more` hints that
  /// another send follows at once.
  virtual void send(StreamId id, std::span<const iovec> pieces, bool more) = 0;
  /// Sends, as send() does. The transport may read the memory later, instead of copying. So nobody changes it until the
  /// peer says that it has the bytes, or until close() with a reset.
  virtual void send_lent(StreamId id, std::span<const iovec> pieces, bool more) { send(id, pieces, more); }
  /// An empty pipe; null if the engine has none, or none left.
  [[nodiscard]] virtual StreamPipe* pipe_take() { return nullptr; }
  /// Moves what comes into the pipe, at least one byte and at most `most`. As a receive, but for one more result:
  /// ENOSPC says that the pipe is full, though bytes have come. Requires that the engine gave the pipe.
  virtual void receive_piped(StreamId id, StreamPipe& pipe, uint32_t most) { (void)id, (void)pipe, (void)most; }
  /// A receive into a pipe may wait until much has come. From now on, the one under way waits for one byte only.
  virtual void receive_any(StreamId id) { (void)id; }
  /// Sends the next `bytes` of the pipe, as a send does. Requires that it holds them.
  virtual void send_piped(StreamId id, StreamPipe& pipe, uint32_t bytes, bool more) {
    (void)id, (void)pipe, (void)bytes, (void)more;
  }
  /// Closes. `abort`: reset at once, bytes that the peer's machine has not taken are lost, and the transport makes no
  /// more packets of lent memory. Else an orderly end, which delivers what the transport has. A receive and a send
  /// under way come back before kClosed, as described at StreamEvent.
  virtual void close(StreamId id, bool abort) = 0;
  /// About how many bytes the transport has sent again, ever; 0 if that is not known.
  [[nodiscard]] virtual uint64_t resent_bytes(StreamId id) {
    (void)id;
    return 0;
  }
  /// Bytes handed to the transport and not yet taken by the peer's machine, as far as known (0 if not).
  [[nodiscard]] virtual uint32_t unsent_bytes(StreamId id) = 0;
  /// The transport sends unacknowledged bytes again after ever longer times, for TCP up to two minutes. From now on it
  /// does so after `within` at most. `stalled`: for how long it has had no acknowledgement. If this call is not
  /// repeated within that time, the transport may give the stream up (TCP_USER_TIMEOUT). `within` 0: its own times hold
  /// again.
  virtual void resend_within(StreamId id, Duration stalled, Duration within) = 0;
  /// Fills `out` with finished operations; returns how many.
  virtual unsigned poll(std::span<StreamEvent> out, Instant now) = 0;
  /// Submits everything gathered since the last flush (io_uring: one enter).
  virtual void flush() = 0;
  /// To be called before each wait on wait_fd(): makes it readable when an event comes. True: do not wait, but poll.
  [[nodiscard]] virtual bool pending() = 0;
  /// Readable when poll() has work, if pending() was false since the last poll(); -1 for simulated engines.
  [[nodiscard]] virtual int wait_fd() const = 0;
  /// "io_uring", "epoll", "sim".
  [[nodiscard]] virtual const char* name() const = 0;
};

inline constexpr unsigned kStreamPieces = 64;  ///< pieces of one receive or send

/// io_uring where the kernel allows it, else epoll; `why_not` gets the reason when it is epoll. `streams`: most
/// streams. `refuses` is for tests: while it is true, submissions stay where they are, as if the kernel had no memory.
[[nodiscard]] std::unique_ptr<StreamEngine> make_uring_engine(uint32_t streams, Error* why_not,
                                                              const std::atomic<bool>* refuses = nullptr);
[[nodiscard]] std::unique_ptr<StreamEngine> make_epoll_engine(uint32_t streams);

}  // namespace ulnet::socklnd
