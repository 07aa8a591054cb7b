// The engine over io_uring, as its files see it: uring.cc, and uring_piped.cc for payloads that go through pipes.
#pragma once
#include <liburing.h>

#include <array>
#include <atomic>
#include <vector>

#include "dataplane/base/slab.h"
#include "lnd/socklnd/engine/kernel_pipes.h"
#include "lnd/socklnd/stream.h"

namespace ulnet::socklnd {

/// Streams whose receives are tried in each poll(): a try that finds nothing costs a system call.
inline constexpr unsigned kHotStreamsMax = 8;
/// A send of at most this size is copied into one piece: the kernel takes longer for each piece than a copy.
inline constexpr size_t kGatherBytes = 4096;

enum class UringOp : uintptr_t { kReceive = 0, kSend = 1, kCancel = 2 };
inline constexpr uintptr_t kOpMask = 3;
/// Tasks of poll() for a stream: to report operations that ended without the ring, and to submit cancels again.
enum UringOwed : uint8_t { kOwedReceive = 1, kOwedSend = 2, kOwedCancelReceive = 4, kOwedCancelSend = 8 };

/// One attached socket. Data that the kernel reads while an operation is submitted (headers, pieces) has its fixed
/// place here.
struct UringStream {
  int fd = -1;
  void* owner = nullptr;
  bool receiving = false;
  bool sending = false;
  bool closing = false;
  bool dry = false;     ///< the last receive emptied the socket: the next one waits for readiness first
  bool bulk = false;    ///< the last receive was a part of a large transfer
  bool hot = false;     ///< the next receive is tried in poll() first
  uint8_t cancels = 0;  ///< cancel requests not yet answered
  uint8_t owed = 0;     ///< of UringOwed; the stream is in `owed_` while it is not 0
  uint32_t tries = 0;   ///< of a receive in `hot_`
  uint64_t sleeps = 0;  ///< UringEngine::sleeps_ when the receive began
  int32_t rx_result = 0;
  int32_t tx_result = 0;
  uint32_t sent = 0;              ///< bytes of the send that the socket has taken before the ring got the rest
  KernelPipe* rx_pipe = nullptr;  ///< the receive under way moves at most `rx_most` bytes there; null: it fills pieces
  KernelPipe* tx_pipe = nullptr;  ///< the send under way takes `tx_bytes` from there, `sent` of which have gone
  uint32_t readable_from = 1;     ///< SO_RCVLOWAT
  uint32_t rx_most = 0;
  uint32_t tx_bytes = 0;
  bool tx_more = false;
  bool tx_lent = false;  ///< `tx_pipe` belongs to the engine, and goes back there when the send has ended
  msghdr rx_head{};
  msghdr tx_head{};
  iovec rx_pieces[kStreamPieces];
  iovec tx_pieces[kStreamPieces];
};
static_assert(alignof(UringStream) > kOpMask);

class UringEngine final : public StreamEngine {
 public:
  UringEngine(uint32_t streams, const std::atomic<bool>* refuses)
      : refuses_(refuses), streams_(streams), closed_(streams), owed_(streams) {}
  ~UringEngine() override;
  UringEngine(const UringEngine&) = delete;
  UringEngine& operator=(const UringEngine&) = delete;

  /// Creates the ring. Errors: those of io_uring_setup (EPERM, ENOSYS, ENOMEM ...), ENOTSUP when an operation is
  /// missing.
  [[nodiscard]] Result<void> open();

