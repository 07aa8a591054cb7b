// Carries a command out: sends its requests, prints results and failures.
#pragma once
#include <iosfwd>

#include "tools/ulnetctl/command.h"

namespace ulnet::ctl {

/// The program's own options.
struct Program {
  std::string socket = api::kDefaultSocket;
  bool json = false;     ///< print JSON instead of YAML
  bool classic = false;  ///< print the older layout
  std::string version;
};

/// Takes --socket, --json and --layout out of `words`, wherever they stand. Errors: a sentence.
[[nodiscard]] tl::expected<Program, std::string> program_options(std::vector<std::string>& words);

/// Builds and carries out one command line. Returns the exit status.
int run(const Program& program, std::span<const std::string> words, const Env& env, std::ostream& out,
        std::ostream& err);
/// Reads command lines from `in` until it ends, or quit. Stops at a failure unless it is a terminal or ignore_errors
/// was said.
int run_lines(const Program& program, std::istream& in, bool terminal, const Env& env, std::ostream& out,
              std::ostream& err);

/// Splits a line into words; quotes keep blanks. Errors: a quote that is not closed.
[[nodiscard]] tl::expected<std::vector<std::string>, std::string> line_split(std::string_view line);

}  // namespace ulnet::ctl
