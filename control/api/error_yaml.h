// Errors as lnetctl prints them, and the exit status that goes with them. Source: docs/wire/lnetctl.md §6.
#pragma once
#include <string>
#include <vector>

#include "config/emit.h"
#include "control/api/schema.h"

namespace ulnet::api {

/// The errors as one document: verb -> list -> entity with errno and descr. In the classic layout errno and descr are
/// below the entity, in the netlink ones beside it.
[[nodiscard]] Doc error_doc(const std::vector<ApiError>& errors, config::Layout layout);
/// The text for standard error: today's layouts (`---` before and `...` after, but for ping and discover), "" without
/// errors.
[[nodiscard]] std::string error_yaml(const std::vector<ApiError>& errors);
/// The same in the older layout.
[[nodiscard]] std::string error_yaml_classic(const std::vector<ApiError>& errors);

/// 0 without errors, 255 when a ping or discovery failed, else 234 (the low byte of -EINVAL), whatever the errno.
[[nodiscard]] int exit_status(const std::vector<ApiError>& errors);

}  // namespace ulnet::api
