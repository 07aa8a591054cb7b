// import and export.
#include <fmt/format.h>

#include "control/api/error_yaml.h"
#include "dataplane/base/nid_text.h"
#include "tools/ulnetctl/builders.h"

namespace ulnet::ctl {
namespace {

const char* mode_verb(config::ImportMode mode) {
  switch (mode) {
    case config::ImportMode::kAdd: return "add";
    case config::ImportMode::kDel: return "del";
    case config::ImportMode::kShow: return "show";
    case config::ImportMode::kExec: return "manage";
  }
  return "";
}

Exit problems_refuse(const config::Problems& problems, const char* verb) {
  Exit end;
  for (const config::Problem& problem : problems) {
    end.errors.push_back({verb, problem.entity.empty() ? "import" : problem.entity, problem.code,
                          config::problem_text(problem), problem.seq_no});
  }
  end.exit_status = 234;
  return end;
}

/// The show request that belongs to a section of a file; nothing for sections that cannot be shown.
std::optional<api::Request> section_show(const std::string& section) {
  const std::string object = section == "buffers"      ? "routing"
                             : section == "numa"       ? "global"
                             : section == "statistics" ? "stats"
                             : section == "ip2nets"    ? "net"
                             : section == "policy"     ? "udsp"
                             : section == "selection"  ? "udsp"
                                                       : section;
  if (section == "ulnet") return std::nullopt;
  api::Request request;  // ulnetd refuses an object that it does not show
  request.verb = api::Verb::kShow;
  request.object = object;
  return request;
}

api::Request exec_request(const config::ExecRequest& exec) {
  config::Json nids = config::Json::array();
  for (const Nid& nid : exec.nids) nids.push_back(nid_text(nid));
  config::Json args = {{"nids", std::move(nids)}};
  if (exec.object == "discover") {
    args["force"] = exec.force;
    return api::Request::of(api::Call::kDiscover, std::move(args));
  }
  args["timeout_ms"] = exec.timeout.count();
  if (exec.source) args["source"] = nid_text(*exec.source);
  return api::Request::of(api::Call::kPing, std::move(args));
}

}  // namespace

Built import_file(const Words& words, const Env& env) {
  int modes = (words.has("add") ? 1 : 0) + (words.has("del") ? 1 : 0) + (words.has("show") ? 1 : 0) +
              (words.has("exec") ? 1 : 0);
  if (modes > 1) return refuse("add", "import", -EINVAL, "give only one of --add, --del, --show and --exec");
  if (words.plain.size() > 1) return refuse("add", "import", -EINVAL, "give only one file");
  config::ImportMode mode = words.has("del")    ? config::ImportMode::kDel
                            : words.has("show") ? config::ImportMode::kShow
                            : words.has("exec") ? config::ImportMode::kExec
                                                : config::ImportMode::kAdd;
  config::Imported imported = env.load(words.plain.empty() ? "-" : words.plain[0], mode);
  if (!imported.errors.empty()) return tl::unexpected(problems_refuse(imported.errors, mode_verb(mode)));
  Command command;
  if (words.has("old-api")) command.warnings = "warning: --old-api has no effect: ulnetd has only one interface\n";
  for (const config::Problem& warning : imported.warnings)
    command.warnings += "warning: " + config::problem_text(warning) + "\n";
  if (!imported.changes.empty()) {
    api::Request request = api::Request::of(api::Call::kChange);
    request.changes = std::move(imported.changes);
    command.requests.push_back(std::move(request));
  }
  for (const std::string& section : imported.sections) {
    auto request = section_show(section);
    bool again = request && !command.requests.empty() && command.requests.back().object == request->object;
    if (request && !again) command.requests.push_back(std::move(*request));
  }
  for (const config::ExecRequest& exec : imported.exec) {
    command.requests.push_back(exec_request(exec));
    command.timeout = std::max(command.timeout, std::chrono::milliseconds(600000));
  }
  return command;
}

Built export_file(const Words& words, const Env&) {
  if (words.plain.size() > 1) return refuse("export", "export", -EINVAL, "give only one file");
  Command command = command_of(api::Call::kShowExport, {{"backup", words.has("backup")}});
  if (!words.plain.empty()) command.output_file = words.plain[0];
  return command;
}

}  // namespace ulnet::ctl
