// A place in a document while it is being imported: the node, how a user would name it, and its place in the field
// table. Only for import*.cc.
#pragma once
#include <functional>
#include <string>

#include "config/load.h"
#include "config/schema.h"

namespace ulnet::config {

/// Most mistakes, and most warnings, that are reported of one file.
inline constexpr size_t kProblemsMax = 1000;

struct Cursor {
  const Doc* doc = nullptr;
  Mark mark;           ///< of the value, or of its key when the value is empty
  std::string shown;   ///< net[0].local NI(s)[1].tunables
  std::string schema;  ///< net.local NI(s).tunables
};

/// State that the functions of an import share: the destination of their reports, and the texts of these.
class Context {
 public:
  Context(const std::string& file, ImportMode import_mode, Imported& imported)
      : out(imported), mode(import_mode), file_(file) {}

  Imported& out;
  const ImportMode mode;
  std::optional<int64_t> seq_no;  ///< of the list entry at hand
  bool discovered_said = false;   ///< the warning about discovered peers has been given

  /// Reports a mistake at `at`; `value` is quoted when it is a scalar.
  void wrong(const Cursor& at, std::string what, std::string allowed = {}, int code = -EINVAL);
  void warn(const Cursor& at, std::string what);
  /// Adds a change that the document requests at `at`.
  void change(const Cursor& at, Change change);

  /// Calls `fn(key, child, field)` for each known key of a map. Unknown keys and a node that is not a map are reported;
  /// ignored keys and empty nodes are skipped. `alias` may translate a key before it is looked up.
  using KeyFn = std::function<void(const std::string& key, const Cursor& child, const Field& field)>;
  void each_key(const Cursor& map, const KeyFn& fn, const std::function<std::string(const std::string&)>& alias = {});
  /// Calls `fn` for each item of a list that is a map, with `seq_no` set; a single map counts as a list of one.
  void each_item(const Cursor& list, const std::function<void(const Cursor&)>& fn);
  /// Values of a map `0: x`, a list of texts, or one text.
  [[nodiscard]] std::vector<Cursor> texts(const Cursor& at);
  /// Checks a scalar against the field and stores it. False when it was wrong (and reported).
  bool assign(const Cursor& at, const Field& field, Slots& slots);
  /// The value as a number, or nothing (and reported).
  std::optional<int64_t> number(const Cursor& at, const Field& field);

 private:
  [[nodiscard]] Problem problem(const Cursor& at, std::string what) const;

  const std::string& file_;
  bool full_ = false;
};

}  // namespace ulnet::config
