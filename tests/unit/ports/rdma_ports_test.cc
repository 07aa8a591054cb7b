// `port show` of RDMA devices, from folders that look as the kernel's.
#include "tools/ulnetd/ports/rdma_ports.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "config/emit.h"
#include "tools/ulnetd/ports/show_ports.h"

namespace ulnet {
namespace {

namespace fs = std::filesystem;
using config::emit;

class RdmaPorts : public testing::Test {
 protected:
  RdmaPorts() {
    std::string name = (fs::temp_directory_path() / "rdma_ports.XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    root = devices = name;
  }
  ~RdmaPorts() override { fs::remove_all(root); }

  void write(const fs::path& at, const std::string& text) {
    fs::create_directories((root / at).parent_path());
    std::ofstream(root / at) << text << '\n';
  }
  /// As rdma_rxe has it: no device below it, and one GID for the link-local address.
  void add_rxe() {
    write("rxe0/ports/1/state", "4: ACTIVE");
    write("rxe0/ports/1/phys_state", "5: LINK_UP");
    write("rxe0/ports/1/link_layer", "Ethernet");
    write("rxe0/ports/1/rate", "2.5 Gb/sec (1X SDR)");
    write("rxe0/ports/1/gids/0", "fe80:0000:0000:0000:0050:56ff:fe00:0001");
    write("rxe0/ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:0a0a:0001");
    write("rxe0/ports/1/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000");
    write("rxe0/ports/1/gid_attrs/ndevs/0", "eth0");
    write("rxe0/ports/1/gid_attrs/ndevs/1", "eth0");
    write("rxe0/ports/1/hw_counters/rcvd_pkts", "12");
    write("rxe0/ports/1/hw_counters/rcvd_rnr_err", "0");
    write("rxe0/ports/1/hw_counters/lifespan", "10");
  }
  /// A card with two ports; the second has no cable.
  void add_card() {
    write("devices/0000:3b:00.0/vendor", "0x15b3");
    write("drivers/mlx5_core/version", "6");
    fs::create_directory_symlink(root / "drivers/mlx5_core", root / "devices/0000:3b:00.0/driver");
    for (const std::string port : {"1", "2"}) {
      const fs::path at = fs::path("mlx5_0/ports") / port;
      write(at / "state", port == "1" ? "4: ACTIVE" : "1: DOWN");
      write(at / "rate", port == "1" ? "100 Gb/sec (4X EDR)" : "a cable?");
      write(at / "link_layer", "InfiniBand");
      write(at / "counters/port_rcv_data", "18446744073709551615");
      write(at / "counters/broken", "N/A (no PMA)");
    }
    fs::create_directory_symlink(root / "devices/0000:3b:00.0", root / "mlx5_0/device");
    fs::rename(root / "mlx5_0", root / "class/mlx5_0");
  }
  std::string shown(const std::string& name, int verbosity) {
    api::Request request;
    if (!name.empty()) request.args["name"] = name;
    request.args["verbose"] = verbosity;
    const api::Answer answer = show_ports(nullptr, devices, request);
    return answer.doc.is_null() ? "" : emit(answer.doc);
  }

  fs::path root, devices;
};

TEST_F(RdmaPorts, a_machine_without_devices) {
  EXPECT_TRUE(rdma_ports(root).empty());
  EXPECT_TRUE(rdma_ports(root / "none").empty());
  EXPECT_EQ(shown("", 4), "");
}

TEST_F(RdmaPorts, a_device_of_one_port) {
  add_rxe();
  EXPECT_EQ(
      shown("", 0),
      "port:\n    - name: rxe0\n      device: rxe0\n      driver: rdma\n      status: up\n      port state: ACTIVE\n"
      "      physical state: LINK_UP\n      link layer: Ethernet\n      speed: 2500\n      interfaces:\n"
      "        - eth0\n      addresses:\n        - fe80::50:56ff:fe00:1\n        - 10.10.0.1\n");
  EXPECT_EQ(shown("rxe0", 1), shown("", 0) +
                                  "      device counts:\n          rcvd_pkts: 12\n"
                                  "          rcvd_rnr_err: 0\n");
}

TEST_F(RdmaPorts, a_device_of_two_ports) {
  fs::create_directory(root / "class");
  add_card();
  devices /= "class";
  const auto ports = rdma_ports(devices);
  ASSERT_EQ(ports.size(), 2u);
  EXPECT_EQ(ports[0].name, "mlx5_0/1");
  EXPECT_EQ(ports[1].name, "mlx5_0/2");
  EXPECT_EQ(emit(rdma_port_doc(ports[0], 1)),
            "name: mlx5_0/1\ndevice: 0000:3b:00.0\ndriver: mlx5_core\nstatus: up\nport state: ACTIVE\n"
            "link layer: InfiniBand\nspeed: 100000\naddresses: []\ndevice counts:\n"
            "    port_rcv_data: 18446744073709551615\n");
  EXPECT_EQ(shown("mlx5_0/2", 0),
            "port:\n    - name: mlx5_0/2\n      device: 0000:3b:00.0\n      driver: mlx5_core\n      status: down\n"
            "      port state: DOWN\n      link layer: InfiniBand\n      addresses: []\n");
}

TEST_F(RdmaPorts, a_name_that_no_port_has) {
  add_rxe();
  api::Request request;
  request.args["name"] = "rxe1";
  const api::Answer answer = show_ports(nullptr, devices, request);
  ASSERT_EQ(answer.errors.size(), 1u);
  EXPECT_EQ(answer.errors[0].descr, "there is no port 'rxe1'; known: rxe0");
}

}  // namespace
}  // namespace ulnet
