// ulnet-perf: how fast, how late and how reliably LNet moves messages between two nodes. docs/ulnet-perf.md.
#include <cstdio>
#include <cstring>

#include "perf/wire/wire_command.h"
#include "tools/ulnet-perf/run.h"

namespace {

using namespace ulnet::perf;

int run(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "wire") == 0) return wire(argc - 1, argv + 1);
  const auto options = options_parse({argv + 1, argv + argc});
  if (!options) {
    std::fputs(options.error().text.c_str(), options.error().exit_code == 0 ? stdout : stderr);
    return options.error().exit_code;
  }
  Signals signals;
  Screen screen(options->format);
  if (options->serve) std::signal(SIGPIPE, SIG_IGN);  // a reader that leaves ends the text, not the node
  if (options->serve) return serve(*options, signals, screen);
  return options->variants.empty() ? generate(*options, signals, screen) : generate_ab(*options, signals, screen);
}

}  // namespace

int main(int argc, char** argv) {
  const int status = run(argc, argv);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  std::fputs("ulnet-perf: the results cannot be written; is the disk full?\n", stderr);
  return status == 0 ? 1 : status;
}
