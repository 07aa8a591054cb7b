// Tables for choose_path(). A row gives this node, its peers, its routes and a message in numbers, and the path that is
// expected. The rig builds the views of a node with two workers from it: worker 0 chooses, worker 1 serves all peers
// and sends. Each number that one worker keeps is turned round at the other, so that a look at the wrong worker is
// found.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "dataplane/select/path.h"

namespace ulnet::test {

/// A NID of these tests, as "1@tcp": number and net.
[[nodiscard]] Nid nid(const std::string& text);
[[nodiscard]] std::string text(const Nid& nid);

/// A local NI.
struct NiSpec {
  const char* nid = "";
  bool fatal = false, leaving = false, closing = false;
  uint16_t health = kHealthMax;
  uint32_t priority = kNoPriority;
  uint32_t numa = UINT32_MAX;                    ///< node of its device
  std::vector<uint32_t> device_priorities = {};  ///< by accelerator
  int32_t credits = 8;                           ///< free, less those who wait
  uint32_t used = 0;                             ///< its sequence: when it was chosen last
};
/// An entry of a list of preferences.
struct Preferred {
  const char* nid = "";
  uint32_t rank = 0;
  Preferred(const char* of, uint32_t its_rank = 0) : nid(of), rank(its_rank) {}  // NOLINT: rows give the NID alone
};
/// A peer NI.
struct PeerNiSpec {
  const char* nid = "";
  bool down = false;
  bool known_down = false;
  bool no_memory = false;  ///< the bound on peer NIs was reached: nothing can be sent to it
  uint16_t health = kHealthMax;
  uint32_t priority = kNoPriority;
  std::vector<Preferred> preferred;           ///< local NIDs
  std::vector<Preferred> preferred_gateways;  ///< their primary NIDs
  uint32_t queued_kib = 0;                    ///< KiB under way to it
  int32_t credits = 8;
  uint32_t used = 0;
};
struct NetPriority {
  const char* net = "";
  uint32_t priority = 0;
};
struct PeerSpec {
  std::vector<PeerNiSpec> nis;  ///< the first one is its primary NID
  std::vector<NetPriority> nets = {};
  bool multi_rail = false;
  bool router = false;
  bool stale = false;  ///< not up to date
};
[[nodiscard]] PeerSpec multi_rail(std::vector<PeerNiSpec> nis, std::vector<NetPriority> nets = {});
[[nodiscard]] PeerSpec plain(std::vector<PeerNiSpec> nis);  ///< not multi-rail
[[nodiscard]] PeerSpec gateway(std::vector<PeerNiSpec> nis);
[[nodiscard]] PeerSpec stale(PeerSpec peer);

struct RouteSpec {
  const char* net = "";
  const char* gateway = "";
  uint32_t priority = 0;
  int32_t hops = -1;
  bool dead = false;
  uint32_t used = 0;
};
/// The message: PathRequest in text.
struct Ask {
  const char* dst = nullptr;  ///< null, here and below: ANY
  const char* src = nullptr;
  const char* via = nullptr;
  const char* origin = nullptr;
  bool response = false, portal0 = false, recovery = false, forward = false, as_given = false, tried_any = false;
  uint32_t numa = UINT32_MAX, accelerator = UINT32_MAX;
  std::optional<Tried> tried = {};  ///< none: it has not failed yet
};

/// `expect` is one of
///   "1@tcp > 11@tcp"            from that NI to that peer NI, which is also the destination in the header
///   "1@tcp > 91@tcp > 21@gni"   by way of a gateway: the last one is the destination in the header
///   "loopback 0@lo > 0@lo"      source and destination in the header
///   "look up 11@tcp"            waits for control; "discover 11@tcp": the peer is known and not up to date
///   "EHOSTUNREACH remote"       fails, and whose fault that is for health
struct Row {
  const char* why = "";  ///< the criterion that decides
  std::vector<NiSpec> nis;
  std::vector<NetPriority> nets = {};
  std::vector<PeerSpec> peers;
  std::vector<RouteSpec> routes = {};
  uint32_t numa_range = 0;
  bool discover_gateways = false;
  bool level = false;      ///< all NIs have as many tx credits, all peer NIs too
  bool one_order = false;  ///< the order of candidates decides; else the row holds in the opposite order, too
  Ask ask;
  const char* expect = "";
};
/// Chooses for each row, in both orders of its candidates.
void check(const std::vector<Row>& rows);
/// The path of a forwarded message over a hop that was chosen before (path_over).
[[nodiscard]] std::string over(const Row& row, const char* hop);

/// The trace of explain_path() for the row, one line for each step. Example:
/// "local NI; 1@tcp loses: health 800 to 900 of 2@tcp; 2@tcp wins: health 900 to 800 of 1@tcp; 3@tcp not: leaving".
[[nodiscard]] std::string explained(const Row& row);
/// explain_path() and choose_path() agree on the row, and the trace with both.
void check_explained(const Row& row, const std::string& where);
/// The paths of `count` messages: played beside the objects, with reasons and without, as sent in earnest. Returns
/// them.
std::vector<std::string> check_play(const Row& row, unsigned count, uint32_t bytes, const std::string& where);

}  // namespace ulnet::test
