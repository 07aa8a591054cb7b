// The result of parsing a command line: requests to ulnetd, or text that needs none. Pure: nothing here connects to a
// daemon, so that tests of all commands, also of commands that must fail, need none. Source: docs/wire/lnetctl.md §1.
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "config/load.h"
#include "config/ranges.h"
#include "control/api/schema.h"

namespace ulnet::ctl {

/// The actions of one command line.
struct Command {
  std::vector<api::Request> requests;        ///< one after the other; the first failure ends it
  std::string text;                          ///< for standard output, before the requests
  std::vector<api::ApiError> errors;         ///< words that give no request; reported with the answers, as a failure
  std::string warnings;                      ///< for standard error
  std::string output_file;                   ///< receives the output; empty = standard output
  bool pcapng = false;                       ///< parts are pieces of a pcapng file; the rest goes to standard error
  bool lines = false;                        ///< each item of a part is printed at once, as a line of JSON
  std::chrono::milliseconds timeout{30000};  ///< how long to wait for ulnetd
  int exit_status = 0;                       ///< when all went well

  /// The part of an answer that is printed; empty = all of it.
  std::function<config::Doc(const config::Doc&)> filter;
};

/// The end of the program without a command: help, or errors of the command line.
struct Exit {
  std::vector<api::ApiError> errors;  ///< as YAML to standard error; may be empty
  std::string usage;                  ///< text for standard error; may be empty
  int exit_status = 1;
};
using Built = tl::expected<Command, Exit>;

/// The access to files, and the version, that a builder may use.
struct Env {
  std::function<config::Imported(const std::string& path, config::ImportMode mode)> load = config::load_file;
  std::string version;
};

enum class Takes : uint8_t { kNothing, kValue, kOptional };

/// An option: `name` without the dashes; '_' and '-' count as the same, and a beginning that no other option shares is
/// enough.
struct OptionSpec {
  const char* name;
  Takes takes;
  const char* help;
  char letter = 0;
};

/// The options and words of one command line.
class Words {
 public:
  std::vector<std::string> plain;  ///< words that are no options

  void add(const std::string& name, std::string value) { options_[name].push_back(std::move(value)); }
  [[nodiscard]] bool has(const std::string& name) const { return options_.count(name) != 0; }
  /// The last value given, or nothing.
  [[nodiscard]] std::optional<std::string> value(const std::string& name) const;
  /// All values of an option that may be repeated, joined by commas.
  [[nodiscard]] std::string list(const std::string& name) const;

 private:
  std::map<std::string, std::vector<std::string>> options_;
};

/// Splits words into options and the rest. An optional value may follow as a word of its own (-v 4). Errors: a
/// sentence.
[[nodiscard]] tl::expected<Words, std::string> words_parse(std::span<const std::string> words,
                                                           std::span<const OptionSpec> options);

/// One command of the tree.
struct CommandSpec {
  const char* group;  ///< "net"
  const char* name;   ///< "add", or two words ("net add"); empty for commands of one word
  const char* summary;
  std::span<const OptionSpec> options;
  Built (*build)(const Words& words, const Env& env);
  const char* arguments = "";  ///< for the usage: "NID[,NID...]"
  int help_status = 1;         ///< exit status of --help, as lnetctl has it
};

/// All commands, in the order of the help.
[[nodiscard]] std::span<const CommandSpec> commands();
/// Builds the command of `words` (without the program's name and its own options).
[[nodiscard]] Built command_build(std::span<const std::string> words, const Env& env);

/// Words that are not in the tree: quit, help, version, ... with every group, as --list-commands prints them.
[[nodiscard]] std::string command_list();
/// Help of one command, of all commands of a group, or of everything.
[[nodiscard]] std::string help_text(std::string_view group, std::string_view name);

// ---- for the builders ----

/// One error, with the exit status that belongs to it.
[[nodiscard]] tl::unexpected<Exit> refuse(const char* verb, const char* entity, int code, std::string descr);
/// A command of one request.
[[nodiscard]] Command command_of(api::Call call, config::Json args = config::Json::object());
/// A command of one request with these changes, each checked first. The first that is wrong is refused.
[[nodiscard]] Built change(std::vector<config::Change> changes);

/// The option as a number that the key `path` of the field table allows. Nothing when it is not given. Errors: refused
/// under `verb` and `entity`.
[[nodiscard]] tl::expected<std::optional<int64_t>, Exit> number(const Words& words, const char* option,
                                                                std::string_view path, const char* verb,
                                                                const char* entity);
/// Adds the option that has the name of the argument `row` to `args`, if it is given. Errors: not a number, or not
/// within the bounds of the row; refused under `verb` and `entity`.
[[nodiscard]] tl::expected<void, Exit> number_set(config::Json& args, const Words& words, const api::ArgRow& row,
                                                  const char* verb, const char* entity);
/// --verbose: 0 when it is not given, 1 without a value. Errors: not 0..4.
[[nodiscard]] tl::expected<int64_t, Exit> verbosity(const Words& words, const char* entity);

}  // namespace ulnet::ctl
