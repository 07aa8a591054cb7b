// Credits of one node in a test: whether each comes home, also those of NIs and peer NIs that are removed while the
// node runs, and of nodes that are killed. Holds what the node gives its workers beside it: what nobody else holds any
// more, the node has let go of.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "control/control.h"

namespace ulnet::test {

class CreditsWatch {
 public:
  /// To call after each turn of control: takes note of what is new. "" or what was let go of and was not at rest.
  std::string look(Control& control);
  /// To call before the node is killed: whatever is out belongs to something under way. "" or what does not.
  [[nodiscard]] std::string not_accounted() const;
  /// To call when the node has stopped: everything that it ever had is at rest. "" or what is not. Forgets it all.
  std::string end();
  /// Without a look.
  void forget();

 private:
  Epoch seen_{};
  std::map<const void*, std::shared_ptr<NiSlice>> nis_;
  std::map<const void*, std::shared_ptr<PeerBlocks>> peers_;
};

}  // namespace ulnet::test
