// The relay: a helper process that passes messages between the dpbench processes of all ranks (harness/worker/relay.h).
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
  // Returns the messages received since the last call. Throws UsageError or std::runtime_error if the other ranks
  // cannot be reached.
  std::vector<Json> receive();

 private:
  Child child_;
  Fd socket_;
  std::string unread_;
};

}  // namespace dpbench
