// Functions over the field table: finding a key, checking and storing a value.
#include "config/schema.h"

#include <algorithm>
#include <unordered_map>

#include "config/ranges.h"
#include "config/schema_table.h"
#include "dataplane/base/nid_text.h"

namespace ulnet::config {
namespace {

std::vector<std::string_view> choices_of(const Field& field) {
  std::vector<std::string_view> words;
  std::string_view rest = field.choices;
  while (!rest.empty()) {
    size_t bar = rest.find('|');
    words.push_back(rest.substr(0, bar));
    rest = bar == std::string_view::npos ? std::string_view{} : rest.substr(bar + 1);
  }
  return words;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

/// The error in `value` for this field, or "".
std::string value_wrong(const Field& field, const Doc& value) {
  switch (field.type) {
    case FieldType::kBool: return value.boolean() ? "" : "is not true or false";
    case FieldType::kInteger:
    case FieldType::kSeconds:
    case FieldType::kMilliseconds: {
      std::optional<int64_t> number = value.integer();
      if (!number) return "is not a number";
      return *number < field.min || *number > field.max ? "is out of range" : "";
    }
    case FieldType::kEnum: return field_number(field, value) ? "" : "is not one of the choices";
    case FieldType::kNet: return net_parse(value.text()) ? "" : "is not a network";
    case FieldType::kNid: return nid_parse(value.text()) ? "" : "is not a NID";
    case FieldType::kCptList: return cpt_list_parse(value.text()) ? "" : "is not a list of CPTs";
    case FieldType::kCoreList:
      return value.text() == "auto" || core_list_parse(value.text()) ? "" : "is not a list of cores";
    case FieldType::kText: return value.is_scalar() ? "" : "is not a text";
    case FieldType::kMap:
    case FieldType::kList:
    case FieldType::kInterfaces:
    case FieldType::kTextList:
    case FieldType::kRaw:
    case FieldType::kIgnored: return "";
  }
  return "";
}

template <class T>
Doc shown(const Field& field, const T& value) {
  if constexpr (std::is_enum_v<T>) {
    Doc word(choices_of(field).at(static_cast<size_t>(value)));
    return word.integer() ? Doc(*word.integer()) : word;
  } else if constexpr (requires { value.count(); }) {
    return value.count();
  } else {
    return value;
  }
}

/// A number as it is shown.
Doc number_shown(const Field& field, int64_t number) {
  if (field.type == FieldType::kBool) return Doc(number != 0);
  if (field.type != FieldType::kEnum) return Doc(number);
  const Doc word(choices_of(field).at(static_cast<size_t>(number)));
  return word.integer() ? Doc(*word.integer()) : word;
}

/// Adds the rows of a driver, each after the row that it names. Drivers may share a key of "lnd tunables": the row of
/// the first driver describes it.
void rows_add(std::vector<Field>& all, std::span<const DriverField> rows) {
  const auto place = [&](std::string_view path) {
    return std::find_if(all.begin(), all.end(), [&](const Field& one) { return one.path == path; });
  };
  std::string_view before;
  for (const DriverField& row : rows) {
    if (place(row.path) != all.end()) continue;
    auto at = place(row.after[0] != 0 ? row.after : before);
    if (at != all.end()) ++at;
    all.insert(at, field_with<FieldRef (*)(Slots&)>(row, nullptr));
    before = row.path;
  }
}

}  // namespace

std::span<const Field> fields() {
  static const std::vector<Field> all = [] {
    std::vector<Field> joined(lnet_fields().begin(), lnet_fields().end());
    joined.insert(joined.end(), ulnet_fields().begin(), ulnet_fields().end());
    for (const DriverFields& driver : driver_fields()) {
      rows_add(joined, driver.settings);
      rows_add(joined, driver.ni_tunables);
    }
    return joined;
  }();
  return all;
}

const Field* field_find(std::string_view path) {
  static const std::unordered_map<std::string_view, const Field*> index = [] {
    std::unordered_map<std::string_view, const Field*> map;
    for (const Field& field : fields()) map.emplace(field.path, &field);
    return map;
  }();
  auto found = index.find(path);
  return found == index.end() ? nullptr : found->second;
}

std::vector<std::string> field_children(std::string_view path) {
  std::vector<std::string> children;
  std::string prefix = path.empty() ? "" : std::string(path) + '.';
  for (const Field& field : fields()) {
    std::string_view full = field.path;
    if (!full.starts_with(prefix) || full.size() == prefix.size()) continue;
    std::string_view rest = full.substr(prefix.size());
    if (rest.find('.') == std::string_view::npos) children.emplace_back(rest);
  }
  return children;
}

std::string field_nearest(std::string_view path, std::string_view key) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, std::min<size_t>(key.size(), 64) / 3) + 1;
  if (key.size() > 64) return best;
  for (const std::string& child : field_children(path)) {
    size_t distance = edit_distance(child, key);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = child;
  }
  return best;
}

