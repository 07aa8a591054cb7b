// A capture as the answer to a request: pcapng in parts, as fast as the client reads. Thread: control.
#pragma once
#include <functional>

#include "control/api/server.h"
#include "lnd/net/dpdk/capture.h"

namespace ulnet {

class CaptureStream final : public dpdk::CaptureSink {
 public:
  using Reply = std::function<void(api::RequestId, const api::Answer&)>;
  using Backlog = std::function<size_t(api::RequestId)>;
  CaptureStream(api::RequestId id, Reply reply, Backlog backlog)
      : id_(id), reply_(std::move(reply)), backlog_(std::move(backlog)) {}

  [[nodiscard]] api::RequestId id() const { return id_; }
  /// The client has gone: all further output is discarded.
  void abandon() { wanted_ = false; }
  [[nodiscard]] bool ready() override { return !wanted_ || backlog_(id_) < api::kOutputLow; }
  Result<void> write(std::span<const std::byte> bytes) override;
  /// The final answer. `error` may be null.
  void end(uint64_t written, uint64_t skipped, const Error* error);

 private:
  const api::RequestId id_;
  const Reply reply_;
  const Backlog backlog_;
  bool wanted_ = true;
};

}  // namespace ulnet
