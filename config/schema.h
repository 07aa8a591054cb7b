// The one table of every key that can be configured: its path, type, unit, bounds, text, and where its value lives in
// the model. The loader checks against it, `config/reference.md` is generated from it, and defaults are read through it
// from model.h.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "config/model.h"
#include "config/problem.h"

namespace ulnet::config {

enum class FieldType : uint8_t {
  kMap,   ///< has keys below it
  kList,  ///< a list of maps with the keys below it
  kBool,  ///< true, false, True, False, 0, 1, also quoted
  kInteger,
  kSeconds,
  kMilliseconds,
  kEnum,  ///< one of `choices`
  kText,
  kNet,
  kNid,
  kInterfaces,  ///< a map of numbers to interface names
  kCptList,     ///< "[0,2]"
  kCoreList,    ///< "auto" or 2-5,8
  kTextList,    ///< a map of numbers to text, or a list of text, or one text
  kRaw,         ///< kept as it is for later
  kIgnored,     ///< part of what is shown; accepted and not used
};

/// One of each thing that fields live in, so that a field can point into it whatever list it came from.
struct Slots {
  Tunables tunables;
  RouteConfig route;
  Routing routing;
  Buffers buffers;
  Global global;
  UlnetSection ulnet;
};

using FieldRef = std::variant<std::monostate, bool*, int64_t*, Seconds*, Milliseconds*, std::string*, Discovery*, Idle*,
                              Accept*, Tristate*, StreamEngine*, Forwarding*, LogLevel*, Doc*>;

/// One key.
struct Field {
  const char* path;  ///< without list indexes: net.local NI(s).tunables.credits
  FieldType type;
  const char* text = "";  ///< one or two sentences for the reference
  int64_t min = INT64_MIN;
  int64_t max = INT64_MAX;
  const char* unit = "";
  const char* choices = "";    ///< kEnum: words separated by '|', in the order of the enumerators
  bool needs_restart = false;  ///< takes effect only when ulnetd starts
  const char* no_effect = "";  ///< why another value than the default changes nothing (yet): said when it is set
  FieldRef (*at)(Slots&) = nullptr;
  const char* default_text = nullptr;  ///< for keys without `at`: "required", "", ...
};

/// Every key, in the order of the reference.
[[nodiscard]] std::span<const Field> fields();
/// The field with this path, or nullptr.
[[nodiscard]] const Field* field_find(std::string_view path);
/// Keys directly below `path` ("" = the top level).
[[nodiscard]] std::vector<std::string> field_children(std::string_view path);
/// The known key below `path` that is nearest to `key`, or "" when none is near.
[[nodiscard]] std::string field_nearest(std::string_view path, std::string_view key);

/// What the field allows, for messages: "0..127", "busy, adaptive or interrupt", "a network such as tcp, tcp1 or o2ib".
[[nodiscard]] std::string field_allowed(const Field& field);
/// The default as text, read from the model.
[[nodiscard]] std::string field_default(const Field& field);
/// Checks a scalar and stores it in `slots` when the field lives there. Returns what is wrong, or "" when it was good.
[[nodiscard]] std::string field_assign(const Field& field, const Doc& value, Slots& slots);
/// The value as a plain number: booleans 0 and 1, enumerations their index. Nothing when `value` is not allowed (or not
/// numeric).
[[nodiscard]] std::optional<int64_t> field_number(const Field& field, const Doc& value);
/// The stored value of the field in `slots`, as it is shown.
[[nodiscard]] Doc field_value(const Field& field, Slots& slots);

/// The whole of config/reference.md.
[[nodiscard]] std::string reference_markdown();

}  // namespace ulnet::config
