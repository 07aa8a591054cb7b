// The ports of a ulnetd as its control socket sees them.
#include "tools/ulnetd/ports/ports.h"

#include "tests/unit/ports/port_host.h"
#include "tools/ulnetd/ports/show_ports.h"

namespace ulnet {
namespace {

class PortsTest : public testing::Test {
 protected:
  static std::vector<config::DeviceConfig> devices(std::initializer_list<const char*> names) {
    std::vector<config::DeviceConfig> out;
    for (const char* name : names) {
      config::DeviceConfig device;
      device.name = name;
      device.device = "null";
      device.in_flight = 64;
      device.rx_depth = device.tx_depth = 64;
      out.push_back(device);
    }
    return out;
  }
  config::Checked<void> open(const std::vector<config::DeviceConfig>& list) {
    Ports::Deps deps;
    deps.log = [this](const std::string& line) { log.push_back(line); };
    deps.reply = [this](api::RequestId id, const api::Answer& answer) { answers[id.id].push_back(answer); };
    deps.backlog = [this](api::RequestId) { return backlog; };
    auto opened = Ports::open(list, port_host(), std::move(deps));
    if (!opened) return tl::unexpected(opened.error());
    ports = std::move(*opened);
    return {};
  }
  void TearDown() override {
    if (ports != nullptr) ports->close();
  }
  api::RequestId request(void (Ports::*what)(api::RequestId, const api::Request&), config::Json args) {
    api::Request request;
    request.id = ++last_;
    request.args = std::move(args);
    (ports.get()->*what)({1, last_}, request);
    return {1, last_};
  }
  [[nodiscard]] bool answered(api::RequestId id) {
    return turn_until([this] { ports->turn(clock_now()); },
                      [&] { return !answers[id.id].empty() && !answers[id.id].back().more; });
  }
  /// The text of the answer's error; empty if there is none.
  std::string error(api::RequestId id) {
    if (!answered(id)) return "no answer";
    const auto& errors = answers[id.id].back().errors;
    return errors.empty() ? "" : errors[0].descr;
  }

  std::vector<std::string> log;
  std::map<uint64_t, std::vector<api::Answer>> answers;
  size_t backlog = 0;
  std::unique_ptr<Ports> ports;

 private:
  uint64_t last_ = 0;
};

TEST_F(PortsTest, refused) {
  EXPECT_EQ("ulnet: devices: two ports have the name 'rail0'", open(devices({"rail0", "rail0"})).error().what);
  auto list = devices({"rail0"});
  list[0].device = "eth0";
  HostConfig needs;
  EXPECT_EQ("ulnet: devices: rail0: a device is a PCI address, memif, tap, af_xdp, af_packet, null, ring or pcap",
            Ports::host_needs(list, needs).error().what);
  list[0].device = "memif,role=client,socket=" + Folder().path("none");
  EXPECT_TRUE(open(list).error().what.starts_with(
      "port rail0: memif's client finds no server at its socket: start the server first: "));
}

TEST_F(PortsTest, show) {
  ASSERT_TRUE(open(devices({"rail0", "rail1"})).has_value());
  const auto shown = [this](const api::Json& args) {
    api::Request request;
    request.args = args;
    return show_ports(ports.get(), "/no/devices", request);
  };
  const api::Answer all = shown({{"verbose", 2}});
  const config::Doc* list = all.doc.find("port");
  ASSERT_EQ(2u, list->size());
  EXPECT_EQ("rail1", list->at(1).find("name")->text());
  EXPECT_EQ(2u, list->at(1).find("queue")->size());
  EXPECT_EQ("yes", list->at(1).find("offloads")->find("rss")->text());
  EXPECT_EQ(1u, shown({{"name", "rail1"}}).doc.find("port")->size());
  EXPECT_EQ("there is no port 'rail2'; known: rail0, rail1", shown({{"name", "rail2"}}).errors.at(0).descr);
}

TEST_F(PortsTest, reset) {
  ASSERT_TRUE(open(devices({"rail0"})).has_value());
  const auto first = request(&Ports::reset, {{"name", "rail0"}});
  EXPECT_EQ("port rail0 is being reset", error(request(&Ports::reset, {{"name", "rail0"}})));
  EXPECT_EQ("", error(first));
  ASSERT_GE(log.size(), 3u);
  EXPECT_EQ((std::vector<std::string>{"port rail0: link down", "port rail0: reset", "port rail0: link up"}),
            std::vector<std::string>(log.end() - 3, log.end()));
  EXPECT_EQ("there is no port 'x'; known: rail0", error(request(&Ports::reset, {{"name", "x"}})));
  const auto nobodys = request(&Ports::reset, {{"name", "rail0"}});
  ports->gone(nobodys);
  const auto resets = [this] { return std::count(log.begin(), log.end(), "port rail0: reset"); };
  ASSERT_TRUE(turn_until([this] { ports->turn(clock_now()); }, [&] { return resets() == 2; }));
  EXPECT_TRUE(answers[nobodys.id].empty());
}

// Goal: the capture ends whether its client leaves, reads slowly, or stays until the daemon stops.
TEST_F(PortsTest, captures_end) {
  ASSERT_TRUE(open(devices({"rail0"})).has_value());
  const auto left = request(&Ports::capture, {{"if", "rail0"}});
  EXPECT_EQ("port rail0 is captured already", error(request(&Ports::capture, {{"if", "rail0"}})));
  ports->gone(left);
  ASSERT_TRUE(turn_until([this] { ports->turn(clock_now()); }, [this] { return !ports->captured(); }));
  const auto timed = request(&Ports::capture, {{"if", "rail0"}, {"seconds", 1}, {"size", 4096}});
  EXPECT_EQ("", error(timed));
  const auto asleep = request(&Ports::capture, {{"if", "rail0"}});
  backlog = api::kOutputMax;
  ports->captures_stop();
  EXPECT_EQ("", error(asleep));
  EXPECT_FALSE(ports->captured());
  EXPECT_EQ("ulnetd is stopping", error(request(&Ports::capture, {{"if", "rail0"}})));
}

TEST_F(PortsTest, captures_refused) {
  ASSERT_TRUE(open(devices({"rail0"})).has_value());
  EXPECT_EQ("there is no port 'x'; known: rail0", error(request(&Ports::capture, {{"if", "x"}})));
  const std::string said = error(request(&Ports::capture, {{"if", "rail0"}, {"filter", "no such thing"}}));
  EXPECT_TRUE(said.find("libpcap refuses the filter") != said.npos || said.find("without libpcap") != said.npos)
      << said;
  EXPECT_FALSE(ports->captured());
}

}  // namespace
}  // namespace ulnet
