// Prints config/reference.md from the field table.
#include <cstdio>

#include "config/schema.h"

int main() {
  return std::fputs(ulnet::config::reference_markdown().c_str(), stdout) < 0 ? 1 : 0;
}
