// Exchanges lines of JSON with the front over the inherited socket.
#pragma once

#include <optional>
#include <string>

#include "harness/report/record/protocol.h"

namespace dpbench {

class Channel {
 public:
  explicit Channel(int descriptor);

  // Returns the next command, or nullopt if the front has closed its end.
  std::optional<Json> receive();
  void send(const Json& event);

 private:
  int descriptor_;
  std::string pending_;
};

}  // namespace dpbench
