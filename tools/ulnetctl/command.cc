#include "tools/ulnetctl/command.h"

#include <fmt/format.h>

#include "config/schema.h"
#include "control/api/error_yaml.h"

namespace ulnet::ctl {

tl::unexpected<Exit> refuse(const char* verb, const char* entity, int code, std::string descr) {
  Exit end;
  end.errors.push_back({verb, entity, code, std::move(descr), {}});
  end.exit_status = api::exit_status(end.errors);
  return tl::unexpected(std::move(end));
}

Command command_of(api::Call call, config::Json args) {
  Command command;
  command.requests.push_back(api::Request::of(call, std::move(args)));
  return command;
}

Built change(std::vector<config::Change> changes) {
  Command command;
  api::Request request = api::Request::of(api::Call::kChange);
  for (config::Change& one : changes) {
    std::string wrong = change_wrong(one);
    if (!wrong.empty()) return refuse(change_verb(one), change_entity(one), -EINVAL, std::move(wrong));
    request.changes.push_back({std::move(one), {}});
  }
  command.requests.push_back(std::move(request));
  return command;
}

tl::expected<std::optional<int64_t>, Exit> number(const Words& words, const char* option, std::string_view path,
                                                  const char* verb, const char* entity) {
  std::optional<std::string> text = words.value(option);
  if (!text) return std::nullopt;
  const config::Field& field = *config::field_find(path);
  std::optional<int64_t> value = config::field_number(field, config::Doc(*text));
  if (value) return value;
  config::Slots slots;
  std::string wrong = config::field_assign(field, config::Doc(*text), slots);
  return refuse(verb, entity, wrong == "is out of range" ? -ERANGE : -EINVAL,
                fmt::format("--{}: '{}' {}; allowed: {}", option, *text, wrong, field_allowed(field)));
}

tl::expected<void, Exit> number_set(config::Json& args, const Words& words, const api::ArgRow& row, const char* verb,
                                    const char* entity) {
  const std::string name(row.name);
  const std::optional<std::string> text = words.value(name);
  if (!text) return {};
  const std::optional<int64_t> value = config::integer_parse(*text);
  if (!value || *value < row.min || *value > row.max)
    return refuse(verb, entity, -EINVAL,
                  fmt::format("--{}: '{}' is not a number that is allowed: {}..{}{}{}", name, *text, row.min, row.max,
                              row.unit.empty() ? "" : " ", row.unit));
  args[name] = *value;
  return {};
}

tl::expected<int64_t, Exit> verbosity(const Words& words, const char* entity) {
  std::optional<std::string> text = words.value("verbose");
  if (!text) return 0;
  if (text->empty()) return 1;
  std::optional<int64_t> level = config::integer_parse(*text);
  if (level && *level >= 0 && *level <= 4) return *level;
  return refuse("show", entity, -EINVAL, fmt::format("--verbose: '{}' is not a level; allowed: 0..4", *text));
}

}  // namespace ulnet::ctl
