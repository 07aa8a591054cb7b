// ulnetctl: a thin client of ulnetd with lnetctl's commands.
#include <unistd.h>

#include <iostream>

#include "tools/ulnetctl/run.h"

namespace {

int run(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  auto program = ulnet::ctl::program_options(words);
  if (!program) {
    std::cerr << "ulnetctl: " << program.error() << "\n";
    return 1;
  }
  program->version = ULNET_VERSION;
  ulnet::ctl::Env env;
  env.version = program->version;
  if (!words.empty()) return ulnet::ctl::run(*program, words, env, std::cout, std::cerr);
  return ulnet::ctl::run_lines(*program, std::cin, isatty(STDIN_FILENO) != 0, env, std::cout, std::cerr);
}

}  // namespace

int main(int argc, char** argv) {
  const int status = run(argc, argv);
  if (std::cout.flush()) return status;
  std::cerr << "ulnetctl: the output cannot be written; is the disk full?\n";
  return status == 0 ? 1 : status;
}