std::string field_allowed(const Field& field) {
  switch (field.type) {
    case FieldType::kMap: return "a map";
    case FieldType::kList: return "a list";
    case FieldType::kBool: return "true or false";
    case FieldType::kInteger:
    case FieldType::kSeconds:
    case FieldType::kMilliseconds: {
      std::string unit = field.unit[0] != 0 ? std::string(" ") + field.unit : "";
      if (field.max >= INT32_MAX) return std::to_string(field.min) + unit + " or more";
      return std::to_string(field.min) + ".." + std::to_string(field.max) + unit;
    }
    case FieldType::kEnum: {
      std::string out;
      std::vector<std::string_view> words = choices_of(field);
      for (size_t i = 0; i < words.size(); ++i) {
        if (i > 0) out += i + 1 == words.size() ? " or " : ", ";
        out += words[i];
      }
      return out;
    }
    case FieldType::kText: return "a text";
    case FieldType::kNet: return "a network such as tcp, tcp1 or o2ib3";
    case FieldType::kNid: return "a NID such as 10.0.0.1@tcp";
    case FieldType::kInterfaces: return "a map of interfaces such as 0: eth0 or 0: eth0[0,2]";
    case FieldType::kCptList: return "a list in brackets such as \"[0,1]\"";
    case FieldType::kCoreList: return "auto, or a list such as 2-5,8";
    case FieldType::kTextList: return "a map such as 0: VALUE, or a list";
    case FieldType::kRaw:
    case FieldType::kIgnored: return "anything";
  }
  return "";
}

std::string field_default(const Field& field) {
  if (field.home != FieldHome::kModel) return number_shown(field, field.number).text();
  if (field.at == nullptr) return field.default_text != nullptr ? field.default_text : "";
  Slots slots;
  Doc value = field_value(field, slots);
  if (value.is_null()) return "none";
  if (field.path == std::string_view("ulnet.socket.mode")) return "0660";
  return value.kind() == Doc::Kind::kText && value.text().empty() ? "\"\"" : value.text();
}

std::optional<int64_t> field_number(const Field& field, const Doc& value) {
  switch (field.type) {
    case FieldType::kBool: {
      std::optional<bool> flag = value.boolean();
      return flag ? std::optional<int64_t>(*flag ? 1 : 0) : std::nullopt;
    }
    case FieldType::kInteger:
    case FieldType::kSeconds:
    case FieldType::kMilliseconds: return value_wrong(field, value).empty() ? value.integer() : std::nullopt;
    case FieldType::kEnum: {
      std::vector<std::string_view> words = choices_of(field);
      auto found = std::find(words.begin(), words.end(), value.text());
      if (found == words.end()) return std::nullopt;
      return found - words.begin();
    }
    case FieldType::kMap:
    case FieldType::kList:
    case FieldType::kText:
    case FieldType::kNet:
    case FieldType::kNid:
    case FieldType::kInterfaces:
    case FieldType::kCptList:
    case FieldType::kCoreList:
    case FieldType::kTextList:
    case FieldType::kRaw:
    case FieldType::kIgnored: return std::nullopt;
  }
  return std::nullopt;
}

