// The requests of the control socket as one table. The client builds a request from its row, the server checks a
// request against its row, and docs/control-socket.md is printed from the rows. Any thread: the table is constant.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "config/emit.h"

namespace ulnet::api {

enum class Verb : uint8_t { kChange, kShow, kManage, kReset };
[[nodiscard]] const char* verb_text(Verb verb);
[[nodiscard]] std::optional<Verb> verb_find(std::string_view text);

/// One request that a ulnetd answers. The table has one row for each, in this order.
enum class Call : uint8_t {
  kChange,
  kShowNet,
  kShowRoute,
  kShowPeer,
  kShowPeerList,
  kShowRouting,
  kShowGlobal,
  kShowStats,
  kShowUdsp,
  kShowFault,
  kShowExplain,
  kShowExport,
  kShowStatus,
  kShowPort,
  kShowCptOfNid,
  kShowRecovery,
  kPing,
  kDiscover,
  kFaultAdd,
  kFaultDel,
  kPerf,
  kCapture,
  kWatch,
  kPortReset,
  kResetStats,
  kResetFault,
  kCount
};

// Bounds of arguments, for the code that builds a request and the code that checks one.
inline constexpr std::chrono::milliseconds kPingTimeoutMax = std::chrono::hours(24);
/// Messages that one `explain` may play. Each costs one choice with its reasons.
inline constexpr int64_t kExplainCountMax = 10000;
inline constexpr int64_t kCaptureSnapMin = 22, kCaptureSnapMax = 64 << 10;
inline constexpr int64_t kCaptureSecondsMax = 1'000'000;
inline constexpr int64_t kCaptureSizeMin = 4096, kCaptureSizeMax = int64_t{1} << 40;
inline constexpr int64_t kCaptureRateMax = 10'000'000;

enum class ArgType : uint8_t {
  kBool,
  kInteger,  ///< between `min` and `max`
  kText,
  kNids  ///< a list of texts, each a NID
};

/// One argument of a request.
struct ArgRow {
  std::string_view name;
  ArgType type;
  std::string_view text;  ///< its meaning, in one sentence
  bool required = false;
  int64_t min = 0, max = 0;  ///< of kInteger
  std::string_view unit = {};
};

struct CallRow {
  Call call;
  Verb verb;
  std::string_view object;       ///< empty for kChange
  std::span<const ArgRow> args;  ///< every argument that the request may have
  std::string_view text;         ///< the purpose of the request
  std::string_view answer;       ///< the content of the answer's "doc"
  bool parts = false;            ///< the answer may come in parts
  bool own_args = false;         ///< the handler checks the arguments; `args` is empty
};

[[nodiscard]] std::span<const CallRow> protocol();
[[nodiscard]] const CallRow& row_of(Call call);
/// The request with this verb and object. Nothing: this version has none.
[[nodiscard]] std::optional<Call> call_find(Verb verb, std::string_view object);
/// The first fault of the object `args`, as a sentence; empty if there is none. Faults are an unknown name, a wrong
/// type, a number out of bounds, and a missing argument.
[[nodiscard]] std::string args_wrong(const CallRow& row, const config::Json& args);
/// The text of docs/control-socket.md.
[[nodiscard]] std::string protocol_reference();

}  // namespace ulnet::api
