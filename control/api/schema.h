// The frames of the control socket as values: hello, request, answer. Both sides use this file. The requests are rows
// of protocol.h; docs/control-socket.md describes all of it. Any thread.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "config/apply.h"
#include "config/change.h"
#include "control/api/protocol.h"

namespace ulnet::api {

using config::Doc;
using config::Json;

inline constexpr int64_t kProtocolVersion = 1;
inline constexpr const char* kDefaultSocket = "/run/ulnet/ulnetd.sock";

// Bounds of one connection and of the server.
inline constexpr uint32_t kFrameMax = 16u << 20;  ///< bytes of one frame's JSON
inline constexpr uint32_t kHelloMax = 4096;       ///< bytes of a frame before the hello
inline constexpr size_t kOutputMax = 32u << 20;   ///< unsent bytes; a reader that lets more pile up is closed
inline constexpr size_t kOutputLow = 1u << 20;    ///< below this a paused stream may go on (drained())
inline constexpr size_t kOutstandingMax = 64;     ///< requests of one client without their answer
inline constexpr size_t kClientsMax = 64;         ///< one more takes the place of the longest idle one
inline constexpr size_t kInputTotalMax = 4 * size_t{kFrameMax};  ///< of frames that have begun, of all clients
inline constexpr size_t kOutputTotalMax = 2 * kOutputMax;        ///< unsent bytes of all clients
inline constexpr size_t kSpareDescriptors = 8;  ///< kept back for clients that come when the process has none left

/// The process at the other end: its hello gives role and version, the kernel gives the numbers.
struct Caller {
  std::string role;  ///< "ulnetctl", "libulnet", ...
  std::string version;
  pid_t pid = -1;
  uid_t uid = static_cast<uid_t>(-1);
  gid_t gid = static_cast<gid_t>(-1);
};

struct Request {
  uint64_t id = 0;  ///< not 0; unique among the client's requests that have no answer yet
  Verb verb = Verb::kShow;
  std::string object;  ///< empty for Verb::kChange
  Json args = Json::object();
  config::ChangeList changes;  ///< Verb::kChange only; already checked as a file is
  Caller caller;               ///< set by the server, not on the wire

  /// Requires: args_wrong() has nothing to say about `args`.
  [[nodiscard]] static Request of(Call call, Json args = Json::object());
  /// Nothing: a request that this version does not have.
  [[nodiscard]] std::optional<Call> call() const { return call_find(verb, object); }

  /// Argument `key`, or the default when it is absent or of another type.
  [[nodiscard]] int64_t arg_integer(const char* key, int64_t otherwise) const;
  [[nodiscard]] bool arg_bool(const char* key) const;
  [[nodiscard]] std::string arg_text(const char* key) const;
  /// The NIDs of `key`, a list of texts. Errors: a sentence, also when the list is empty or longer than
  /// config::kRangeMax.
  [[nodiscard]] tl::expected<std::vector<Nid>, std::string> arg_nids(const char* key) const;
};

/// One failure, as lnetctl prints it: verb -> list -> entity -> errno, descr.
struct ApiError {
  std::string verb;    ///< configure, unconfigure, add, del, show, set, reset, manage
  std::string entity;  ///< net, route, ping, ...
  int code = 0;        ///< negative errno
  std::string descr;   ///< lnetctl's words first, then what and how to mend it
  std::optional<int64_t> seq_no;
  bool operator==(const ApiError&) const = default;
};

struct Answer {
  Doc doc;  ///< the output; may be there beside errors (ping)
  std::vector<ApiError> errors;
  std::vector<std::string> notes;     ///< more lines for the operator, such as the reason why a change waits
  std::vector<std::string> warnings;  ///< parts of the request that have no effect, or only later, and why
  bool more = false;                  ///< a part; more will come for the same request
  [[nodiscard]] bool ok() const { return errors.empty(); }
};

/// An answer that is one error.
[[nodiscard]] Answer answer_error(std::string verb, std::string entity, int code, std::string descr);
/// The errors of config::changes_apply() as an answer.
[[nodiscard]] Answer answer_change_errors(const config::ChangeList& changes, const config::Problems& errors);

[[nodiscard]] Json hello_json(const std::string& role, const std::string& version);
/// Errors: a sentence for the other side (not a hello, another protocol version).
[[nodiscard]] tl::expected<Caller, std::string> hello_read(const Json& json);
[[nodiscard]] Json request_to_json(const Request& request);
/// The error of a frame that should be a request. If `id` is 0, even the id could not be read: then close.
struct BadRequest {
  uint64_t id = 0;
  ApiError error;
};
[[nodiscard]] tl::expected<Request, BadRequest> request_from_json(const Json& json);
[[nodiscard]] Json answer_to_json(uint64_t id, const Answer& answer);
struct AnswerFrame {
  uint64_t id = 0;
  Answer answer;
};
[[nodiscard]] tl::expected<AnswerFrame, std::string> answer_from_json(const Json& json);

/// A part of a doc added to what came before: lists of the same key are joined, everything else is replaced.
void doc_join(Doc& whole, Doc part);

/// Length and body.
[[nodiscard]] std::string frame(std::string_view body);

/// Cuts frames out of a stream of bytes. Memory: at most one frame and what one read brought.
class FrameReader {
 public:
  explicit FrameReader(uint32_t max) : max_(max) {}
  void max_set(uint32_t max) { max_ = max; }
  void feed(std::string_view bytes) { buffer_.append(bytes); }
  /// The next whole frame's body; nothing when more bytes are needed. Error: a length above the bound.
  [[nodiscard]] tl::expected<std::optional<std::string>, std::string> next();
  /// True when the bytes end inside a frame.
  [[nodiscard]] bool inside() const { return buffer_.size() > taken_; }
  /// Bytes of the frame that has begun and is not complete; 0 without one. Valid after next().
  [[nodiscard]] size_t unfinished_bytes() const { return unfinished_; }

 private:
  uint32_t max_;
  std::string buffer_;
  size_t taken_ = 0;       ///< bytes of buffer_ that were already given out
  size_t unfinished_ = 0;  ///< length that the frame at taken_ has announced
};

}  // namespace ulnet::api