  [[nodiscard]] Result<StreamId> attach(StreamSource source, void* owner) override;
  void receive(StreamId id, std::span<const iovec> pieces, uint32_t transfer) override;
  void cancel_receive(StreamId id) override;
  void send(StreamId id, std::span<const iovec> pieces, bool more) override;
  [[nodiscard]] StreamPipe* pipe_take() override { return pipes_.take(); }
  void receive_piped(StreamId id, StreamPipe& pipe, uint32_t most) override;
  void receive_any(StreamId id) override;
  void send_piped(StreamId id, StreamPipe& pipe, uint32_t bytes, bool more) override;
  void send_lent(StreamId id, std::span<const iovec> pieces, bool more) override;
  void close(StreamId id, bool abort) override;
  [[nodiscard]] uint64_t resent_bytes(StreamId id) override { return socket_resent_bytes(stream(id).fd); }
  [[nodiscard]] uint32_t unsent_bytes(StreamId id) override { return socket_unsent_bytes(stream(id).fd); }
  void resend_within(StreamId id, Duration stalled, Duration within) override {
    socket_resend_within(stream(id).fd, stalled, within);
  }
  unsigned poll(std::span<StreamEvent> out, Instant now) override;
  void flush() override;
  [[nodiscard]] bool pending() override;
  [[nodiscard]] int wait_fd() const override { return event_fd_; }
  [[nodiscard]] const char* name() const override { return "io_uring"; }

 private:
  UringStream& stream(StreamId id);
  void enable();
  void enter();
  [[nodiscard]] io_uring_sqe* next_sqe();
  void cancel(UringStream& of, UringOp op);
  void owe(UringStream& of, UringOwed what, int32_t result = 0);
  [[nodiscard]] unsigned run_owed(std::span<StreamEvent> out);
  [[nodiscard]] bool refused() const { return refuses_ != nullptr && refuses_->load(std::memory_order_relaxed); }
  [[nodiscard]] bool send_now(UringStream& of, int flags);
  [[nodiscard]] bool give_receive(UringStream& of);
  void readable_from(UringStream& of, uint32_t bytes);
  [[nodiscard]] bool pause(UringStream& of, UringOp op);
  [[nodiscard]] bool await(UringStream& of, UringOp op);
  [[nodiscard]] int32_t move_in(UringStream& of);
  [[nodiscard]] int32_t move_out(UringStream& of);
  void start_out(UringStream& of, KernelPipe& pipe, uint32_t bytes, bool more);
  static void send_ended(UringStream& of);
  [[nodiscard]] int32_t piped_ready(UringStream& of, UringOp op, int32_t result);
  [[nodiscard]] unsigned take(unsigned source, std::span<StreamEvent> out);
  [[nodiscard]] unsigned take_completions(std::span<StreamEvent> out);
  [[nodiscard]] unsigned take_closed(std::span<StreamEvent> out);
  [[nodiscard]] unsigned try_hot(std::span<StreamEvent> out);
  void hot_remove(unsigned index);
  void park_hot();
  void signals(bool on);
  [[nodiscard]] bool kernel_has_work() const;
  [[nodiscard]] bool complete(const io_uring_cqe& cqe, StreamEvent& event);
  void closed_if_drained(UringStream& of);

  const std::atomic<bool>* const refuses_;  ///< a test's: submissions are refused while it is true
  io_uring ring_{};
  bool open_ = false;
  bool enabled_ = false;
  bool signals_on_ = true;
  int event_fd_ = -1;
  Slab<UringStream> streams_;
  KernelPipes pipes_;
  std::vector<UringStream*> closed_;  ///< closed and not yet reported; FIFO in a ring of fixed size
  uint32_t closed_head_ = 0;
  uint32_t closed_count_ = 0;
  std::vector<UringStream*> owed_;  ///< each once; FIFO in a ring of fixed size
  uint32_t owed_head_ = 0;
  uint32_t owed_count_ = 0;
  std::array<UringStream*, kHotStreamsMax> hot_{};  ///< receives that poll() tries
  unsigned hot_count_ = 0;
  std::array<std::byte, kGatherBytes> gathered_;  ///< scratch of one send
  unsigned first_source_ = 0;  ///< of `kSources`: the one that may fill the next poll, so that none starves
  uint64_t sleeps_ = 0;        ///< calls of pending(): the worker was about to sleep
};

/// Marks the entry with its stream and operation. Call it after the prep functions: some of them clear the field.
inline void tag(io_uring_sqe* sqe, UringStream& of, UringOp op) {
  sqe->user_data = reinterpret_cast<uintptr_t>(&of) | uintptr_t(op);
}

}  // namespace ulnet::socklnd
