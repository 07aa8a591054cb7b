#include "control/api/schema.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/ranges.h"
#include "dataplane/base/check.h"
#include "dataplane/base/nid_text.h"

namespace ulnet::api {
namespace {

std::string text_of(const Json& json, const char* key) {
  auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<int64_t> integer_of(const Json& json, const char* key) {
  auto found = json.find(key);
  if (found == json.end() || !found->is_number_integer()) return std::nullopt;
  if (found->is_number_unsigned() && found->get<uint64_t>() > INT64_MAX) return std::nullopt;
  return found->get<int64_t>();
}

}  // namespace

Request Request::of(Call call, Json args) {
  const CallRow& row = row_of(call);
  ULNET_CHECK(args_wrong(row, args).empty());
  Request request;
  request.verb = row.verb;
  request.object = row.object;
  request.args = std::move(args);
  return request;
}

int64_t Request::arg_integer(const char* key, int64_t otherwise) const {
  return integer_of(args, key).value_or(otherwise);
}

bool Request::arg_bool(const char* key) const {
  auto found = args.find(key);
  return found != args.end() && found->is_boolean() && found->get<bool>();
}

std::string Request::arg_text(const char* key) const {
  return text_of(args, key);
}

tl::expected<std::vector<Nid>, std::string> Request::arg_nids(const char* key) const {
  auto found = args.find(key);
  if (found == args.end() || !found->is_array() || found->empty())
    return tl::unexpected(fmt::format("'{}' must be a list of NIDs", key));
  if (found->size() > config::kRangeMax) return tl::unexpected(fmt::format("more than {} NIDs", config::kRangeMax));
  std::vector<Nid> nids;
  for (const Json& item : *found) {
    auto nid = item.is_string() ? nid_parse(item.get_ref<const std::string&>()) : fail(EINVAL, "");
    if (!nid || nid->is_any())
      return tl::unexpected(fmt::format("{} is not a NID such as 10.0.0.1@tcp", config::json_dump(item)));
    nids.push_back(*nid);
  }
  return nids;
}

Answer answer_error(std::string verb, std::string entity, int code, std::string descr) {
  Answer answer;
  answer.errors.push_back({std::move(verb), std::move(entity), code, std::move(descr), {}});
  return answer;
}

Answer answer_change_errors(const config::ChangeList& changes, const config::Problems& errors) {
  Answer answer;
  for (const config::Problem& error : errors) {
    const config::PlacedChange& placed = changes.at(error.index);
    std::string descr = error.what;
    if (!placed.origin.file.empty())
      descr += fmt::format(" ({}:{}:{})", placed.origin.file, placed.origin.mark.line, placed.origin.mark.column);
    answer.errors.push_back(
        {change_verb(placed.change), change_entity(placed.change), error.code, std::move(descr), placed.origin.seq_no});
  }
  return answer;
}

Json hello_json(const std::string& role, const std::string& version) {
  return {{"ulnet", kProtocolVersion}, {"role", role}, {"version", version}};
}

tl::expected<Caller, std::string> hello_read(const Json& json) {
  std::optional<int64_t> protocol = json.is_object() ? integer_of(json, "ulnet") : std::nullopt;
  if (!protocol)
    return tl::unexpected(
        std::string("the first frame must be a hello: {\"ulnet\": 1, \"role\": ..., \"version\": ...}"));
  Caller caller;
  caller.role = text_of(json, "role").substr(0, 64);
  caller.version = text_of(json, "version").substr(0, 64);
  caller.pid = static_cast<pid_t>(integer_of(json, "pid").value_or(-1));
  if (*protocol != kProtocolVersion) {
    return tl::unexpected(
        fmt::format("control protocol {} here, {} there ({} {}): use ulnetctl and ulnetd of one version",
                    kProtocolVersion, *protocol, caller.role, caller.version));
  }
  return caller;
}

Json request_to_json(const Request& request) {
  Json json = {{"id", request.id}, {"verb", verb_text(request.verb)}};
  if (request.verb == Verb::kChange) {
    Json changes = Json::array();
    for (const config::PlacedChange& change : request.changes) changes.push_back(change_to_json(change));
    json["changes"] = std::move(changes);
  } else {
    json["object"] = request.object;
  }
  if (!request.args.empty()) json["args"] = request.args;
  return json;
}

tl::expected<Request, BadRequest> request_from_json(const Json& json) {
  Request request;
  auto bad = [&](std::string verb, std::string entity, std::string what) {
    return tl::unexpected(BadRequest{request.id, {std::move(verb), std::move(entity), -EINVAL, std::move(what), {}}});
  };
  std::optional<int64_t> id = json.is_object() ? integer_of(json, "id") : std::nullopt;
  if (!id || *id <= 0) return bad("parser", "request", "a request must be an object with an 'id' above 0");
  request.id = static_cast<uint64_t>(*id);
  std::string verb = text_of(json, "verb");
  const auto known = verb_find(verb);
  if (!known)
    return bad("parser", "request", fmt::format("unknown verb '{}'; known: change, show, manage, reset", verb));
  request.verb = *known;
  request.object = text_of(json, "object");
  if (auto args = json.find("args"); args != json.end()) {
    if (!args->is_object()) return bad(verb, request.object, "'args' must be an object");
    request.args = *args;
  }
  if (request.verb != Verb::kChange && request.object.empty()) return bad(verb, "request", "'object' is missing");
  if (const auto call = request.call()) {
    if (std::string wrong = args_wrong(row_of(*call), request.args); !wrong.empty())
      return bad(verb, request.object, std::move(wrong));
  }
  if (request.verb != Verb::kChange) return request;
  auto changes = json.find("changes");
  if (changes == json.end() || !changes->is_array() || changes->empty() || changes->size() > config::kChangesMax) {
    return bad("set", "request", fmt::format("'changes' must be a list of 1 to {} changes", config::kChangesMax));
  }
  request.changes.reserve(changes->size());
  for (const Json& item : *changes) {
    auto change = config::change_from_json(item);
    if (!change) return bad("set", "change", fmt::format("change {}: {}", request.changes.size(), change.error()));
    request.changes.push_back(std::move(*change));
  }
  return request;
}

Json answer_to_json(uint64_t id, const Answer& answer) {
  Json json = {{"id", id}, {"ok", answer.ok()}};
  if (!answer.doc.is_null()) json["doc"] = config::to_json(answer.doc);
  if (!answer.errors.empty()) {
    Json errors = Json::array();
    for (const ApiError& error : answer.errors) {
      Json one = {{"verb", error.verb}, {"entity", error.entity}, {"errno", error.code}, {"descr", error.descr}};
      if (error.seq_no) one["seq_no"] = *error.seq_no;
      errors.push_back(std::move(one));
    }
    json["errors"] = std::move(errors);
  }
  if (!answer.notes.empty()) json["notes"] = answer.notes;
  if (!answer.warnings.empty()) json["warnings"] = answer.warnings;
  if (answer.more) json["more"] = true;
  return json;
}

tl::expected<AnswerFrame, std::string> answer_from_json(const Json& json) {
  std::optional<int64_t> id = json.is_object() ? integer_of(json, "id") : std::nullopt;
  if (!id || *id < 0) return tl::unexpected(std::string("an answer without an id"));
  AnswerFrame out;
  out.id = static_cast<uint64_t>(*id);
  if (auto doc = json.find("doc"); doc != json.end()) out.answer.doc = config::from_json(*doc);
  if (auto more = json.find("more"); more != json.end()) out.answer.more = more->is_boolean() && more->get<bool>();
  for (const auto& [key, lines] :
       {std::pair("notes", &out.answer.notes), std::pair("warnings", &out.answer.warnings)}) {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_array()) continue;
    for (const Json& line : *found)
      if (line.is_string()) lines->push_back(line.get<std::string>());
  }
  if (auto errors = json.find("errors"); errors != json.end() && errors->is_array()) {
    for (const Json& item : *errors) {
      if (!item.is_object()) continue;
      int64_t code = std::clamp<int64_t>(integer_of(item, "errno").value_or(-EIO), INT32_MIN, INT32_MAX);
      out.answer.errors.push_back({text_of(item, "verb"), text_of(item, "entity"), static_cast<int>(code),
                                   text_of(item, "descr"), integer_of(item, "seq_no")});
    }
  }
  return out;
}

void doc_join(Doc& whole, Doc part) {
  if (!whole.is_map() || !part.is_map()) {
    if (!part.is_null()) whole = std::move(part);
    return;
  }
  for (Doc::Entry& entry : part.entries()) {
    auto same = std::find_if(whole.entries().begin(), whole.entries().end(),
                             [&](const Doc::Entry& one) { return one.key == entry.key; });
    if (same == whole.entries().end()) {
      whole.entries().push_back(std::move(entry));
    } else if (same->value.is_list() && entry.value.is_list()) {
      for (Doc::Entry& item : entry.value.entries()) same->value.entries().push_back(std::move(item));
    } else {
      same->value = std::move(entry.value);
    }
  }
}

std::string frame(std::string_view body) {
  auto size = static_cast<uint32_t>(body.size());
  std::string out;
  out.reserve(body.size() + 4);
  for (unsigned shift = 0; shift < 32; shift += 8) out += static_cast<char>(size >> shift);
  out += body;
  return out;
}

constexpr size_t kKeptBytes = 256u << 10;  // of a reader between two frames

tl::expected<std::optional<std::string>, std::string> FrameReader::next() {
  unfinished_ = 0;
  if (buffer_.size() - taken_ < 4) return std::nullopt;
  uint32_t size = 0;
  for (unsigned i = 0; i < 4; ++i)
    size |= static_cast<uint32_t>(static_cast<unsigned char>(buffer_[taken_ + i])) << (8 * i);
  if (size > max_) return tl::unexpected(fmt::format("a frame of {} bytes; allowed: {}", size, max_));
  if (buffer_.size() - taken_ - 4 < size) {
    buffer_.erase(0, taken_);
    taken_ = 0;
    unfinished_ = size;
    return std::nullopt;
  }
  std::string body = buffer_.substr(taken_ + 4, size);
  taken_ += 4 + size;
  if (taken_ == buffer_.size()) {
    if (buffer_.capacity() > kKeptBytes) buffer_ = {};
    buffer_.clear();
    taken_ = 0;
  }
  return body;
}

}  // namespace ulnet::api
