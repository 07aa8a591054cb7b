// Words of a command line to options and values.
#include <fmt/format.h>

#include <algorithm>

#include "tools/ulnetctl/command.h"

namespace ulnet::ctl {
namespace {

std::string normal(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

/// The option that `name` means: itself, or the only one that begins so.
tl::expected<const OptionSpec*, std::string> option_find(std::string_view name, std::span<const OptionSpec> options) {
  const std::string wanted = normal(name);
  const OptionSpec* match = nullptr;
  for (const OptionSpec& option : options) {
    const std::string one = normal(option.name);
    if (one == wanted) return &option;
    if (wanted.empty() || !one.starts_with(wanted)) continue;
    if (match != nullptr)
      return tl::unexpected(fmt::format("option '--{}' may mean --{} or --{}", name, match->name, option.name));
    match = &option;
  }
  if (match == nullptr) return tl::unexpected(fmt::format("unknown option '--{}'", name));
  return match;
}

bool is_value(const std::string& word) {
  return word.empty() || word[0] != '-' || word == "-" || config::integer_parse(word).has_value();
}

}  // namespace

std::optional<std::string> Words::value(const std::string& name) const {
  auto found = options_.find(name);
  return found == options_.end() ? std::nullopt : std::optional(found->second.back());
}

std::string Words::list(const std::string& name) const {
  auto found = options_.find(name);
  return found == options_.end() ? std::string() : fmt::format("{}", fmt::join(found->second, ","));
}

tl::expected<Words, std::string> words_parse(std::span<const std::string> words, std::span<const OptionSpec> options) {
  Words out;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") {
      out.plain.insert(out.plain.end(), words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
      break;
    }
    if (is_value(word)) {
      out.plain.push_back(word);
      continue;
    }
    const OptionSpec* option = nullptr;
    std::optional<std::string> value;
    if (word.starts_with("--")) {
      size_t equals = word.find('=');
      if (equals != std::string::npos) value = word.substr(equals + 1);
      auto found = option_find(
          std::string_view(word).substr(2, equals == std::string::npos ? std::string::npos : equals - 2), options);
      if (!found) return tl::unexpected(found.error());
      option = *found;
    } else {
      auto found =
          std::find_if(options.begin(), options.end(), [&](const OptionSpec& one) { return one.letter == word[1]; });
      if (found == options.end()) return tl::unexpected(fmt::format("unknown option '{}'", word));
      option = &*found;
      if (word.size() > 2) value = word.substr(2);
    }
    if (option->takes == Takes::kNothing && value)
      return tl::unexpected(fmt::format("option --{} takes no value", option->name));
    bool more = i + 1 < words.size();
    if (!value && option->takes == Takes::kValue) {
      if (!more) return tl::unexpected(fmt::format("option --{} needs a value", option->name));
      value = words[++i];
    }
    if (!value && option->takes == Takes::kOptional && more && is_value(words[i + 1])) value = words[++i];
    out.add(option->name, value.value_or(""));
  }
  return out;
}

}  // namespace ulnet::ctl
