// ulnet-perf: how fast, how late and how reliably LNet moves messages between two nodes. docs/ulnet-perf.md.
#include <cstdio>
#include <cstring>

#include "perf/echo/wire_command.h"
#include "tools/ulnet-perf/run.h"

int main(int argc, char** argv) {
  using namespace ulnet::perf;
  if (argc > 1 && std::strcmp(argv[1], "wire") == 0) return wire(argc - 1, argv + 1);
  const auto options = options_parse({argv + 1, argv + argc});
  if (!options) {
    std::fputs(options.error().text.c_str(), options.error().exit_code == 0 ? stdout : stderr);
    return options.error().exit_code;
  }
  Signals signals;
  Screen screen(options->json);
  if (options->serve) return serve(*options, signals, screen);
  if (!options->node.socket.empty()) return generate_there(*options, signals, screen);
  return generate_here(*options, signals, screen);
}