std::string field_assign(const Field& field, const Doc& value, Slots& slots) {
  std::string wrong = value_wrong(field, value);
  if (wrong.empty() && field.home == FieldHome::kDriver)
    driver_value_set(slots.ulnet.driver, field.path, *field_number(field, value));
  if (!wrong.empty() || field.at == nullptr) return wrong;
  std::visit(
      [&](auto target) {
        using T = std::remove_pointer_t<decltype(target)>;
        if constexpr (std::is_same_v<decltype(target), std::monostate>) {
        } else if constexpr (std::is_same_v<T, Doc>) {
          *target = value;
        } else if constexpr (std::is_same_v<T, std::string>) {
          *target = value.text();
        } else if constexpr (std::is_same_v<T, bool>) {
          *target = *value.boolean();
        } else {
          *target = static_cast<T>(*field_number(field, value));
        }
      },
      field.at(slots));
  return {};
}

bool field_has_value(const Field& field) {
  return field.at != nullptr || field.home == FieldHome::kDriver;
}

Doc field_value(const Field& field, Slots& slots) {
  if (field.home == FieldHome::kDriver) return number_shown(field, driver_value(slots.ulnet.driver, field.path));
  if (field.at == nullptr) return {};
  return std::visit(
      [&](auto target) -> Doc {
        if constexpr (std::is_same_v<decltype(target), std::monostate>) {
          return {};
        } else {
          return shown(field, *target);
        }
      },
      field.at(slots));
}

int64_t driver_value(const DriverValues& values, std::string_view path) {
  if (const auto found = values.find(path); found != values.end()) return found->second;
  const Field* field = field_find(path);
  return field == nullptr ? 0 : field->number;
}

void driver_value_set(DriverValues& values, std::string_view path, int64_t number) {
  values.erase(std::string(path));
  if (driver_value(values, path) != number) values.emplace(path, number);
}

std::vector<int64_t> driver_values(std::span<const DriverField> rows, const DriverValues& values) {
  std::vector<int64_t> numbers;
  for (const DriverField& row : rows) numbers.push_back(driver_value(values, row.path));
  return numbers;
}

std::vector<int64_t> ni_values(std::span<const DriverField> rows, const std::map<std::string, int64_t>& set,
                               const DriverValues& values, Seconds transmit_timeout) {
  std::vector<int64_t> numbers;
  for (const DriverField& row : rows) {
    const auto found = set.find(std::string(field_name(row.path)));
    const int64_t usual = row.setting[0] != 0 ? driver_value(values, row.setting) : row.number;
    int64_t number = found != set.end() ? found->second : usual;
    if (number == 0 && row.transmit_timeout) number = transmit_timeout.count();
    if (number == 0 && row.setting[0] != 0) number = usual;
    numbers.push_back(number);
  }
  return numbers;
}

std::string_view field_name(std::string_view path) {
  return path.substr(path.rfind('.') + 1);
}

const Field* ni_key_find(std::string_view name) {
  return field_find("net.local NI(s).lnd tunables." + std::string(name));
}

const DriverField* ni_row_find(NetType type, std::string_view name) {
  for (const DriverFields& driver : driver_fields())
    for (const DriverField& row : driver.ni_tunables)
      if (driver.net_type == type && field_name(row.path) == name) return &row;
  return nullptr;
}

bool ni_setting_is(std::string_view path) {
  for (const DriverFields& driver : driver_fields())
    for (const DriverField& row : driver.ni_tunables)
      if (row.setting == path) return true;
  return false;
}

}  // namespace ulnet::config
