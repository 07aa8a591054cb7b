#include "lnd/net/kernel/link_speed_ctl.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <initializer_list>

namespace ulnet {
namespace {

struct SpeedBits {
  uint32_t mbps;
  std::initializer_list<unsigned> bits;
};
/// Bits of ethtool_link_mode_bit_indices (linux/ethtool.h), by the speed of the link mode.
constexpr SpeedBits kSpeeds[] = {
    {10, {0, 1, 92}},
    {100, {2, 3, 67, 90, 91}},
    {1000, {4, 5, 17, 41, 68}},
    {2500, {15, 47}},
    {5000, {48}},
    {10000, {12, 18, 19, 20, 42, 43, 44, 45, 46}},
    {20000, {21, 22}},
    {25000, {31, 32, 33}},
    {40000, {23, 24, 25, 26}},
    {50000, {34, 35, 40, 52, 53, 54, 55, 56}},
    {56000, {27, 28, 29, 30}},
    {100000, {36, 37, 38, 39, 57, 58, 59, 60, 61, 75, 76, 77, 78, 79}},
    {200000, {62, 63, 64, 65, 66, 80, 81, 82, 83, 84}},
    {400000, {69, 70, 71, 72, 73, 85, 86, 87, 88, 89}},
};

/// Room for the masks: supported, advertised, and of the partner.
constexpr size_t kMaskWordsMax = 16;
constexpr size_t kHeadWords = sizeof(ethtool_link_settings) / sizeof(uint32_t);
/// ethtool_link_settings, then the masks.
using Answer = std::array<uint32_t, kHeadWords + 3 * kMaskWordsMax>;

/// `words`: of a mask. The result is the same number if it is right. If not, it is the right number, negated. 0: there
/// is no answer.
int ask(int socket, const std::string& device, int words, Answer& answer) {
  ethtool_link_settings head{};
  head.cmd = ETHTOOL_GLINKSETTINGS;
  head.link_mode_masks_nwords = int8_t(words);
  std::memcpy(answer.data(), &head, sizeof head);
  ifreq request{};
  std::strncpy(request.ifr_name, device.c_str(), IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(answer.data());
  if (::ioctl(socket, SIOCETHTOOL, &request) != 0) return 0;
  std::memcpy(&head, answer.data(), sizeof head);
  return head.link_mode_masks_nwords;
}

/// The highest speed of the link modes that the interface supports; 0 = it names none.
uint32_t best_speed(int socket, const std::string& device) {
  Answer answer{};
  const int words = -ask(socket, device, 0, answer);
  if (words <= 0 || words > int(kMaskWordsMax) || ask(socket, device, words, answer) != words) return 0;
  return best_of_modes(std::span(answer).subspan(kHeadWords, size_t(words)));
}

}  // namespace

uint32_t best_of_modes(std::span<const uint32_t> modes) {
  uint32_t best = 0;
  for (const SpeedBits& speed : kSpeeds)
    for (const unsigned bit : speed.bits)
      if (bit / 32 < modes.size() && (modes[bit / 32] >> bit % 32 & 1) != 0) best = std::max(best, speed.mbps);
  return best;
}

LinkSpeed link_speed_of(const std::string& interface) {
  const std::string device = interface.substr(0, interface.find(':'));
  LinkSpeed speed;
  std::ifstream file("/sys/class/net/" + device + "/speed");
  long mbps = -1;
  if (file >> mbps && mbps > 0) speed.mbps = uint32_t(mbps);
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return speed;
  speed.best_mbps = std::max(speed.mbps, best_speed(socket, device));
  ::close(socket);
  return speed;
}

}  // namespace ulnet
