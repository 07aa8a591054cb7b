#include "config/doc.h"

#include <cctype>
#include <charconv>
#include <utility>

namespace ulnet::config {
namespace {

/// True for `text` equal to `word` when case is ignored; `word` is lower case.
bool is_word(std::string_view text, std::string_view word) {
  if (text.size() != word.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(text[i])) != word[i]) return false;
  }
  return true;
}

}  // namespace

std::optional<int64_t> integer_parse(std::string_view text) {
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  int base = 10;
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
    base = 16;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text[0] == '0') {
    base = 8;
    text.remove_prefix(1);
  }
  if (text.empty() || text[0] == '-' || text[0] == '+') return std::nullopt;
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (value > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  return negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
}

std::optional<int64_t> canonical_integer(std::string_view text) {
  std::string_view digits = text;
  if (digits.starts_with('-')) digits.remove_prefix(1);
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  if ((digits[0] == '0' && digits.size() > 1) || text == "-0") return std::nullopt;
  return integer_parse(text);
}

Doc Doc::map() {
  Doc doc;
  doc.kind_ = Kind::kMap;
  return doc;
}

Doc Doc::list() {
  Doc doc;
  doc.kind_ = Kind::kList;
  return doc;
}

const char* Doc::kind_text() const {
  switch (kind_) {
    case Kind::kNull: return "nothing";
    case Kind::kBool: return "a boolean";
    case Kind::kInteger: return "a number";
    case Kind::kReal: return "a real number";
    case Kind::kText: return "a text";
    case Kind::kList: return "a list";
    case Kind::kMap: return "a map";
  }
  return "";
}

Doc& Doc::set(std::string_view key, Doc value) {
  if (is_null()) kind_ = Kind::kMap;
  for (Entry& entry : entries_) {
    if (entry.key == key) return entry.value = std::move(value);
  }
  entries_.push_back(Entry{std::string(key), {}, std::move(value)});
  return entries_.back().value;
}

const Doc* Doc::find(std::string_view key) const {
  if (!is_map()) return nullptr;
  for (const Entry& entry : entries_) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

Doc& Doc::push(Doc value) {
  if (is_null()) kind_ = Kind::kList;
  entries_.push_back(Entry{{}, {}, std::move(value)});
  return entries_.back().value;
}

const Doc& Doc::at(size_t index) const {
  return entries_.at(index).value;
}

std::string Doc::text() const {
  switch (kind_) {
    case Kind::kBool: return number_ != 0 ? "true" : "false";
    case Kind::kInteger: return std::to_string(number_);
    case Kind::kReal: {
      char buffer[64];
      auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, real_);
      std::string text(buffer, error == std::errc{} ? end : buffer);
      if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
      return text;
    }
    case Kind::kText: return text_;
    case Kind::kNull:
    case Kind::kList:
    case Kind::kMap: return {};
  }
  return {};
}

std::optional<int64_t> Doc::integer() const {
  if (kind_ == Kind::kInteger) return number_;
  if (kind_ == Kind::kText) return integer_parse(text_);
  return std::nullopt;
}

std::optional<bool> Doc::boolean() const {
  if (kind_ == Kind::kBool || (kind_ == Kind::kInteger && (number_ == 0 || number_ == 1))) return number_ != 0;
  if (kind_ != Kind::kText) return std::nullopt;
  if (is_word(text_, "true") || text_ == "1") return true;
  if (is_word(text_, "false") || text_ == "0") return false;
  return std::nullopt;
}

bool operator==(const Doc& left, const Doc& right) {
  if (left.kind_ != right.kind_ || left.number_ != right.number_ || left.text_ != right.text_) return false;
  if (left.kind_ == Doc::Kind::kReal && left.text() != right.text()) return false;
  if (left.size() != right.size()) return false;
  for (size_t i = 0; i < left.size(); ++i) {
    if (left.entries_[i].key != right.entries_[i].key) return false;
    if (!(left.entries_[i].value == right.entries_[i].value)) return false;
  }
  return true;
}

}  // namespace ulnet::config
