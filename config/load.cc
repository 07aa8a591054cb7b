#include "config/load.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <sstream>

#include "config/import.h"

namespace ulnet::config {
namespace {

/// Thrown by Builder through yaml-cpp's parser; caught in yaml_read.
Problem refused(Mark mark, std::string value, std::string what) {
  Problem problem;
  problem.mark = mark;
  problem.value = std::move(value);
  problem.what = std::move(what);
  problem.entity = "import";
  return problem;
}

Mark mark_of(const YAML::Mark& mark) {
  if (mark.is_null()) return {};
  return {static_cast<uint32_t>(mark.line) + 1, static_cast<uint32_t>(mark.column) + 1};
}

/// True when the quoted scalar at `position` has no closing quote. yaml-cpp takes the rest of the file for its text
/// then.
bool quote_unclosed(std::string_view text, size_t position) {
  while (position < text.size() && (text[position] == '!' || text[position] == ' ')) ++position;
  if (position >= text.size() || (text[position] != '"' && text[position] != '\'')) return false;
  const char quote = text[position];
  for (size_t i = position + 1; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      if (quote == '"' || i + 1 == text.size() || text[i + 1] != quote) return false;
      ++i;
    }
  }
  return true;
}

/// Builds documents from the parser's events.
class Builder : public YAML::EventHandler {
 public:
  explicit Builder(std::string_view text) : text_(text) {}

  std::vector<Doc> documents;

