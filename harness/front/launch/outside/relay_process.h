// The process that relays messages between this front and those of the other ranks (harness/worker/relay.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/front/launch/outside/placement.h"
#include "harness/front/process/spawn.h"
#include "harness/report/record/protocol.h"

namespace dpbench {

class RelayProcess {
 public:
  RelayProcess(const std::string& worker_program, const Placement& placement, double timeout_s);
  ~RelayProcess();
  RelayProcess(const RelayProcess&) = delete;
  RelayProcess& operator=(const RelayProcess&) = delete;

  int descriptor() const { return socket_.get(); }
  void send(int rank, const Json& message);
  // Returns the messages received so far. Throws UsageError or std::runtime_error if the other ranks are out of reach.
  std::vector<Json> receive();

 private:
  Child child_;
  Fd socket_;
  std::string unread_;
};

}  // namespace dpbench
