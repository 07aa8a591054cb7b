// An error with a sentence made for it: for what an operator reads. Where no text may be made, Result and Error serve
// (dataplane/base/result.h).
#pragma once
#include <string>

#include "dataplane/base/result.h"

namespace ulnet {

struct TextError {
  int code = 0;      ///< negative errno
  std::string what;  ///< without a full stop
};
template <class T>
using TextResult = tl::expected<T, TextError>;

[[nodiscard]] inline tl::unexpected<TextError> fail_text(int code, std::string what) {
  return tl::unexpected<TextError>(TextError{code > 0 ? -code : code, std::move(what)});
}

}  // namespace ulnet