  void OnDocumentStart(const YAML::Mark&) override { root_ = Doc(); }
  void OnDocumentEnd() override { documents.push_back(std::move(root_)); }
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { place(Doc(), mark); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw refused(mark_of(mark), {}, "is an alias (*name), which is not supported; write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, const std::string& value) override {
    if (tag == "!" && mark.pos >= 0 && quote_unclosed(text_, static_cast<size_t>(mark.pos))) {
      throw refused(mark_of(mark), {}, "begins a quoted text that does not end");
    }
    if (awaits_key()) return key_set(value, mark);
    bool plain = tag == "?";
    std::optional<int64_t> number = plain ? canonical_integer(value) : std::nullopt;
    if (number) return place(Doc(*number), mark);
    if (plain && (value == "true" || value == "True")) return place(Doc(true), mark);
    if (plain && (value == "false" || value == "False")) return place(Doc(false), mark);
    place(Doc(value), mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    open(Doc::list(), mark);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    open(Doc::map(), mark);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Level {
    Doc doc;
    std::string key;
    Mark key_mark;
    bool has_key = false;
  };

  [[nodiscard]] bool awaits_key() const {
    return !levels_.empty() && levels_.back().doc.is_map() && !levels_.back().has_key;
  }

  void key_set(const std::string& key, const YAML::Mark& mark) {
    Level& level = levels_.back();
    if (level.doc.find(key) != nullptr) throw refused(mark_of(mark), key, "is here twice");
    if (level.doc.size() >= kMapKeysMax) throw refused(mark_of(mark), key, "is one key too many in this map");
    level.key = key;
    level.key_mark = mark_of(mark);
    level.has_key = true;
  }

  void open(Doc doc, const YAML::Mark& mark) {
    if (awaits_key()) throw refused(mark_of(mark), {}, "a key must be a plain text, not a list or map");
    if (levels_.size() >= static_cast<size_t>(kDepthMax)) throw refused(mark_of(mark), {}, "nested too deeply");
    doc.mark = mark_of(mark);
    levels_.push_back({std::move(doc), {}, {}, false});
  }

  void close() {
    Doc doc = std::move(levels_.back().doc);
    levels_.pop_back();
    put(std::move(doc));
  }

  void place(Doc doc, const YAML::Mark& mark) {
    if (awaits_key()) return key_set("", mark);
    doc.mark = mark_of(mark);
    put(std::move(doc));
  }

  void put(Doc doc) {
    if (levels_.empty()) {
      root_ = std::move(doc);
      return;
    }
    Level& level = levels_.back();
    if (level.doc.is_map()) {
      if (doc.mark.line == 0 || doc.is_null()) doc.mark = level.key_mark;  // the parser is beyond an empty value
      level.doc.entries().push_back({std::move(level.key), level.key_mark, std::move(doc)});
      level.has_key = false;
    } else {
      level.doc.entries().push_back({{}, doc.mark, std::move(doc)});
    }
  }

  std::string_view text_;
  Doc root_;
  std::vector<Level> levels_;
};

/// Length of the UTF-8 character at the front of `text`; 0 when it is none, or a control character other than tab and
/// line ends.
size_t character_length(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return (first >= 0x20 && first != 0x7F) || first == '\t' || first == '\n' || first == '\r' ? 1 : 0;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned second = byte(1);
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F)) return 0;  // overlong, surrogate
  return (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F) ? 0 : length;
}

/// Where `text` has something that is not text; nothing when all of it is.
std::optional<Mark> not_text(std::string_view text) {
  Mark at{1, 1};
  while (!text.empty()) {
    size_t length = character_length(text);
    if (length == 0) return at;
    ++at.column;
    if (text.front() == '\n') at = {at.line + 1, 1};
    text.remove_prefix(length);
  }
  return std::nullopt;
}

std::string yaml_reason(const YAML::Exception& exception) {
  return exception.msg.empty() ? "is not YAML" : "is not YAML: " + exception.msg;
}

}  // namespace

YamlText yaml_read(std::string_view text, const std::string& file) {
  YamlText result;
  auto refuse = [&](Problem problem) {
    problem.file = file.empty() ? "<text>" : file;
    result.errors.push_back(std::move(problem));
  };
  if (text.size() > kConfigBytesMax) {
    refuse(refused({}, {}, "is larger than 16 MiB"));
    return result;
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  if (auto mark = not_text(text)) {
    refuse(refused(*mark, {}, "is a byte that is not UTF-8 text, or a control character"));
    return result;
  }
  Builder builder(text);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Problem& problem) {
    refuse(problem);
  } catch (const YAML::Exception& exception) {
    refuse(refused(mark_of(exception.mark), {}, yaml_reason(exception)));
  }
  result.documents = std::move(builder.documents);
  return result;
}

namespace {

/// The order in which the changes of a file are applied, whatever the order of sections. Nets are added before the
/// objects that need them, and are deleted after these. Routes are deleted early, because a route prevents the deletion
/// of its gateway. UDSP rules have numbers, so that the last rule is deleted first. Rules without numbers follow.
std::pair<int, int64_t> turn_of(const PlacedChange& one) {
  if (std::holds_alternative<NetAdd>(one.change) || std::holds_alternative<NetAddMatching>(one.change)) return {0, 0};
  if (std::holds_alternative<RouteDel>(one.change)) return {1, 0};
  if (const auto* udsp = std::get_if<UdspDel>(&one.change)) return {3, -udsp->idx.value_or(-1)};
  return {std::holds_alternative<NetDel>(one.change) ? 4 : 2, 0};
}

}  // namespace

Imported load_text(std::string_view text, const std::string& file, ImportMode mode) {
  YamlText yaml = yaml_read(text, file);
  Imported imported;
  imported.errors = std::move(yaml.errors);
  if (!imported.errors.empty()) return imported;
  for (const Doc& document : yaml.documents) import_document(document, file, mode, imported);
  std::stable_sort(imported.changes.begin(), imported.changes.end(),
                   [](const PlacedChange& a, const PlacedChange& b) { return turn_of(a) < turn_of(b); });
  return imported;
}

Imported load_file(const std::string& path, ImportMode mode) {
  struct Close {
    void operator()(std::FILE* file) const {
      if (file != stdin) std::fclose(file);
    }
  };
  const std::string name = path == "-" ? "<stdin>" : path;
  std::unique_ptr<std::FILE, Close> file(path == "-" ? stdin : std::fopen(path.c_str(), "re"));
  std::string text;
  int error = file ? 0 : errno;
  std::vector<char> buffer(65536);
  while (file && text.size() <= kConfigBytesMax) {
    size_t count = std::fread(buffer.data(), 1, buffer.size(), file.get());
    text.append(buffer.data(), count);
    if (count < buffer.size()) {
      error = std::ferror(file.get()) != 0 ? (errno != 0 ? errno : EIO) : 0;
      break;
    }
  }
  if (error == 0) return load_text(text, name, mode);
  Imported imported;
  Problem problem = problem_of(error, std::string("cannot be read: ") + std::strerror(error));
  problem.file = name;
  problem.entity = "import";
  imported.errors.push_back(std::move(problem));
  return imported;
}

}  // namespace ulnet::config
