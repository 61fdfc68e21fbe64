// The process that carries messages to and from the fronts of the other ranks (harness/worker/relay.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/front/launched/placement.h"
#include "harness/front/spawn.h"
#include "harness/report/protocol.h"

namespace dpbench {

class Relay {
 public:
  Relay(const std::string& worker_program, const Placement& placement, double timeout_s);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  int descriptor() const { return socket_.get(); }
  void send(int rank, const Json& message);
  // What has come by now. Throws UsageError or std::runtime_error once the other ranks cannot be reached any more.
  std::vector<Json> receive();

 private:
  Child child_;
  Fd socket_;
  std::string unread_;
};

}  // namespace dpbench
