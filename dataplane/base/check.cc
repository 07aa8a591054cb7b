#include "dataplane/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace ulnet {

void check_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "ulnet: broken invariant at %s:%d: %s\n", file, line, expression);
  std::abort();
}

}  // namespace ulnet
