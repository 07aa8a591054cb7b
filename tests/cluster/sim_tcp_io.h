// The two faces of the simulated TCP: NetIo for a node's control thread, StreamEngine for each of its workers. Private
// to sim_tcp; tests use the interfaces.
#pragma once
#include "tests/cluster/sim_tcp.h"

namespace ulnet::test {

class SimNetIo final : public NetIo {
 public:
  SimNetIo(SimTcp& tcp, std::vector<IpAddress> addresses) : tcp_(tcp), addresses_(std::move(addresses)) {}
  ~SimNetIo() override;
  [[nodiscard]] Result<ListenerId> listen(const Endpoint& at, int backlog, const SocketOptions& options) override;
  void unlisten(ListenerId id) override;
  [[nodiscard]] Result<SocketId> connect(const IpAddress& local, const Endpoint& remote,
                                         const SocketOptions& options) override;
  [[nodiscard]] int read(SocketId id, std::span<std::byte> out) override;
  [[nodiscard]] int write(SocketId id, std::span<const std::byte> in) override;
  void want(SocketId id, bool readable, bool writable) override;
  [[nodiscard]] Endpoint local_endpoint(SocketId id) override;
  [[nodiscard]] Result<void> hold(SocketId id, const std::string& interface) override;
  void close(SocketId id) override;
  [[nodiscard]] StreamSource detach(SocketId id) override;
  void discard(StreamSource source) override;
  unsigned poll(std::span<NetEvent> out, Instant now) override;
  [[nodiscard]] int wait_fd() const override { return -1; }

  void accepted(uint64_t socket, ListenerId listener, const Endpoint& remote);
  void connected(SocketId id);
  void failed(SocketId id, int error);

 private:
  SimTcp& tcp_;
  const std::vector<IpAddress> addresses_;
  std::deque<NetEvent> events_;
  std::set<SocketId> open_;  ///< sockets of this NetIo
};

/// A pipe is where bytes wait; its engine gives it out again when it comes back.
class SimPipe final : public socklnd::StreamPipe {
 public:
  SimPipe(SimTcp& tcp, size_t capacity) : capacity_(capacity), tcp_(tcp) {}
  void to_memory(const Payload& window) override;
  void give_back() override;
  [[nodiscard]] size_t room() const { return capacity_ - bytes_.size(); }
  void push(const std::byte* from, size_t count);
  [[nodiscard]] const ByteQueue& bytes() const { return bytes_; }
  void pop(size_t count);
  bool taken = false;

 private:
  const size_t capacity_;
  SimTcp& tcp_;
  ByteQueue bytes_;
};

class SimEngine final : public StreamEngine {
 public:
  SimEngine(SimTcp& tcp, uint32_t streams) : tcp_(tcp), streams_(streams) {}
  ~SimEngine() override;
  [[nodiscard]] Result<StreamId> attach(StreamSource source, void* owner) override;
  void receive(StreamId id, std::span<const iovec> pieces, uint32_t transfer) override;
  void cancel_receive(StreamId id) override;
  void send(StreamId id, std::span<const iovec> pieces, bool more) override;
  void send_lent(StreamId id, std::span<const iovec> pieces, bool more) override;
  [[nodiscard]] uint64_t resent_bytes(StreamId) override { return tcp_.resent_bytes; }
  [[nodiscard]] socklnd::StreamPipe* pipe_take() override;
  void receive_piped(StreamId id, socklnd::StreamPipe& pipe, uint32_t most) override;
  void receive_any(StreamId id) override;
  void send_piped(StreamId id, socklnd::StreamPipe& pipe, uint32_t bytes, bool more) override;
  void close(StreamId id, bool abort) override;
  [[nodiscard]] uint32_t unsent_bytes(StreamId id) override;
  void resend_within(StreamId id, Duration stalled, Duration within) override;
  unsigned poll(std::span<StreamEvent> out, Instant now) override;
  void flush() override;
  [[nodiscard]] bool pending() override { return !events_.empty(); }
  [[nodiscard]] int wait_fd() const override { return -1; }
  [[nodiscard]] const char* name() const override { return "sim"; }

  /// The socket of this stream has changed.
  void look(uint32_t index);

 private:
  struct Stream {
    bool used = false;
    bool closing = false;
    uint32_t generation = 0;
    uint64_t socket = 0;
    void* owner = nullptr;
    std::vector<iovec> receive, send;  ///< operations under way
    SimPipe* receive_pipe = nullptr;   ///< or the receive fills it, with `receive_most` bytes
    SimPipe* send_pipe = nullptr;      ///< or the send takes `send_bytes` from it
    size_t receive_most = 0, send_bytes = 0;
    size_t receive_least = 1;  ///< bytes that such a receive waits for
    [[nodiscard]] bool receives() const { return !receive.empty() || receive_pipe != nullptr; }
    [[nodiscard]] bool sends() const { return !send.empty() || send_pipe != nullptr; }
    bool receive_submitted = false, send_submitted = false;
    bool send_lent = false;     ///< the socket reads the pieces when they leave
    bool send_refused = false;  ///< the send fails
    bool send_all = false;      ///< kSent comes only after all bytes have gone, as with MSG_WAITALL in io_uring
    size_t sent = 0;            ///< bytes of the send under way that have gone
  };
  struct Pending {
    StreamEvent event;
    uint32_t stream;
    uint32_t polls_left;          ///< polls until the event comes
    std::vector<iovec> scribble;  ///< memory that belongs to the engine until this event
  };
  Stream& at(StreamId id);
  void complete(uint32_t index, StreamEventKind kind, int32_t result, uint32_t polls_left = 0);
  void try_receive(uint32_t index);
  void try_send(uint32_t index);
  void try_receive_piped(uint32_t index, SimTcp::Socket& socket);
  void try_send_piped(uint32_t index, SimTcp::Socket& socket);
  void send_ended(uint32_t index, int32_t error, uint32_t polls_left = 0);

  SimTcp& tcp_;
  std::vector<std::unique_ptr<SimPipe>> pipes_;
  std::vector<Stream> streams_;
  std::deque<Pending> events_;
  std::vector<uint32_t> submitted_;
};

}  // namespace ulnet::test
