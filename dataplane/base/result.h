// The error of a function: a negative errno as LNet uses it, a static sentence, and the number of an object. Errors use
// no heap, so that any code may return them, also on the data path.
#pragma once
#include <cerrno>
#include <cstdint>
#include <tl/expected.hpp>

namespace ulnet {

struct Error {
  int32_t code = 0;       ///< negative errno
  const char* what = "";  ///< static sentence without a full stop: the mistake and, where it helps, the remedy
  uint64_t object = 0;    ///< number of the thing it is about (index, id, byte offset); 0 when there is none
};

template <class T>
using Result = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> fail(int code, const char* what, uint64_t object = 0) {
  return tl::unexpected<Error>(Error{code > 0 ? -code : code, what, object});
}

}  // namespace ulnet
