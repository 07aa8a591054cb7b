// The one table of all configuration keys: path, type, unit, bounds, text, and the place of the value in the model. The
// loader checks against this table, and `config/reference.md` is generated from it. The table reads defaults from
// model.h.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "config/model.h"
#include "config/problem.h"
#include "dataplane/base/field.h"

namespace ulnet::config {

/// One object of each type that has fields. A field can point into it, whatever list the object came from.
struct Slots {
  Tunables tunables;
  RouteConfig route;
  Routing routing;
  Buffers buffers;
  Global global;
  UlnetSection ulnet;
};

using FieldRef = std::variant<std::monostate, bool*, int64_t*, Seconds*, Milliseconds*, std::string*, Discovery*, Idle*,
                              Tristate*, Forwarding*, LogLevel*, Doc*>;

/// One key. Rows of drivers are among them; their values are numbers in UlnetSection::driver and
/// NiConfig::lnd_tunables.
using Field = BasicField<FieldRef (*)(Slots&)>;

/// Every key, in the order of the reference.
[[nodiscard]] std::span<const Field> fields();
/// The field with this path, or nullptr.
[[nodiscard]] const Field* field_find(std::string_view path);
/// Keys directly below `path` ("" = the top level).
[[nodiscard]] std::vector<std::string> field_children(std::string_view path);
/// The known key below `path` that is nearest to `key`, or "" when none is near.
[[nodiscard]] std::string field_nearest(std::string_view path, std::string_view key);

/// Whether the field has a value of its own, in the model or among the settings of a driver.
[[nodiscard]] bool field_has_value(const Field& field);
/// The allowed values, for messages: "0..127", "busy, adaptive or interrupt", "a network such as tcp, tcp1 or o2ib".
[[nodiscard]] std::string field_allowed(const Field& field);
/// The default as text, read from the model.
[[nodiscard]] std::string field_default(const Field& field);
/// Checks a scalar and stores it in `slots` when the field lives there. Returns the error, or "" for a good value.
[[nodiscard]] std::string field_assign(const Field& field, const Doc& value, Slots& slots);
/// The value as a plain number: booleans 0 and 1, enumerations their index. Nothing when `value` is not allowed (or not
/// numeric).
[[nodiscard]] std::optional<int64_t> field_number(const Field& field, const Doc& value);
/// The stored value of the field in `slots`, as it is shown.
[[nodiscard]] Doc field_value(const Field& field, Slots& slots);

/// The value of a driver's setting; its default where it is not set.
[[nodiscard]] int64_t driver_value(const DriverValues& values, std::string_view path);
/// Sets it; the default is not kept.
void driver_value_set(DriverValues& values, std::string_view path, int64_t number);
/// The values of these settings, by row.
[[nodiscard]] std::vector<int64_t> driver_values(std::span<const DriverField> rows, const DriverValues& values);
/// The values of an NI's driver settings, by row: from `set`, else from the settings of the driver. A time-out of 0
/// becomes `transmit_timeout`.
[[nodiscard]] std::vector<int64_t> ni_values(std::span<const DriverField> rows,
                                             const std::map<std::string, int64_t>& set, const DriverValues& values,
                                             Seconds transmit_timeout);
/// The last part of a row's path: timeout.
[[nodiscard]] std::string_view field_name(std::string_view path);
/// The row that describes the key `name` of "lnd tunables" for all drivers, or nullptr.
[[nodiscard]] const Field* ni_key_find(std::string_view name);
/// The row of this key among those of the driver for this type of network; nullptr: the driver has no such key.
[[nodiscard]] const DriverField* ni_row_find(NetType type, std::string_view name);
/// Whether NIs may follow this setting of a driver.
[[nodiscard]] bool ni_setting_is(std::string_view path);

/// The whole of config/reference.md.
[[nodiscard]] std::string reference_markdown();

}  // namespace ulnet::config
