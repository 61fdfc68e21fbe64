// Rank 0's connection to the ranks that an outside launcher has started: their placement, messages and heartbeats.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "harness/front/launch/outside/relay_process.h"

namespace dpbench {

// Limits of the heartbeats {"do":"alive"} (rank 0 to agent) and {"alive":true} (agent to rank 0). A rank that is silent
// for silent_seconds counts as gone.
inline constexpr double alive_every_seconds = 2, silent_seconds = 10;

enum class AgentOrder { alive, open, tell, quit, kill, end };
template <>
inline constexpr auto enum_names<AgentOrder> =
    std::to_array<std::string_view>({"alive", "open", "tell", "quit", "kill", "end"});

// Messages from rank 0 to the agents (the dpbench processes of the other ranks):
// {"do":"open","spec":{..},"timeout_s":30,"directory":"/dev/shm/.."}   start a worker for a group
// {"do":"tell","group":"NAME","message":{..}}                          send the message to the worker
// {"do":"quit"|"kill","group":"NAME"}                                  end the worker
// {"do":"end","code":0}                                                end the run with this exit code
// Messages from an agent to rank 0; messages with "group" are about the worker of that agent:
// {"rank":1,"hello":{..}}                                              the rank and its host
// {"rank":1,"group":"NAME","line":".."}                                message that the worker sent
// {"rank":1,"group":"NAME","death":STATUS,"why":".."}                  the worker died
// {"rank":1,"group":"NAME","words":".."}                               last lines of the dead worker's log
// {"rank":1,"group":"NAME","offence":".."}                             the worker violated the protocol or a limit
// {"rank":1,"group":"NAME","state":[..]}                               the worker's progress (rank_state.h)
// {"rank":1,"group":"NAME","closed":["complaint",..]}                  the worker has ended
// {"rank":1,"signal":15}                                               the agent received a signal
// {"rank":1,"gone":"why"}                                              the agent failed
// {"rank":1,"bye":true}                                                the agent exits after the end of the run
class World {
 public:
  World(const std::string& worker_program, const Placement& placement, double timeout_s);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  const Placement& placement() const { return placement_; }
  int descriptor() const { return relay_.descriptor(); }
  int ranks() const { return placement_.world; }

  // Waits for the "hello" message of every rank. Throws std::runtime_error naming the missing ranks, or UsageError if
  // the ranks of a host are not consecutive.
  void gather(const Json& own_hello);
  // Returns the "hello" message in which a rank described itself and its host.
  const Json& hello(int rank) const { return hellos_[static_cast<size_t>(rank)]; }
  // Returns for each rank the name of its host; empty if all ranks share one host.
  std::vector<std::string> names_of_hosts() const;
  // Returns the private directory that the ranks of a rank's host share. It belongs to the host's local rank 0.
  std::string directory_of(int rank) const;

  void tell(int rank, const Json& message) { relay_.send(rank, message); }
  void tell_others(const Json& message);
  // Returns the messages received since the last call, and sends heartbeats. Throws if the other ranks cannot be
  // reached.
  std::vector<Json> receive();
  // Sends heartbeats and handles signals from the other ranks while only rank 0 runs a case.
  void keep_alive();
  int open_groups = 0;  // number of open groups; call keep_alive() only if it is 0, as open groups read the messages
  // Returns the ranks that have failed, or have sent nothing for silent_seconds, each with the reason.
  std::map<int, std::string> gone() const;

  // True if the launcher, the parent of this process, has exited.
  bool launcher_is_gone() const;

  // Ends the run on all ranks with exit code `code`.
  void end(int code);

 private:
  void record_hello(const Json& message);

  Placement placement_;
  double timeout_s_;
  pid_t parent_;
  RelayProcess relay_;
  std::vector<Json> hellos_;
  std::vector<double> last_heard_;
  std::map<int, std::string> gone_reasons_;
  double alive_sent_at_ = 0;
  bool ended_ = false;
};

// Throws UsageError unless each host has consecutive ranks, and its local ranks count them from 0. `hellos` holds the
// "hello" message of each rank.
void check_ranks_of_hosts(const std::vector<Json>& hellos);

// Returns the list `hosts` of a report: name, ranks, fingerprint, processor, cores, memory and GPUs of each host.
Json hosts_block(const World& world);

}  // namespace dpbench
