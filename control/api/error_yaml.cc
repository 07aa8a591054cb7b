#include "control/api/error_yaml.h"

#include <algorithm>

namespace ulnet::api {
namespace {

bool is_manage(const ApiError& error) {
  return error.verb == "manage";
}

}  // namespace

Doc error_doc(const std::vector<ApiError>& errors, config::Layout layout) {
  Doc doc = Doc::map();
  for (const ApiError& error : errors) {
    if (doc.find(error.verb) == nullptr) doc.set(error.verb, Doc::list());
    Doc item = Doc::map();
    Doc& entity = item.set(error.entity, layout == config::Layout::kClassic ? Doc::map() : Doc());
    Doc& fields = layout == config::Layout::kClassic ? entity : item;
    if (error.seq_no) fields.set("seq_no", *error.seq_no);
    fields.set("errno", error.code);
    fields.set("descr", error.descr);
    for (Doc::Entry& entry : doc.entries()) {
      if (entry.key == error.verb) entry.value.push(std::move(item));
    }
  }
  return doc;
}

std::string error_yaml(const std::vector<ApiError>& errors) {
  std::vector<ApiError> manage, others;
  std::partition_copy(errors.begin(), errors.end(), std::back_inserter(manage), std::back_inserter(others), is_manage);
  std::string out;
  if (!others.empty())
    out += "---\n" + emit(error_doc(others, config::Layout::kNetlink), config::Layout::kNetlink) + "...\n";
  if (!manage.empty()) out += emit(error_doc(manage, config::Layout::kNetlink2), config::Layout::kNetlink2);
  return out;
}

std::string error_yaml_classic(const std::vector<ApiError>& errors) {
  return errors.empty() ? std::string() : emit(error_doc(errors, config::Layout::kClassic), config::Layout::kClassic);
}

int exit_status(const std::vector<ApiError>& errors) {
  if (errors.empty()) return 0;
  return std::any_of(errors.begin(), errors.end(), is_manage) ? 255 : 234;
}

}  // namespace ulnet::api
