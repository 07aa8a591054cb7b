// The record of a driver: its name, its net type, the rows of its configuration keys, and how it is opened. Nothing
// outside the driver's folder names its settings. A key is written once, as a row that points at a member of the
// driver's own struct; the default is that of the member. Thread: control, start-up and configuration only.
#pragma once
#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "dataplane/base/field.h"
#include "lnd/lnd.h"

namespace ulnet {

class PortUser;  // lnd/net/dpdk/port_user_ctl.h

// --- Rows ------------------------------------------------------------------------------------------------------------

/// Where the value of a row lives in the driver's struct `S`. Values travel as plain numbers. A boolean is 0 or 1, an
/// enumeration its index, a time a number of the row's unit.
template <class S>
struct SettingPlace {
  int64_t (*get)(const S& settings, FieldType type) = nullptr;
  void (*set)(S& settings, FieldType type, int64_t number) = nullptr;
  bool given = false;  ///< whether the row has a member; GCC 12 with sanitizers compares no function while it compiles
};
template <class S>
using SettingRow = BasicField<SettingPlace<S>>;

template <auto kMember>
struct MemberOf;
template <class S, class T, T S::*kMember>
struct MemberOf<kMember> {
  static constexpr Duration unit(FieldType type) { return type == FieldType::kMilliseconds ? Duration(1ms) : 1s; }
  static constexpr int64_t get(const S& settings, FieldType type) {
    if constexpr (std::is_same_v<T, Duration>)
      return settings.*kMember / unit(type);
    else
      return static_cast<int64_t>(settings.*kMember);
  }
  static constexpr void set(S& settings, FieldType type, int64_t number) {
    if constexpr (std::is_same_v<T, Duration>)
      settings.*kMember = number * unit(type);
    else
      settings.*kMember = static_cast<T>(number);
  }
  static constexpr SettingPlace<S> kPlace{&MemberOf::get, &MemberOf::set, true};
};
/// For `.at`: the value lives in this member.
template <auto kMember>
inline constexpr auto kAt = MemberOf<kMember>::kPlace;

/// Whether each row has a member of its own: a value that is set through one row shows in that row only.
template <class S, size_t kRows>
constexpr bool rows_apart(const SettingRow<S> (&rows)[kRows]) {
  for (size_t i = 0; i < kRows; ++i) {
    if (!rows[i].at.given) continue;
    S defaults{}, settings{};
    const int64_t other = rows[i].at.get(defaults, rows[i].type) == 0 ? 1 : 0;
    rows[i].at.set(settings, rows[i].type, other);
    for (size_t j = 0; j < kRows; ++j) {
      if (!rows[j].at.given) continue;
      const int64_t expected = i == j ? other : rows[j].at.get(defaults, rows[j].type);
      if (rows[j].at.get(settings, rows[j].type) != expected) return false;
    }
  }
  return true;
}

/// Rows as others see them, each with the default that its member has.
template <class S, size_t kRows>
constexpr std::array<DriverField, kRows> plain_fields(const SettingRow<S> (&rows)[kRows], FieldHome home) {
  const S defaults{};
  std::array<DriverField, kRows> out{};
  for (size_t i = 0; i < kRows; ++i) {
    out[i] = field_with(rows[i], NoPlace{});
    if (!rows[i].at.given) continue;
    out[i].home = home;
    out[i].number = rows[i].at.get(defaults, rows[i].type);
  }
  return out;
}

/// The values of `settings` by row.
template <class S, size_t kRows>
std::vector<int64_t> setting_numbers(const SettingRow<S> (&rows)[kRows], const S& settings) {
  std::vector<int64_t> numbers;
  for (const SettingRow<S>& row : rows) numbers.push_back(!row.at.given ? 0 : row.at.get(settings, row.type));
  return numbers;
}

/// The driver's struct from the values by row; a row beyond the last number keeps its default.
template <class S, size_t kRows>
S settings_of(const SettingRow<S> (&rows)[kRows], std::span<const int64_t> numbers) {
  S settings;
  for (size_t i = 0; i < std::min(kRows, numbers.size()); ++i)
    if (rows[i].at.given) rows[i].at.set(settings, rows[i].type, numbers[i]);
  return settings;
}

// --- The record ------------------------------------------------------------------------------------------------------

/// The parameters of DriverType::open.
struct DriverContext {
  std::span<const int64_t> settings;  ///< by row of DriverType::settings
  unsigned workers = 1;
  uint64_t incarnation = 1;  ///< unique per life of the node: real time in ns
  bool ports = false;        ///< the process opens packet ports, and reports them to Driver::port_user()
  uint64_t seed = 0;         ///< of numbers that peers should not guess
};

/// How a driver moves bytes: for the journal ("sockets: io_uring"). An empty text stands for nothing to report.
struct DriverNote {
  std::string_view about;
  std::string text;
};

/// One opened driver: everything that both halves of one node stand on, such as engines and sockets. Outlives the node.
class Driver {
 public:
  virtual ~Driver() = default;
  /// Once per node.
  [[nodiscard]] virtual std::unique_ptr<LndControl> make_control(LndControlHost& host) = 0;
  /// Called once per worker, after make_control; core.worker_id() is that worker.
  [[nodiscard]] virtual std::unique_ptr<Lnd> make_worker(LndCore& core) = 0;
  /// New values of the settings, by row. A driver follows each row that does not need a restart. Thread: control of the
  /// node, while the node lives.
  virtual void retune(std::span<const int64_t> settings, Instant now) { (void)settings, (void)now; }
  [[nodiscard]] virtual DriverNote note() const { return {}; }
  /// The part of the driver that uses packet ports; null: none. Lives as long as the driver.
  [[nodiscard]] virtual PortUser* port_user() { return nullptr; }
};

struct DriverType {
  std::string_view name;  ///< "socklnd"
  NetType net_type = NetType::kLo;
  bool by_ip = false;                             ///< the system's IP routes lead its traffic
  std::span<const DriverField> settings = {};     ///< rows below `ulnet:`
  std::span<const DriverField> ni_tunables = {};  ///< rows below "lnd tunables"
  /// Errors: missing resources, each as a sentence.
  Result<std::unique_ptr<Driver>> (*open)(const DriverContext& context) = nullptr;
};

/// One driver as a Node gets it. Number 0 of a Node must be loopback.
struct LndEntry {
  const DriverType* type = nullptr;
  /// Called once per worker; core.worker_id() is that worker.
  std::function<std::unique_ptr<Lnd>(LndCore& core)> make_worker_half;
  std::function<std::unique_ptr<LndControl>(LndControlHost& host)> make_control_half;
};

/// Values of settings: by driver in the order of driver_types(), then by row.
using DriverNumbers = std::vector<std::vector<int64_t>>;

/// The opened drivers of one node. Outlives the Node.
class Drivers {
 public:
  /// Opens every driver of driver_types(), in this context but for the settings. Errors: those of the first driver that
  /// cannot be opened.
  [[nodiscard]] static Result<Drivers> open(const DriverNumbers& settings, DriverContext context);
  /// Loopback first.
  [[nodiscard]] std::vector<LndEntry> entries() const;
  void retune(const DriverNumbers& settings, Instant now) const;
  struct Note {
    NetType net_type;
    DriverNote note;
  };
  /// Of the drivers that use packet ports.
  [[nodiscard]] std::vector<PortUser*> port_users() const;
  /// Of the drivers that have something to report.
  [[nodiscard]] std::vector<Note> notes() const;

 private:
  struct Opened {
    const DriverType* type;
    std::unique_ptr<Driver> driver;
  };
  std::vector<Opened> all_;
};

}  // namespace ulnet
