// A document: ordered maps, lists and scalars, each with its place in the file. YAML input, the output of commands and
// the content of the control socket are Docs. Control side only: a Doc allocates memory. The meaning of keys is defined
// elsewhere: schema.h (meaning) and import.h (typed changes).
#pragma once
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dataplane/base/problem.h"

namespace ulnet::config {

using ulnet::Mark;

/// One node of a document. A value type: copies are deep. Equality compares content in order, not marks.
/// Integers are int64_t; a larger unsigned number is kept as its decimal text.
class Doc {
 public:
  enum class Kind : uint8_t { kNull, kBool, kInteger, kReal, kText, kList, kMap };
  struct Entry;

  Doc() = default;
  // Implicit on purpose: a Doc is built from plain values, as in doc.set("status", "up").
  Doc(bool value) : kind_(Kind::kBool), number_(value ? 1 : 0) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) Doc(T value) {
    if (std::in_range<int64_t>(value)) {
      kind_ = Kind::kInteger;
      number_ = static_cast<int64_t>(value);
    } else {
      kind_ = Kind::kText;
      text_ = std::to_string(value);
    }
  }
  Doc(double value) : kind_(Kind::kReal), real_(value) {}
  Doc(std::string value) : kind_(Kind::kText), text_(std::move(value)) {}
  Doc(std::string_view value) : kind_(Kind::kText), text_(value) {}
  Doc(const char* value) : kind_(Kind::kText), text_(value) {}
  static Doc map();
  static Doc list();

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] bool is_null() const { return kind_ == Kind::kNull; }
  [[nodiscard]] bool is_map() const { return kind_ == Kind::kMap; }
  [[nodiscard]] bool is_list() const { return kind_ == Kind::kList; }
  [[nodiscard]] bool is_scalar() const { return !is_map() && !is_list() && !is_null(); }
  /// "a map", "a list", "a number", ...: for messages.
  [[nodiscard]] const char* kind_text() const;

  /// Sets `key` of a map (a null becomes a map), replacing what it held. Returns the value stored, valid until the next
  /// change of this map. Requires: null or map.
  Doc& set(std::string_view key, Doc value);
  /// The value of `key`, or nullptr (also when this is not a map).
  [[nodiscard]] const Doc* find(std::string_view key) const;
  /// Appends to a list (a null becomes a list). Returns the item stored, valid until the next change of this list.
  Doc& push(Doc value);
  /// Entries of a map, or items of a list (with empty keys), in order; empty for anything else.
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] std::vector<Entry>& entries() { return entries_; }
  [[nodiscard]] size_t size() const { return entries_.size(); }
  /// Item `index` of a list or value of the entry at `index` of a map. Requires: index < size().
  [[nodiscard]] const Doc& at(size_t index) const;

  /// The scalar as text: "true", "-1", "10.0.0.1@tcp"; empty for null, maps and lists.
  [[nodiscard]] std::string text() const;
  /// The value of an integer, or of text that is a whole decimal, 0x or octal number; else nothing.
  [[nodiscard]] std::optional<int64_t> integer() const;
  /// The value of a boolean, of text true/false in any case, or of the numbers 0 and 1; else nothing.
  [[nodiscard]] std::optional<bool> boolean() const;
  /// The value of a real; 0 for anything else.
  [[nodiscard]] double real() const { return real_; }

  Mark mark;

  friend bool operator==(const Doc& left, const Doc& right);

 private:
  Kind kind_ = Kind::kNull;
  int64_t number_ = 0;
  double real_ = 0;
  std::string text_;
  std::vector<Entry> entries_;
};

/// One key of a map with its value; in a list the key is empty.
struct Doc::Entry {
  std::string key;
  Mark mark;  ///< of the key
  Doc value;
};

/// The whole of `text` as a number: decimal, 0x hexadecimal or 0 octal, with an optional sign. Nothing when it is not
/// one or does not fit.
[[nodiscard]] std::optional<int64_t> integer_parse(std::string_view text);

/// The number of a plain scalar that YAML reads as one: decimal, and written as to_string() writes it. Nothing for all
/// else.
[[nodiscard]] std::optional<int64_t> canonical_integer(std::string_view text);

}  // namespace ulnet::config
