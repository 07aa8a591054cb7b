#include "tools/ulnetd/ports/capture_stream.h"

#include "control/api/base64.h"

namespace ulnet {

// A part is a frame of the control socket, and all that may wait for a reader.
static_assert(dpdk::kCapturePartBytes / 3 * 4 + 4096 < api::kFrameMax);
static_assert(api::kOutputLow + dpdk::kCapturePartBytes / 3 * 4 + 4096 < api::kOutputMax);

Result<void> CaptureStream::write(std::span<const std::byte> bytes) {
  if (!wanted_) return {};
  api::Answer part;
  part.more = true;
  part.doc.set("capture", config::Doc::map()).set("pcapng", api::base64_encode(bytes));
  reply_(id_, part);
  return {};
}

void CaptureStream::end(uint64_t written, uint64_t skipped, const Error* error) {
  if (!wanted_) return;
  if (error != nullptr) return reply_(id_, api::answer_error("manage", "capture", error->code, error->what));
  api::Answer last;
  config::Doc& capture = last.doc.set("capture", config::Doc::map());
  capture.set("written", written);
  capture.set("skipped", skipped);
  reply_(id_, last);
}

}  // namespace ulnet
