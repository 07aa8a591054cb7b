// libulnet from C++ in one page: a node serves memory on a portal; another node puts a greeting there and gets it back.
// Both are in this process, on 127.0.0.1 and 127.0.0.2, and need no root.
//
// Build: c++ -std=c++20 putget.cc $(pkg-config --cflags --libs ulnet-cxx)
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <ulnet.hh>
#include <utility>

namespace {

constexpr ulnet::PortalIndex kPortal{20};
constexpr uint64_t kBits = 0x1234;
constexpr char kGreeting[] = "hello over LNet";

[[noreturn]] void die(const char* what, const std::string& why) {
  std::fprintf(stderr, "putget: %s: %s\n", what, why.c_str());
  std::exit(1);
}

/// The value of a call that must succeed. Its error is either a sentence or an errno with a sentence.
template <class Got>
auto must(Got result, const char* what) {
  if (!result) die(what, result.error().what);
  if constexpr (!std::is_void_v<typename Got::value_type>) return std::move(*result);
}

/// Both nodes need the same port, and another run a different one.
std::unique_ptr<ulnet::Instance> open_node(const std::string& nid) {
  ulnet::InstanceOptions options;
  options.config = "net:\n    - net type: tcp\n      local NI(s):\n        - nid: " + nid +
                   "\nulnet:\n    workers: 1\n    unprivileged_ports: true\n    accept_port: " +
                   std::to_string(20000 + getpid() % 10000) + "\n";
  return must(ulnet::Instance::open(options), nid.c_str());
}

/// A node that uses memory of another one.
class Client {
 public:
  explicit Client(ulnet::Instance& node)
      : submitter_(*must(node.submitter_open(ulnet::WorkerId{0}), "submitter")),
        eq_(must(submitter_.eq_open(16), "queue")) {}

  /// One put or get of `memory`. Afterwards the memory is the caller's again.
  void transfer(const char* what, ulnet::Result<void> (ulnet::Submitter::*call)(const ulnet::PutSpec&),
                const ulnet::Nid& target, std::span<char> memory) {
    const ulnet::Segment segment{reinterpret_cast<std::byte*>(memory.data()), uint32_t(memory.size())};
    ulnet::MdSpec md;
    md.segments = {&segment, 1};
    md.eq = eq_;
    ulnet::PutSpec put;
    put.md = must(submitter_.md_bind(md), "bind");
    put.target.nid = target;
    put.portal = kPortal.value;
    put.match_bits = kBits;
    must((submitter_.*call)(put), what);
    const ulnet::Event event = next();
    if (event.status != 0) die(what, std::strerror(-event.status));
    std::printf("%s: %u bytes\n", what, event.mlength);
    must(submitter_.unlink(put.md), "unlink");
    (void)next();
  }

 private:
  ulnet::Event next() {
    std::array<ulnet::Event, 1> event;
    while (ulnet::eq_wait(submitter_, eq_, event, std::chrono::seconds(1)) == 0) {
    }
    return event[0];
  }

  ulnet::Submitter& submitter_;
  ulnet::EqHandle eq_;
};

}  // namespace

int main() {
  std::array<char, 4096> memory{};
  const auto server = open_node("127.0.0.1@tcp"), user = open_node("127.0.0.2@tcp");

  ulnet::Submitter& serving = *must(server->submitter_open(ulnet::WorkerId{0}), "submitter");
  must(server->portal_open(kPortal, serving.home()), "portal");
  const ulnet::Segment segment{reinterpret_cast<std::byte*>(memory.data()), uint32_t(memory.size())};
  ulnet::MdSpec md;
  md.segments = {&segment, 1};
  md.options = ulnet::kMdPut | ulnet::kMdGet | ulnet::kMdManageRemote;
  const ulnet::MdHandle lent = must(serving.md_bind(md), "bind");
  must(serving.me_attach(kPortal, ulnet::ProcessId{}, kBits, 0, ulnet::MePosition::kTail, lent), "attach");

  std::array<char, sizeof kGreeting> greeting, back{};
  std::memcpy(greeting.data(), kGreeting, sizeof kGreeting);
  Client client(*user);
  const ulnet::Nid target = server->nids().front();
  client.transfer("put", &ulnet::Submitter::put, target, greeting);
  client.transfer("get", &ulnet::Submitter::get, target, back);
  std::printf("got back: %s\n", back.data());

  user->close();
  server->close();  // until then, `memory` is lent
  return back == greeting ? 0 : 1;
}
