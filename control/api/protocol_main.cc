// Prints docs/control-socket.md.
#include <cstdio>

#include "control/api/protocol.h"

int main() {
  const std::string text = ulnet::api::protocol_reference();
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
}
