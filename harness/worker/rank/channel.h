// Exchanges lines of JSON with the front (the dpbench process) over the socket that this worker inherited.
#pragma once

#include <optional>
#include <string>

#include "harness/report/record/protocol.h"

namespace dpbench {

class Channel {
 public:
  explicit Channel(int descriptor);

  // Waits for the front's next command. Returns nullopt if the front has closed its end of the socket.
  std::optional<Json> receive();
  void send(const Json& event);

 private:
  int descriptor_;
  std::string pending_;
};

}  // namespace dpbench
