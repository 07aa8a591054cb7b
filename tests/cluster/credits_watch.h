// Watches the credits of one node in a test. Each credit must come back, also those of NIs and peer NIs that are
// removed while the node runs, and those of killed nodes. The watch shares ownership of the objects that the node gives
// its workers. If the watch is the last holder of an object, the node has released it.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "control/control.h"

namespace ulnet::test {

class CreditsWatch {
 public:
  /// To call after each turn of control: records new objects. "" or the released objects that were not at rest.
  std::string look(Control& control);
  /// To call before the node is killed: credits that are out belong to messages under way. "" or those that do not.
  [[nodiscard]] std::string not_accounted() const;
  /// To call when the node has stopped: all recorded objects are at rest. "" or those that are not. Forgets all.
  std::string end();
  /// Forgets all without a check.
  void forget();

 private:
  Epoch seen_{};
  bool remote_writes_ = false;  // a REPLY may have a token
  std::map<const void*, std::shared_ptr<NiSlice>> nis_;
  std::map<const void*, std::shared_ptr<PeerBlocks>> peers_;
};

}  // namespace ulnet::test
