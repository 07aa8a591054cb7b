// `ulnetd --check` and a start judge a configuration by the same function. A setting that this machine cannot provide
// is an error with its place.
#include "tools/ulnetd/check.h"

#include "config/load.h"
#include "tests/unit/control/node_rig.h"

namespace ulnet::test {
namespace {

std::string check(const std::string& yaml) {
  TableDevices devices;
  devices.add("eth0", {"10.1.0.1@tcp"});
  config::Imported imported = config::load_text(yaml, "f");
  config::Problems problems =
      imported.errors.empty() ? check_configuration(imported.changes, &devices) : imported.errors;
  std::string text;
  for (const config::Problem& problem : problems) text += config::problem_text(problem) + "\n";
  return text;
}

TEST(Check, a_configuration_that_fits_the_machine_is_good) {
  EXPECT_EQ(check(""), "");
  EXPECT_EQ(check("net:\n  - {net type: tcp, interfaces: {0: eth7}, CPT: '[0]'}\n"), "") << "is waited for";
  EXPECT_EQ(check("ip2nets:\n  - {net-spec: tcp, ip-range: {0: 10.1.0.*}}\n"), "");
}

TEST(Check, a_missing_driver_cpt_or_address_is_an_error_with_its_place) {
  EXPECT_EQ(check("net:\n  - net type: kfi\n    interfaces: {0: ib0}\n"), "f:2:5: this node has no driver for kfi\n");
  const std::string cpt =
      check("net:\n  - net type: tcp\n    local NI(s):\n      - interfaces:\n          0: eth0[900]\n");
  EXPECT_EQ(cpt.substr(0, cpt.rfind('.') + 1), "f:4:9: invalid CPT value 900: this node has worker groups 0..") << cpt;
  EXPECT_EQ(check("ip2nets:\n  - {net-spec: tcp, ip-range: {0: 10.9.0.*}}\n"),
            "f:2:5: no interfaces match ip2nets rules; addresses of this node: 10.1.0.1 on eth0\n");
  EXPECT_NE(check("ulnet: {cores: '4095'}\n").find("f:1:16: cannot place the workers: "), std::string::npos)
      << check("ulnet: {cores: '4095'}\n");
  EXPECT_NE(check("udsp:\n  - src: nonsense\n").find("f:2:10: udsp[0].src: 'nonsense'"), std::string::npos);
}

}  // namespace
}  // namespace ulnet::test
