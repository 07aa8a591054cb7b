// One row of the table of configuration keys, as plain data. Each driver brings the rows of its own keys, and config/
// joins the rows of all keys. A row states the allowed values; `at` states where the value lives. Thread: any
// (constant).
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dataplane/base/nid.h"

namespace ulnet {

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

/// Where the value of a key is kept.
enum class FieldHome : uint8_t {
  kModel,   ///< in config/model.h, or nowhere
  kDriver,  ///< a number among the settings of a driver
  kNi,      ///< a number among the driver's settings of one NI
};

/// One key. `Place` is the type of `at`.
template <class Place>
struct BasicField {
  const char* path;  ///< without list indexes: net.local NI(s).tunables.credits
  FieldType type;
  const char* text = "";  ///< one or two sentences for the reference
  int64_t min = INT64_MIN;
  int64_t max = INT64_MAX;
  const char* unit = "";
  const char* choices = "";    ///< kEnum: words separated by '|', in the order of the enumerators
  bool needs_restart = false;  ///< takes effect only when ulnetd starts
  const char* no_effect = "";  ///< why another value than the default changes nothing (yet); printed when it is set
  Place at = {};
  const char* default_text = nullptr;  ///< for keys without a value in the model: "required", "", ...

  // Rows of drivers only.
  const char* after = "";    ///< path of the row that it follows in the table; "" = the driver's row before it
  const char* setting = "";  ///< of an NI's key: path of the setting that holds where the NI sets nothing, or 0
  /// Of an NI's key: seconds of one transmission; 0 = share of transaction_timeout. If the change `net_set` gives a
  /// net, the value is for all NIs of that net's driver.
  bool transmit_timeout = false;
  const char* net_set = "";        ///< of an NI's key: its name in the change `net_set`; "" = fixed while the NI runs
  const char* net_set_wrong = "";  ///< of such a key: error of a value out of range; "" = as for any other key
  FieldHome home = FieldHome::kModel;
  int64_t number = 0;  ///< default of a key whose home is a driver or an NI
};

struct NoPlace {};
/// A row as others than its driver see it.
using DriverField = BasicField<NoPlace>;

/// The same row with another `at`.
template <class To, class From>
constexpr BasicField<To> field_with(const BasicField<From>& f, To at) {
  return {f.path,          f.type,          f.text, f.min,          f.max,   f.unit,    f.choices,
          f.needs_restart, f.no_effect,     at,     f.default_text, f.after, f.setting, f.transmit_timeout,
          f.net_set,       f.net_set_wrong, f.home, f.number};
}

/// The rows of one driver.
struct DriverFields {
  NetType net_type;
  std::span<const DriverField> settings;     ///< keys of the `ulnet:` section
  std::span<const DriverField> ni_tunables;  ///< keys of "lnd tunables"
};
/// The rows of every driver of this program. Defined in lnd/drivers.cc, for config/schema.cc.
[[nodiscard]] std::vector<DriverFields> driver_fields();

}  // namespace ulnet
