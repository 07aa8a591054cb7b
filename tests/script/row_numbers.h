// The values of a driver's keys by row, as a node gives them to the driver. For tests of each row.
#pragma once
#include <string_view>
#include <vector>

#include "lnd/driver.h"

namespace ulnet::test {

class RowNumbers {
 public:
  using Rows = std::span<const DriverField>;
  /// Each row has its default. An NI's row with a setting behind it has 0, which stands for that setting.
  RowNumbers(Rows setting_rows, Rows tunable_rows) : setting_rows_(setting_rows), tunable_rows_(tunable_rows) {
    for (const DriverField& row : setting_rows_) settings.push_back(row.number);
    for (const DriverField& row : tunable_rows_) tunables.push_back(row.setting[0] != 0 ? 0 : row.number);
  }
  void set(std::string_view key, int64_t number) {
    for (size_t i = 0; i < settings.size(); ++i)
      if (setting_rows_[i].path == key) settings[i] = number;
    for (size_t i = 0; i < tunables.size(); ++i)
      if (tunable_rows_[i].path == key) tunables[i] = number;
  }
  /// The NI's values as the node gives them to a running NI: the setting in the place of a 0.
  [[nodiscard]] std::vector<int64_t> for_running_ni() const {
    std::vector<int64_t> numbers = tunables;
    for (size_t i = 0; i < numbers.size(); ++i)
      for (size_t j = 0; j < settings.size(); ++j)
        if (numbers[i] == 0 && setting_rows_[j].path == std::string_view(tunable_rows_[i].setting))
          numbers[i] = settings[j];
    return numbers;
  }
  /// Null: no row has this key.
  [[nodiscard]] const DriverField* row_of(std::string_view key) const {
    for (const Rows& rows : {setting_rows_, tunable_rows_})
      for (const DriverField& row : rows)
        if (row.path == key) return &row;
    return nullptr;
  }
  std::vector<int64_t> settings, tunables;

 private:
  Rows setting_rows_, tunable_rows_;
};

}  // namespace ulnet::test
