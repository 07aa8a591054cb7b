#include "tools/ulnetctl/run.h"

#include <signal.h>
#include <unistd.h>

#include <iostream>
#include <sstream>

#include "control/api/base64.h"
#include "control/api/client.h"
#include "control/api/error_yaml.h"
#include "tools/ulnetctl/output_file.h"

namespace ulnet::ctl {
namespace {

void errors_print(const Program& program, const std::vector<api::ApiError>& errors, std::ostream& err) {
  if (errors.empty()) return;
  if (program.json) {
    api::Answer answer;
    answer.errors = errors;
    config::Json json = answer_to_json(0, answer);
    json.erase("id");
    err << config::json_dump(json) << "\n";
  } else {
    err << (program.classic ? api::error_yaml_classic(errors) : api::error_yaml(errors));
  }
}

/// Warns about settings that are accepted without effect. The exit status stays 0.
void warnings_print(const Program& program, const std::vector<std::string>& warnings, std::ostream& err) {
  if (warnings.empty()) return;
  if (program.json) {
    err << config::json_dump({{"ok", true}, {"warnings", warnings}}) << "\n";
  } else {
    for (const std::string& warning : warnings) err << "warning: " << warning << "\n";
  }
}

void doc_print(const Program& program, const config::Doc& doc, std::ostream& out) {
  if (program.json) {
    out << config::to_json(doc).dump(2, ' ', false, config::Json::error_handler_t::replace) << "\n";
  } else {
    out << (program.classic ? config::emit_classic(doc) : config::emit(doc));
  }
}

/// The error for a request that could not be made at all, with the verb and entity of that request.
api::ApiError call_error(const api::Request& request, const api::ApiError& failure) {
  if (request.verb == api::Verb::kChange && !request.changes.empty()) {
    const config::Change& first = request.changes[0].change;
    return {change_verb(first), change_entity(first), failure.code, failure.descr, {}};
  }
  return {verb_text(request.verb), request.object, failure.code, failure.descr, {}};
}

/// Gets the bytes of a capture. False: they cannot be written.
using Bytes = std::function<bool(std::string_view bytes)>;

/// Gives a part of a capture to `bytes`. False: it cannot be written, or is not one.
bool pcapng_take(const api::Answer& part, const Bytes& bytes) {
  const config::Doc* capture = part.doc.find("capture");
  const config::Doc* text = capture != nullptr ? capture->find("pcapng") : nullptr;
  const auto decoded = text != nullptr ? api::base64_decode(text->text()) : std::nullopt;
  return decoded && bytes({reinterpret_cast<const char*>(decoded->data()), decoded->size()});
}

/// Prints each item of a part as a line of JSON. False: it cannot be written.
bool lines_print(const api::Answer& part, std::ostream& out) {
  for (const config::Doc::Entry& list : part.doc.entries())
    for (const config::Doc::Entry& item : list.value.entries())
      if (!(out << config::json_dump(config::to_json(item.value)) << std::endl)) return false;
  return true;
}

/// The operator ends a `watch` with a signal, and each line is out by then.
void end_by_signal() {
  struct sigaction action {};
  action.sa_handler = [](int) { _exit(0); };
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

int requests_run(const Program& program, const Command& command, std::ostream& out, std::ostream& err,
                 const Bytes& bytes) {
  api::ClientOptions options{.path = program.socket, .version = program.version, .timeout = command.timeout};
  options.on_note = [&err](const std::string& note) { err << "note: " << note << std::endl; };
  auto client = api::Client::connect(options);
  std::vector<api::ApiError> errors = command.errors;
  api::Client::PartFn on_part;
  if (command.pcapng) on_part = [&bytes](const api::Answer& part) { return pcapng_take(part, bytes); };
  if (command.lines) {
    end_by_signal();
    on_part = [&out](const api::Answer& part) { return lines_print(part, out); };
  }
  for (const api::Request& request : command.requests) {
    tl::expected<api::Answer, api::ApiError> answer =
        client ? client->call(request, on_part)
               : tl::expected<api::Answer, api::ApiError>(tl::unexpected(client.error()));
    if (!answer) {
      errors.push_back(call_error(request, answer.error()));
      if (command.lines && answer.error().code == -ECONNRESET)
        errors.back().descr = program.socket + ": ulnetd has ended, or has closed the connection; see its log";
      break;
    }
    warnings_print(program, answer->warnings, err);
    if (command.filter) answer->doc = command.filter(answer->doc);
    if (!answer->doc.is_null()) doc_print(program, answer->doc, command.pcapng ? err : out);
    errors.insert(errors.end(), answer->errors.begin(), answer->errors.end());
    if (!answer->ok()) break;
  }
  out.flush();
  errors_print(program, errors, err);
  return errors.empty() ? command.exit_status : api::exit_status(errors);
}

int write_failed(const Program& program, const Command& command, const std::string& why, std::ostream& err) {
  errors_print(program, {{"export", command.requests[0].object, -EIO, why, {}}}, err);
  return 234;
}

/// Writes the output to a file when the output is complete.
int run_into_file(const Program& program, const Command& command, std::ostream& err) {
  std::ostringstream shown;
  const int status = requests_run(program, command, shown, err, {});
  if (status != command.exit_status) return status;
  OutputFile file(command.output_file);
  auto written = file.write(shown.view());
  if (written) written = file.put_in_place();
  return written ? status : write_failed(program, command, written.error(), err);
}

/// Writes a capture to a file while it is made. The file takes its name with the first packets. The operator ends a
/// capture with a signal, and the file is in place by then.
int capture_into_file(const Program& program, const Command& command, std::ostream& err) {
  OutputFile file(command.output_file);
  bool in_place = false;
  std::string failed;
  const Bytes write = [&](std::string_view bytes) {
    auto written = file.write(bytes);
    if (written && !std::exchange(in_place, true)) written = file.put_in_place();
    if (!written) failed = written.error();
    return written.has_value();
  };
  std::ostringstream nothing;
  const int status = requests_run(program, command, nothing, err, write);
  if (failed.empty() && in_place) {
    if (auto written = file.put_in_place(); !written) failed = written.error();
  }
  return failed.empty() ? status : write_failed(program, command, failed, err);
}

}  // namespace

tl::expected<Program, std::string> program_options(std::vector<std::string>& words) {
  Program program;
  std::vector<std::string> rest;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string name = words[i], value;
    size_t equals = name.find('=');
    bool has_value = name.starts_with("--") && equals != std::string::npos;
    if (has_value) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    if (name == "--json" && !has_value) {
      program.json = true;
    } else if (name == "--socket" || name == "--layout") {
      if (!has_value && i + 1 == words.size()) return tl::unexpected(name + " needs a value");
      if (!has_value) value = words[++i];
      if (name == "--socket") program.socket = value;
      if (name == "--layout" && value != "classic" && value != "upstream") {
        return tl::unexpected("--layout '" + value + "'; allowed: classic or upstream");
      }
      if (name == "--layout") program.classic = value == "classic";
    } else {
      rest.push_back(words[i]);
    }
  }
  words = std::move(rest);
  return program;
}

int run(const Program& program, std::span<const std::string> words, const Env& env, std::ostream& out,
        std::ostream& err) {
  Built built = command_build(words, env);
  if (!built) {
    errors_print(program, built.error().errors, err);
    err << built.error().usage;
    return built.error().exit_status;
  }
  err << built->warnings;
  out << built->text;
  if (built->requests.empty()) return built->exit_status;
  if (built->output_file.empty()) {
    return requests_run(program, *built, out, err, [&out](std::string_view bytes) {
      out.write(bytes.data(), std::streamsize(bytes.size()));
      return bool(out.flush());
    });
  }
  return built->pcapng ? capture_into_file(program, *built, err) : run_into_file(program, *built, err);
}

tl::expected<std::vector<std::string>, std::string> line_split(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  bool inside = false;
  char quote = 0;
  for (char c : line) {
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
      inside = true;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      if (inside) words.push_back(std::exchange(word, {}));
      inside = false;
    } else if (c == '#' && !inside) {
      break;
    } else {
      word += c;
      inside = true;
    }
  }
  if (quote != 0) return tl::unexpected(std::string("a quote that is not closed"));
  if (inside) words.push_back(std::move(word));
  return words;
}

int run_lines(const Program& program, std::istream& in, bool terminal, const Env& env, std::ostream& out,
              std::ostream& err) {
  bool ignore_errors = terminal;
  int status = 0;
  std::string line;
  while (true) {
    if (terminal) out << "ulnetctl > " << std::flush;
    if (!std::getline(in, line)) break;
    auto words = line_split(line);
    if (!words) {
      err << "ulnetctl: " << words.error() << "\n";
      status = 1;
    } else if (words->empty()) {
      continue;
    } else if (words->front() == "quit" || words->front() == "exit") {
      return status;
    } else if (words->front() == "ignore_errors" || words->front() == "--ignore_errors") {
      ignore_errors = true;
      continue;
    } else {
      int one = run(program, *words, env, out, err);
      status = one != 0 ? one : status;
    }
    if (status != 0 && !ignore_errors) return status;
  }
  if (terminal) out << "\n";
  return status;
}

}  // namespace ulnet::ctl
