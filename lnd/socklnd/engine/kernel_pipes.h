// Pipes of the kernel, for payloads that are not copied. Forwarded ones go from one socket to another (splice).
// Payloads whose memory is lent go to a socket (vmsplice). Both engines use them. A pipe is opened when it is needed
// first, and stays open for the next payload.
// Thread: KernelPipes and give_back(): the worker of its engine. The rest of a pipe: the holder of its message.
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "dataplane/base/list.h"
#include "lnd/socklnd/stream.h"

namespace ulnet::socklnd {

/// Pipes of one engine.
inline constexpr unsigned kPipesMax = 16;
/// Size of a pipe, which gives it 256 places. Each takes a piece of a received packet: often many pages, so that most
/// payloads fit. Small packets fill a pipe early. The kernel lets users without privileges have pipes of up to this
/// size.
inline constexpr int kPipeBytes = 1 << 20;

struct PipeTag {};

class KernelPipes;

class KernelPipe final : public StreamPipe, public Linked<PipeTag> {
 public:
  void to_memory(const Payload& window) override;
  void give_back() override;
  /// Moves at most `most` bytes from the socket. Returns how many, or: 0 end of stream, EAGAIN nothing has come, ENOSPC
  /// the pipe is full, another negative errno. The socket must not block.
  [[nodiscard]] int32_t move_in(int socket, uint32_t most);
  /// Puts the pages of the pieces in, as many as fit. Returns how many bytes; 0: the kernel refuses them. Until the
  /// socket that they go to has sent them, it reads this memory. Requires an empty pipe.
  [[nodiscard]] uint32_t lend(std::span<const iovec> pieces);
  /// Moves at most `most` bytes to the socket. Returns how many, or a negative errno, EAGAIN among them. Raises no
  /// SIGPIPE. The socket must not block. Requires that the pipe has the bytes.
  [[nodiscard]] int32_t move_out(int socket, uint32_t most, bool more);

 private:
  friend class KernelPipes;
  [[nodiscard]] bool open();
  void close();

  KernelPipes* owner_ = nullptr;
  int read_fd_ = -1, write_fd_ = -1;
};

class KernelPipes {
 public:
  KernelPipes();
  ~KernelPipes();
  KernelPipes(const KernelPipes&) = delete;
  KernelPipes& operator=(const KernelPipes&) = delete;
  /// An empty pipe. Null: all are in use, or the kernel refuses another.
  [[nodiscard]] KernelPipe* take();
  /// A pipe with the first bytes of the pieces. Null: there is none, or the kernel refuses these pages.
  [[nodiscard]] KernelPipe* take_lent(std::span<const iovec> pieces);
  void give(KernelPipe& pipe);

 private:
  std::array<KernelPipe, kPipesMax> all_;
  List<KernelPipe, PipeTag> free_;  ///< LIFO; pipes that are not open come last
  uint32_t no_open_ = 0;            ///< calls of take() that open no pipe, since the kernel has refused one
};

[[nodiscard]] inline size_t bytes_of(std::span<const iovec> pieces) {
  size_t bytes = 0;
  for (const iovec& piece : pieces) bytes += piece.iov_len;
  return bytes;
}

}  // namespace ulnet::socklnd
