#include "config/cursor.h"

#include <fmt/format.h>

namespace ulnet::config {

Problem Context::problem(const Cursor& at, std::string what) const {
  Problem problem;
  problem.file = file_;
  problem.mark = at.mark;
  problem.path = at.shown;
  if (at.doc != nullptr && at.doc->is_scalar()) problem.value = at.doc->text().substr(0, 200);
  problem.what = std::move(what);
  problem.entity = at.shown.substr(0, at.shown.find_first_of(".["));
  problem.seq_no = seq_no;
  return problem;
}

void Context::wrong(const Cursor& at, std::string what, std::string allowed, int code) {
  if (out.errors.size() >= kProblemsMax) return;
  Problem found = problem(at, std::move(what));
  found.allowed = std::move(allowed);
  found.code = code;
  out.errors.push_back(std::move(found));
}

void Context::warn(const Cursor& at, std::string what) {
  if (out.warnings.size() < kProblemsMax) out.warnings.push_back(problem(at, std::move(what)));
}

void Context::change(const Cursor& at, Change change) {
  if (out.changes.size() >= kChangesMax) {
    if (!full_) wrong(at, fmt::format("is more than {} changes", kChangesMax));
    full_ = true;
    return;
  }
  out.changes.push_back({std::move(change), {file_, at.mark, seq_no}});
}

void Context::each_key(const Cursor& map, const KeyFn& fn,
                       const std::function<std::string(const std::string&)>& alias) {
  if (map.doc->is_null()) return;
  if (!map.doc->is_map()) return wrong(map, fmt::format("is {}", map.doc->kind_text()), "a map");
  for (const Doc::Entry& entry : map.doc->entries()) {
    std::string key = alias ? alias(entry.key) : entry.key;
    if ((key.empty() && !entry.key.empty()) || key == "seq_no") continue;
    Cursor child;
    child.doc = &entry.value;
    child.mark = entry.value.mark.line != 0 ? entry.value.mark : entry.mark;
    child.shown = map.shown.empty() ? entry.key : map.shown + '.' + entry.key;
    child.schema = map.schema.empty() ? key : map.schema + '.' + key;
    const Field* field = field_find(child.schema);
    if (field == nullptr) {
      child.mark = entry.mark;
      child.doc = nullptr;
      std::string nearest = field_nearest(map.schema, key);
      wrong(child, nearest.empty() ? "unknown key" : fmt::format("unknown key; did you mean '{}'?", nearest));
    } else if (field->type != FieldType::kIgnored) {
      fn(key, child, *field);
    } else if (key.ends_with("tcp bonding") || key == "use_tcp_bonding") {
      if (entry.value.text() != "0") warn(child, "has no effect; configure several NIs on the net instead of bonding");
    }
  }
}

void Context::each_item(const Cursor& list, const std::function<void(const Cursor&)>& fn) {
  if (list.doc->is_null()) return;
  if (list.doc->is_scalar()) return wrong(list, fmt::format("is {}", list.doc->kind_text()), "a list");
  auto one = [&](const Cursor& item) {
    if (!item.doc->is_map()) return wrong(item, fmt::format("is {}", item.doc->kind_text()), "a map");
    std::optional<int64_t> outer = seq_no;
    if (const Doc* number = item.doc->find("seq_no")) {
      seq_no = number->integer();
      if (!seq_no) wrong(item, "has a seq_no that is not a number");
    }
    fn(item);
    seq_no = outer;
  };
  if (list.doc->is_map()) return one(list);
  for (size_t i = 0; i < list.doc->size(); ++i) {
    Cursor item;
    item.doc = &list.doc->at(i);
    item.mark = item.doc->mark.line != 0 ? item.doc->mark : list.mark;
    item.shown = fmt::format("{}[{}]", list.shown, i);
    item.schema = list.schema;
    one(item);
  }
}

std::vector<Cursor> Context::texts(const Cursor& at) {
  std::vector<Cursor> found;
  if (at.doc->is_null()) return found;
  if (at.doc->is_scalar()) return {at};
  for (size_t i = 0; i < at.doc->size(); ++i) {
    const Doc::Entry& entry = at.doc->entries()[i];
    Cursor child;
    child.doc = &entry.value;
    child.mark = entry.value.mark.line != 0 ? entry.value.mark : at.mark;
    child.shown = at.doc->is_map() ? at.shown + '.' + entry.key : fmt::format("{}[{}]", at.shown, i);
    child.schema = at.schema;
    if (entry.value.is_scalar()) {
      found.push_back(child);
    } else {
      wrong(child, fmt::format("is {}", entry.value.kind_text()), "a text");
    }
  }
  return found;
}

bool Context::assign(const Cursor& at, const Field& field, Slots& slots) {
  std::string bad = field_assign(field, *at.doc, slots);
  if (bad.empty()) return true;
  if (!at.doc->is_scalar()) bad = fmt::format("is {}", at.doc->kind_text());
  wrong(at, bad, field_allowed(field));
  return false;
}

std::optional<int64_t> Context::number(const Cursor& at, const Field& field) {
  std::optional<int64_t> value = field_number(field, *at.doc);
  if (!value) {
    Slots slots;
    assign(at, field, slots);
  }
  return value;
}

}  // namespace ulnet::config
