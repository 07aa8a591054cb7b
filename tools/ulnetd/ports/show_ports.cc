#include "tools/ulnetd/ports/show_ports.h"

#include "tools/ulnetd/ports/rdma_ports.h"

namespace ulnet {

api::Answer show_ports(Ports* ports, const std::filesystem::path& rdma, const api::Request& request) {
  const std::string wanted = request.arg_text("name");
  const int verbosity = int(request.arg_integer("verbose", 0));
  config::Doc list = config::Doc::list();
  std::string known;
  const auto is_shown = [&](const std::string& name) {
    known += (known.empty() ? "" : ", ") + name;
    return wanted.empty() || name == wanted;
  };
  if (ports != nullptr) {
    for (const std::string& name : ports->names())
      if (is_shown(name)) list.push(ports->shown(name, verbosity));
  }
  for (const RdmaPort& port : rdma_ports(rdma))
    if (is_shown(port.name)) list.push(rdma_port_doc(port, verbosity));
  if (!wanted.empty() && list.size() == 0) {
    return api::answer_error(
        "show", "port", -ENOENT,
        "there is no port '" + wanted + "'; " + (known.empty() ? "none is known" : "known: " + known));
  }
  api::Answer answer;
  if (list.size() > 0) answer.doc.set("port", std::move(list));
  return answer;
}

}  // namespace ulnet
